/* SPDX-License-Identifier: MIT */
/* Persistent workers: domains that are retained, what a reset does, how they end. */
#include <errno.h>
#include <string.h>

#include "base/testing.h"
#include "rings.h"

static const enum rp_window_reset resets[] = { RP_WINDOWS_RESET, RP_WINDOWS_RESET_EAGER };

static void options_of(struct rp_worker_options *options, uint32_t chips,
		       enum rp_window_reset reset)
{
	ring_options(options, chips);
	options->persistent = true;
	options->reset_windows = reset;
}

static void open_persistent(struct bed *bed, uint32_t chips, enum rp_window_reset reset)
{
	struct rp_worker_options options;

	options_of(&options, chips, reset);
	ring_open(bed, &options);
}

static void a_reset_needs_persistent(void **state)
{
	struct rp_program *program = ring_program("p");
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	for (size_t i = 0; i < COUNT(resets); i++) {
		options_of(&options, 1, resets[i]);
		options.persistent = false;
		assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker),
				 -EINVAL);
		assert_says("reset_windows", "without persistent");
	}
	options_of(&options, 1, (enum rp_window_reset)4);
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EINVAL);
	options_of(&options, 1, RP_WINDOWS_DEFAULT);
	options.reset_engine = (enum rp_reset_engine)9;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EINVAL);
	rp_program_free(program);
}

static void a_domain_is_allocated_once_and_released_at_close(void **state)
{
	struct rp_worker_stats stats;
	struct bed bed;

	(void)state;
	open_persistent(&bed, 2, RP_WINDOWS_DEFAULT);
	assert_ok(ring_run(&bed, ring_of("a", 8192, RING_FILL, 7)));
	stats = bed_stats(&bed);
	assert_int_equal(stats.window_resets, 0); /* fresh memory */
	for (int i = 1; i < 100; i++)
		assert_ok(ring_run(&bed, ring_of("a", 8192, RING_FILL, 7)));
	stats = bed_stats(&bed);
	assert_int_equal(stats.domains_allocated, 1);
	assert_int_equal(stats.domains_leased, 99);
	assert_int_equal(stats.domains_released, 0);
	assert_int_equal(stats.window_resets, 2 * 99);
	assert_int_equal(stats.window_bytes_reset, UINT64_C(2) * 99 * 8192);
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	assert_int_equal(bed_stats(&bed).domains_released, 1);
	bed_close(&bed);
}

/* Slack included: RING_FILL and RING_EXPECT cover the whole window. */
static void every_run_finds_zeroed_windows(void **state)
{
	static const enum rp_reset_engine engines[] = { RP_RESET_AUTO, RP_RESET_MEMSET,
							RP_RESET_STREAM, RP_RESET_CHUNK,
							RP_RESET_AHEAD };
	struct rp_worker_options options;
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < COUNT(resets) * COUNT(engines); i++) {
		options_of(&options, 2, resets[i % COUNT(resets)]);
		options.reset_engine = engines[i / COUNT(resets)];
		ring_open(&bed, &options);
		for (int round = 0; round < 20; round++) {
			assert_ok(ring_run(&bed, ring_of("a", ((size_t)1 << 20) + 17,
							 RING_EXPECT, 0)));
			assert_ok(ring_run(&bed, ring_of("a", ((size_t)1 << 20) + 17,
							 RING_FILL, 0xff)));
		}
		bed_close(&bed);
	}
}

/* What one task writes the next one of the run finds. */
static int fill_and_expect(struct rp_run *run, void *arg)
{
	struct ring ring = *(struct ring *)arg;
	struct rp_domain *domain;

	assert_ok(rp_run_domain(run, &ring.spec, &domain));
	ring.act = RING_EXPECT;
	ring.operand = 0;
	assert_ok(ring_tasks(run, &ring, domain));
	ring.act = RING_FILL;
	ring.operand = 7;
	assert_ok(ring_tasks(run, &ring, domain));
	ring.act = RING_EXPECT;
	return ring_tasks(run, &ring, domain);
}

static int lease_only(struct rp_run *run, void *arg)
{
	struct rp_domain *domain;

	return rp_run_domain(run, &((struct ring *)arg)->spec, &domain);
}

static void a_lone_member_is_reset_once_a_run(void **state)
{
	struct ring ring = ring_of("a", 8192, RING_EXPECT, 0);
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < COUNT(resets); i++) {
		open_persistent(&bed, 1, resets[i]);
		for (int round = 0; round < 20; round++)
			assert_ok(ring_submit(bed.worker, bed.program, fill_and_expect,
					      &ring, NULL));
		if (resets[i] == RP_WINDOWS_RESET) {
			assert_int_equal(bed_stats(&bed).window_resets, 19);
			assert_int_equal(bed_stats(&bed).window_bytes_reset, 19 * 8192);
		}
		/* A run that does not come to use it leaves that to the next one. */
		assert_ok(ring_submit(bed.worker, bed.program, lease_only, &ring, NULL));
		assert_ok(ring_run(&bed, ring));
		bed_close(&bed);
	}
}

static int zero_and_expect(struct rp_run *run, void *arg)
{
	struct rp_domain *domain;

	assert_ok(rp_run_domain(run, &((struct ring *)arg)->spec, &domain));
	assert_ok(rp_run_zero_domain(run, domain, NULL));
	return ring_tasks(run, arg, domain);
}

static void a_lone_member_is_zeroed_by_the_orchestration_too(void **state)
{
	struct ring ring = ring_of("a", 8192, RING_EXPECT, 0);
	struct bed bed;

	(void)state;
	open_persistent(&bed, 1, RP_WINDOWS_RESET_OFF);
	assert_ok(ring_run(&bed, ring_of("a", 8192, RING_FILL, 5)));
	assert_ok(ring_run(&bed, ring_of("a", 8192, RING_EXPECT, 5)));
	assert_ok(ring_submit(bed.worker, bed.program, zero_and_expect, &ring, NULL));
	bed_close(&bed);
}

static void without_a_reset_contents_stay_bit_for_bit(void **state)
{
	struct bed bed;

	(void)state;
	open_persistent(&bed, 2, RP_WINDOWS_RESET_OFF);
	for (int i = 1; i < 50; i++) {
		assert_ok(ring_run(&bed, ring_of("a", 10000, RING_FILL, (uint64_t)i)));
		assert_ok(ring_run(&bed, ring_of("a", 10000, RING_EXPECT, (uint64_t)i)));
	}
	assert_int_equal(bed_stats(&bed).window_resets, 0);
	bed_close(&bed);
}

static struct ring parts_of(enum ring_act act, uint64_t operand)
{
	static const struct rp_domain_buffer parts[] = {
		{ "default", RP_UINT8, RP_BUFFER_DEFAULT, 100 },
		{ "reset", RP_UINT8, RP_BUFFER_RESET, 1000 },
		{ "keep", RP_UINT8, RP_BUFFER_KEEP, 3000 },
		{ "last", RP_UINT8, RP_BUFFER_RESET, 64 },
	};
	struct ring ring = ring_of("parts", 8192, act, operand);

	ring.spec.buffers = parts;
	ring.spec.buffer_count = COUNT(parts);
	return ring;
}

static void a_buffer_may_be_reset_or_kept_by_itself(void **state)
{
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < COUNT(resets); i++) {
		open_persistent(&bed, 2, resets[i]);
		assert_ok(ring_run(&bed, parts_of(RING_FILL, 9)));
		assert_ok(ring_run(&bed, parts_of(RING_BUFFERS, 0x0900)));
		bed_close(&bed);
	}
	open_persistent(&bed, 2, RP_WINDOWS_RESET_OFF);
	assert_ok(ring_run(&bed, parts_of(RING_FILL, 9)));
	assert_ok(ring_run(&bed, parts_of(RING_BUFFERS, 0x0909)));
	bed_close(&bed);
}

static void equal_names_of_two_programs_stay_apart(void **state)
{
	struct rp_program *programs[2] = { ring_program("p"), ring_program("q") };
	struct ring ring = ring_of("same", 4096, RING_NOTHING, 0);
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	options_of(&options, 2, RP_WINDOWS_RESET_OFF);
	assert_ok(rp_worker_prepare(programs, 2, &options, &worker));
	for (int round = 0; round < 10; round++)
		for (uint64_t i = 0; i < 2; i++) {
			ring.act = round % 2 ? RING_EXPECT : RING_FILL;
			ring.operand = 1 + i;
			assert_ok(ring_submit(worker, programs[i], ring_script, &ring,
					      NULL));
		}
	assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(programs[0]);
	rp_program_free(programs[1]);
}

static void a_changed_specification_is_refused(void **state)
{
	struct ring other;
	struct bed bed;

	(void)state;
	open_persistent(&bed, 2, RP_WINDOWS_DEFAULT);
	assert_ok(ring_run(&bed, parts_of(RING_FILL, 1)));
	other = parts_of(RING_NOTHING, 0);
	other.spec.window_bytes *= 2;
	assert_int_equal(ring_run(&bed, other), -EINVAL);
	assert_says("'parts'", "retained with window bytes 8192", "16384");
	other = parts_of(RING_NOTHING, 0);
	other.spec.buffer_count--;
	assert_int_equal(ring_run(&bed, other), -EINVAL);
	assert_says("buffer_count");
	other = parts_of(RING_NOTHING, 0);
	other.spec.chips = (const uint32_t[]){ 1, 0 };
	other.spec.chip_count = 2;
	assert_int_equal(ring_run(&bed, other), -EINVAL);
	assert_says("member chip");
	other.spec.chip_count = 1;
	assert_int_equal(ring_run(&bed, other), -EINVAL);
	assert_says("chip_count 2, this run says 1");
	/* Nothing had been enqueued: the worker is as good as before. */
	assert_ok(ring_run(&bed, parts_of(RING_BUFFERS, 0x0100)));
	bed_close(&bed);
}

/* The pointers are the same, what they point to is not. */
static void a_specification_that_changes_in_place_is_noticed(void **state)
{
	char name[] = "part", domain[] = "one";
	struct rp_domain_buffer part = { name, RP_UINT8, RP_BUFFER_DEFAULT, 100 };
	struct ring ring = ring_of(domain, 4096, RING_FILL, 7);
	const struct rp_domain_buffer was = part;
	struct bed bed;

	(void)state;
	open_persistent(&bed, 2, RP_WINDOWS_RESET_OFF);
	ring.spec.buffers = &part;
	ring.spec.buffer_count = 1;
	assert_ok(ring_run(&bed, ring));
	ring.act = RING_EXPECT;
	assert_ok(ring_run(&bed, ring));
	name[0] = 'c';
	assert_int_equal(ring_run(&bed, ring), -EINVAL);
	assert_says("buffer 0 named 'part', this run says 'cart'");
	name[0] = 'p';
	part.dtype = RP_INT8;
	assert_int_equal(ring_run(&bed, ring), -EINVAL);
	assert_says("a buffer's dtype");
	part = was;
	part.count++;
	assert_int_equal(ring_run(&bed, ring), -EINVAL);
	assert_says("a buffer's count 100, this run says 101");
	part = was;
	part.reset = RP_BUFFER_KEEP;
	assert_int_equal(ring_run(&bed, ring), -EINVAL);
	assert_says("a buffer's reset");
	part = was;
	part.name = NULL;
	assert_int_equal(ring_run(&bed, ring), -EINVAL);
	assert_says("a buffer's name");
	part = was;
	/* Another name is another domain. */
	domain[0] = 't';
	ring.operand = 0;
	assert_ok(ring_run(&bed, ring));
	domain[0] = 'o';
	ring.operand = 7;
	assert_ok(ring_run(&bed, ring));
	assert_int_equal(bed_stats(&bed).domains_allocated, 2);
	bed_close(&bed);
}

static void a_failure_after_tasks_were_enqueued_is_terminal(void **state)
{
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < COUNT(resets); i++) {
		open_persistent(&bed, 2, resets[i]);
		assert_ok(ring_run(&bed, ring_of("a", 4096, RING_FILL, 1)));
		assert_int_equal(ring_run(&bed, ring_of("a", 4096, RING_FAIL, 0)), -EIO);
		for (int again = 0; again < 3; again++) {
			assert_int_equal(
				ring_run(&bed, ring_of("a", 4096, RING_NOTHING, 0)),
				-EIO);
			assert_says("as it was told");
		}
		assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
		assert_int_equal(bed_stats(&bed).domains_released, 1);
		bed_close(&bed);
	}
}

/* --- One after the other ------------------------------------------------------------ */

#define GATE 5

static int gate_on_chip_0(struct rp_run *run, void *arg)
{
	int err = TASK(run, 0, ENTRY_GATE, rp_arg_u64(GATE));
	int status = *(int *)arg;

	return err || !status ? err : TASK(run, 0, ENTRY_FAIL, rp_arg_i64(status));
}

static int note_on_chip_1(struct rp_run *run, void *arg)
{
	(void)arg;
	return TASK(run, 1, ENTRY_NOTE, rp_arg_u64(1));
}

static int no_task(struct rp_run *run, void *arg)
{
	(void)run;
	(void)arg;
	return 0;
}

static void open_support(struct bed *bed, bool persistent)
{
	struct rp_worker_options options;

	bed_options(&options, 2);
	options.persistent = persistent;
	bed_open_with(bed, &options);
}

static void requests_are_worked_off_one_after_the_other(void **state)
{
	struct rp_handle first, second;
	struct bed bed;
	int good = 0;

	for (int persistent = 0; persistent < 2; persistent++) {
		bed_setup(state);
		open_support(&bed, persistent);
		assert_ok(bed_submit(&bed, gate_on_chip_0, &good, &first));
		gate_await_entered(GATE, 1);
		assert_ok(bed_submit(&bed, note_on_chip_1, NULL, &second));
		if (persistent) {
			bed_give_a_chance();
			assert_int_equal(atomic_load(&board->note_count), 0);
		} else {
			assert_ok(rp_handle_wait(second, RP_WAIT_FOREVER));
		}
		gate_open(GATE);
		assert_ok(rp_handle_wait(second, RP_WAIT_FOREVER));
		assert_int_equal(atomic_load(&board->note_count), 1);
		assert_ok(rp_handle_wait(first, RP_WAIT_FOREVER));
		bed_close(&bed);
	}
}

static void a_run_in_flight_behind_a_failure_ends_with_it(void **state)
{
	struct rp_handle first, second;
	int bad = -EIO, good = 0;
	struct bed bed;

	for (int round = 0; round < 50; round++) {
		bed_setup(state);
		open_support(&bed, true);
		assert_ok(bed_submit(&bed, gate_on_chip_0, &bad, &first));
		gate_await_entered(GATE, 1);
		assert_ok(bed_submit(&bed, round % 3 ? note_on_chip_1 : gate_on_chip_0,
				     &good, &second));
		gate_open(GATE);
		/* Whoever is asked first. */
		if (round % 2)
			assert_int_equal(rp_handle_wait(first, RP_WAIT_FOREVER), -EIO);
		assert_int_equal(rp_handle_wait(second, RP_WAIT_FOREVER), -EIO);
		assert_says("run 1: entry 'fail'");
		assert_int_equal(rp_handle_wait(first, RP_WAIT_FOREVER), -EIO);
		assert_int_equal(bed_run(&bed, no_task, NULL), -EIO);
		assert_int_equal(bed_stats(&bed).dispatches_failed, 2);
		rp_worker_close(bed.worker, RP_WAIT_FOREVER);
		bed_close(&bed);
	}
}

/* It has nothing to do with what the tasks of the other leave. */
static void a_run_without_tasks_does_not_fail_with_the_one_before(void **state)
{
	struct rp_handle first, second;
	int bad = -EIO;
	struct bed bed;

	(void)state;
	open_support(&bed, true);
	assert_ok(bed_submit(&bed, gate_on_chip_0, &bad, &first));
	assert_ok(bed_submit(&bed, no_task, NULL, &second));
	assert_ok(rp_handle_wait(second, RP_WAIT_FOREVER));
	gate_open(GATE);
	assert_int_equal(rp_handle_wait(first, RP_WAIT_FOREVER), -EIO);
	assert_ok(rp_handle_wait(second, RP_WAIT_FOREVER));
	rp_worker_close(bed.worker, RP_WAIT_FOREVER);
	bed_close(&bed);
}

static int give_up(struct rp_run *run, void *arg)
{
	struct rp_domain *domain;

	assert_ok(rp_run_domain(run, &((struct ring *)arg)->spec, &domain));
	return rp_run_fail(run, -EDOM, "no more");
}

static void a_failure_before_any_task_is_not(void **state)
{
	struct ring ring = ring_of("a", 4096, RING_EXPECT, 0);
	struct bed bed;

	(void)state;
	open_persistent(&bed, 2, RP_WINDOWS_DEFAULT);
	assert_ok(ring_run(&bed, ring_of("a", 4096, RING_FILL, 1)));
	assert_int_equal(ring_submit(bed.worker, bed.program, give_up, &ring, NULL),
			 -EDOM);
	assert_ok(ring_run(&bed, ring));
	bed_close(&bed);
}

static const char *failing_point;

static int fail_at_point(const char *point)
{
	return failing_point && !strcmp(point, failing_point) ? -EIO : 0;
}

static void a_release_that_fails_reaches_close(void **state)
{
	static const struct {
		const char *point;
		int err;
		const char *says;
	} cases[] = {
		{ "domain.release", -EIO, "releasing domain 'b' failed" },
		{ "domain.free", -EBUSY, "did not come free" },
	};
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		open_persistent(&bed, 2, RP_WINDOWS_DEFAULT);
		assert_ok(ring_run(&bed, ring_of("a", 4096, RING_FILL, 1)));
		assert_ok(ring_run(&bed, ring_of("b", 4096, RING_FILL, 1)));
		failing_point = cases[i].point;
		rpi_test_hook = fail_at_point;
		/* The newest goes first. */
		assert_int_equal(rp_worker_close(bed.worker, RP_WAIT_FOREVER),
				 cases[i].err);
		assert_says(cases[i].says);
		rpi_test_hook = NULL;
		failing_point = NULL;
		bed_close(&bed);
	}
}

static void generations_count_the_uses(void **state)
{
	struct bed bed;

	(void)state;
	open_persistent(&bed, 2, RP_WINDOWS_RESET_OFF);
	for (uint64_t i = 1; i < 20; i++)
		assert_ok(ring_run(&bed, ring_of("a", 64, RING_GENERATION, i)));
	bed_close(&bed);
}

/* Two in flight, members of different speed: no mark of a peer may be lost to a reset,
 * none of the run before may be found. Returns the first error. */
static int meet_often(uint32_t chips, enum rp_window_reset reset, int rounds)
{
	struct rp_handle handles[2];
	struct bed bed;
	int first = 0;

	open_persistent(&bed, chips, reset);
	for (int i = 0; i < rounds && !first; i++) {
		struct ring ring = ring_of("meet", 64 << 10, RING_MEET, (uint64_t)i);

		if (i >= 2) {
			first = rp_handle_wait(handles[i & 1], RP_WAIT_FOREVER);
			rp_handle_release(handles[i & 1]);
		}
		if (!first)
			first = ring_submit(bed.worker, bed.program, ring_script, &ring,
					    &handles[i & 1]);
	}
	rp_worker_close(bed.worker, RP_WAIT_FOREVER);
	bed_close(&bed);
	return first;
}

static void no_mark_is_lost_to_a_reset(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(resets); i++) {
		assert_ok(meet_often(2, resets[i], 2000));
		assert_ok(meet_often(4, resets[i], 200));
	}
}

/* Without the edge from the users of a window to its reset the same test must fail. */
static void the_stress_would_notice_a_missing_edge(void **state)
{
	int err;

	(void)state;
	failing_point = "domain.follow";
	rpi_test_hook = fail_at_point;
	err = meet_often(2, RP_WINDOWS_RESET_EAGER, 20000);
	rpi_test_hook = NULL;
	failing_point = NULL;
	assert_int_not_equal(err, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_reset_needs_persistent),
		PROCESS_TEST(a_domain_is_allocated_once_and_released_at_close),
		PROCESS_TEST(every_run_finds_zeroed_windows),
		PROCESS_TEST(a_lone_member_is_reset_once_a_run),
		PROCESS_TEST(a_lone_member_is_zeroed_by_the_orchestration_too),
		PROCESS_TEST(without_a_reset_contents_stay_bit_for_bit),
		PROCESS_TEST(a_buffer_may_be_reset_or_kept_by_itself),
		PROCESS_TEST(equal_names_of_two_programs_stay_apart),
		PROCESS_TEST(a_changed_specification_is_refused),
		PROCESS_TEST(a_specification_that_changes_in_place_is_noticed),
		PROCESS_TEST(a_failure_after_tasks_were_enqueued_is_terminal),
		PROCESS_TEST(requests_are_worked_off_one_after_the_other),
		PROCESS_TEST(a_run_in_flight_behind_a_failure_ends_with_it),
		PROCESS_TEST(a_run_without_tasks_does_not_fail_with_the_one_before),
		PROCESS_TEST(a_failure_before_any_task_is_not),
		PROCESS_TEST(a_release_that_fails_reaches_close),
		PROCESS_TEST(generations_count_the_uses),
		PROCESS_TEST(no_mark_is_lost_to_a_reset),
		PROCESS_TEST(the_stress_would_notice_a_missing_edge),
	};

	return cmocka_run_group_tests_name("persistent", tests, NULL, NULL);
}
