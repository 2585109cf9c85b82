/* SPDX-License-Identifier: MIT */
/* Comm domains: what a specification may say, whose they are, how long they live. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rings.h"

static void open_chips(struct bed *bed, uint32_t chips)
{
	struct rp_worker_options options;

	ring_options(&options, chips);
	ring_open(bed, &options);
}

static void a_fresh_domain_reads_zero_in_every_run(void **state)
{
	struct bed bed;
	int i;

	(void)state;
	open_chips(&bed, 2);
	for (i = 0; i < 200; i++) {
		assert_ok(ring_run(&bed, ring_of("a", 8192, RING_EXPECT, 0)));
		assert_ok(ring_run(&bed, ring_of("a", 8192, RING_FILL, 0x5a)));
	}
	bed_close(&bed);
}

static void each_run_allocates_and_releases_its_own(void **state)
{
	struct rp_worker_stats stats;
	struct bed bed;
	int i;

	(void)state;
	open_chips(&bed, 2);
	for (i = 0; i < 100; i++)
		assert_ok(ring_run(&bed, ring_of("a", 4096, RING_FILL, 1)));
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	stats = bed_stats(&bed);
	assert_int_equal(stats.domains_allocated, 100);
	assert_int_equal(stats.domains_released, 100);
	assert_int_equal(stats.domains_leased, 0);
	bed_close(&bed);
}

static int several(struct rp_run *run, void *arg)
{
	static const uint32_t odd[] = { 3, 1 };
	static const uint32_t even[] = { 0, 2 };
	struct ring rings[3] = {
		ring_of("all", 4096, RING_MEET, *(uint64_t *)arg),
		ring_of("odd", 12345, RING_MEET, *(uint64_t *)arg + 1),
		ring_of("even", 100000, RING_MEET, *(uint64_t *)arg + 2),
	};
	int err = 0;

	rings[1].spec.chips = odd;
	rings[2].spec.chips = even;
	rings[1].spec.chip_count = rings[2].spec.chip_count = 2;
	for (int i = 0; !err && i < 3; i++)
		err = ring_script(run, &rings[i]);
	return err;
}

static void several_domains_of_one_run_do_not_meet(void **state)
{
	struct bed bed;
	uint64_t seed;

	(void)state;
	open_chips(&bed, 4);
	for (seed = 0; seed < 100; seed++)
		assert_ok(ring_submit(bed.worker, bed.program, several, &seed, NULL));
	bed_close(&bed);
}

static int check_ranks(struct rp_run *run, void *arg)
{
	static const uint32_t chips[] = { 3, 1 };
	struct ring ring = ring_of("pair", 4096, RING_NOTHING, 0);
	struct rp_domain *domain;
	int err;

	(void)arg;
	ring.spec.chips = chips;
	ring.spec.chip_count = 2;
	err = rp_run_domain(run, &ring.spec, &domain);
	assert_int_equal(err, 0);
	assert_int_equal(
		TASK(run, 0, 0, rp_arg_domain(domain), rp_arg_u64(0), rp_arg_u64(0)),
		-EINVAL);
	assert_says("argument 0", "'pair'", "chip 0 is no member");
	assert_int_equal(CALL(run, 0, rp_arg_domain(domain)), -EINVAL);
	assert_says("callbacks can't use");
	return ring_tasks(run, &ring, domain);
}

static void only_members_may_use_a_domain(void **state)
{
	struct bed bed;

	(void)state;
	open_chips(&bed, 4);
	assert_ok(ring_submit(bed.worker, bed.program, check_ranks, NULL, NULL));
	bed_close(&bed);
}

/* A domain of an earlier run. */
static struct rp_domain *stale;

static int names(struct rp_run *run, void *arg)
{
	struct ring ring = ring_of("one", 4096, RING_EXPECT, 0);
	struct rp_domain *first;
	struct rp_domain *second;

	(void)arg;
	assert_ok(rp_run_domain(run, &ring.spec, &first));
	assert_int_equal(rp_run_domain(run, &ring.spec, &second), -EEXIST);
	assert_says("'one'", "already");
	assert_ok(ring_tasks(run, &ring, first));
	assert_ok(rp_run_release_domain(run, first));
	assert_int_equal(rp_run_release_domain(run, first), -EINVAL);
	assert_int_equal(ring_tasks(run, &ring, first), -EINVAL);
	assert_says("not this run's");
	assert_ok(rp_run_domain(run, &ring.spec, &second));
	assert_ptr_not_equal(first, second);
	/* Not even nearly a domain. */
	assert_int_equal(ring_tasks(run, &ring, (struct rp_domain *)((char *)second + 8)),
			 -EINVAL);
	assert_int_equal(ring_tasks(run, &ring, (struct rp_domain *)(void *)&ring),
			 -EINVAL);
	assert_int_equal(ring_tasks(run, &ring, NULL), -EINVAL);
	assert_int_equal(rp_domain_generation(second), 1);
	stale = second;
	return ring_tasks(run, &ring, second);
}

static int use_stale(struct rp_run *run, void *arg)
{
	struct ring ring = ring_of("other", 4096, RING_NOTHING, 0);

	(void)arg;
	return ring_tasks(run, &ring, stale);
}

static void a_name_is_free_again_after_its_release(void **state)
{
	struct bed bed;

	(void)state;
	open_chips(&bed, 2);
	for (int i = 0; i < 10; i++) {
		assert_ok(ring_submit(bed.worker, bed.program, names, NULL, NULL));
		assert_int_equal(
			ring_submit(bed.worker, bed.program, use_stale, NULL, NULL),
			-EINVAL);
	}
	bed_close(&bed);
}

/* One field of a good specification made bad. */
struct bad {
	const char *what;
	int err;
	const char *says;
	void (*spoil)(struct rp_domain_spec *spec);
};

static struct rp_domain_buffer buffers[RP_MAX_DOMAIN_BUFFERS + 1];
static uint32_t chips[] = { 0, 1 };

#define SPOIL(name, ...)                              \
	static void name(struct rp_domain_spec *spec) \
	{                                             \
		(void)spec;                           \
		__VA_ARGS__;                          \
	}

SPOIL(bad_size, spec->size = 3)
SPOIL(no_name, spec->name = NULL)
SPOIL(empty_name, spec->name = "")
SPOIL(long_name, spec->name = "0123456789012345678901234567890123456789"
			      "012345678901234567890123456789")
SPOIL(no_such_chip, chips[1] = 2)
SPOIL(chip_twice, chips[1] = 0)
SPOIL(no_members, spec->chip_count = 0)
SPOIL(too_many_members, spec->chip_count = 3)
SPOIL(too_small, spec->window_bytes = 4096)
SPOIL(too_many_buffers, spec->buffer_count = RP_MAX_DOMAIN_BUFFERS + 1)
SPOIL(no_buffers, spec->buffers = NULL)
SPOIL(same_names, buffers[1].name = "x")
SPOIL(unnamed_buffer, buffers[1].name = NULL)
SPOIL(no_dtype, buffers[0].dtype = 0)
SPOIL(no_count, buffers[0].count = 0)
SPOIL(huge_count, buffers[0].count = UINT64_MAX)
SPOIL(odd_count, buffers[0].dtype = RP_FP4E2M1; buffers[0].count = 3)
SPOIL(no_reset, buffers[1].reset = 3)
SPOIL(huge_window, spec->window_bytes = SIZE_MAX)
SPOIL(small_staging, spec->staging_bytes = 511)
SPOIL(huge_staging, spec->staging_bytes = SIZE_MAX)
SPOIL(no_timeout, spec->timeout_ns = -2)
SPOIL(no_memory, spec->window_bytes = (size_t)1 << 30)

static const struct bad bads[] = {
	{ "size", -EINVAL, "spec size 3", bad_size },
	{ "name NULL", -EINVAL, "name", no_name },
	{ "name empty", -EINVAL, "name", empty_name },
	{ "name long", -EINVAL, "expected 1..63 bytes", long_name },
	{ "chip", -EINVAL, "chips[1] is 2, expected 0..1", no_such_chip },
	{ "chip twice", -EINVAL, "lists chip 0 twice", chip_twice },
	{ "no members", -EINVAL, "chip_count 0", no_members },
	{ "members", -EINVAL, "chip_count 3, expected 1..2", too_many_members },
	{ "window small", -EINVAL, "buffers of 4116 bytes, window_bytes is 4096",
	  too_small },
	{ "buffers", -EINVAL, "buffer_count 33", too_many_buffers },
	{ "no buffers", -EINVAL, "buffers", no_buffers },
	{ "one name", -EINVAL, "two buffers 'x'", same_names },
	{ "no buffer name", -EINVAL, "a buffer's name", unnamed_buffer },
	{ "dtype", -EINVAL, "dtype 0", no_dtype },
	{ "count 0", -EINVAL, "count 0", no_count },
	{ "count huge", -EINVAL, "count 18446744073709551615", huge_count },
	{ "count odd", -EINVAL, "even", odd_count },
	{ "reset", -EINVAL, "reset 3", no_reset },
	{ "window huge", -EINVAL, "window_bytes", huge_window },
	{ "staging small", -EINVAL,
	  "'d' staging_bytes 511, expected 0 or at least 512: 256 for each of 2 members",
	  small_staging },
	{ "staging huge", -EINVAL, "staging_bytes", huge_staging },
	{ "timeout", -EINVAL, "timeout_ns -2", no_timeout },
	{ "memory", -ENOMEM, "window_memory_bytes", no_memory },
};

static int bad_script(struct rp_run *run, void *arg)
{
	const struct bad *bad = arg;
	struct rp_domain_spec spec;
	struct rp_domain *domain;

	for (uint32_t i = 0; i < COUNT(buffers); i++)
		buffers[i] = (struct rp_domain_buffer){ "more", RP_UINT8, 0, 1 };
	buffers[0] = (struct rp_domain_buffer){ "x", RP_FLOAT32, 0, 1024 };
	buffers[1] = (struct rp_domain_buffer){ "y", RP_INT32, 0, 5 };
	chips[0] = 0;
	chips[1] = 1;
	rp_domain_spec_init(&spec);
	spec.name = "d";
	spec.chips = chips;
	spec.chip_count = 2;
	spec.buffers = buffers;
	spec.buffer_count = 2;
	if (bad)
		bad->spoil(&spec);
	return rp_run_domain(run, &spec, &domain);
}

static void a_bad_specification_is_refused_and_leaves_nothing(void **state)
{
	struct rp_worker_stats stats;
	struct bed bed;

	(void)state;
	open_chips(&bed, 2);
	for (size_t i = 0; i < COUNT(bads); i++) {
		if (ring_submit(bed.worker, bed.program, bad_script, (void *)&bads[i],
				NULL) != bads[i].err)
			fail_msg("%s: %s", bads[i].what, rp_last_error());
		assert_says(bads[i].says);
		stats = bed_stats(&bed);
		assert_int_equal(stats.domains_allocated, i);
		assert_ok(ring_submit(bed.worker, bed.program, bad_script, NULL, NULL));
	}
	bed_close(&bed);
}

static int exhaust(struct rp_run *run, void *arg)
{
	struct ring ring;
	struct rp_domain *domain;
	char name[16];
	int err = 0;

	(void)arg;
	for (int i = 0; !err; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		ring = ring_of(name, (size_t)256 << 10, RING_NOTHING, 0);
		err = rp_run_domain(run, &ring.spec, &domain);
	}
	return err;
}

static void exhausted_windows_are_an_error_and_come_back(void **state)
{
	struct bed bed;

	(void)state;
	open_chips(&bed, 2);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(
			ring_submit(bed.worker, bed.program, exhaust, NULL, NULL),
			-ENOMEM);
		assert_says("window_memory_bytes", "free");
		/* The one option that helps, no other. */
		assert_null(strstr(rp_last_error(), "device_memory_bytes"));
		assert_ok(
			ring_run(&bed, ring_of("big", (size_t)3 << 20, RING_EXPECT, 0)));
	}
	bed_close(&bed);
}

/* Most of the windows' memory; waits at the gate, if there is one, or says so. */
static int take_most(struct rp_run *run, void *arg)
{
	struct ring ring = ring_of("most", (size_t)3 << 20, RING_NOTHING, 0);
	struct rp_domain *domain;
	int err = rp_run_domain(run, &ring.spec, &domain);

	return err ? err
		   : TASK(run, 0, ENTRY_GATE, rp_arg_u64(*(uint64_t *)arg),
			  rp_arg_domain(domain));
}

static void a_window_is_nobody_elses_while_its_run_is_in_flight(void **state)
{
	uint64_t shut = 6, open = 7;
	struct rp_worker_options options;
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	ring_options(&options, 2);
	bed_open_with(&bed, &options);
	gate_open((uint32_t)open);
	for (int i = 0; i < 20; i++) {
		atomic_store(&board->gates[shut], 0);
		assert_ok(bed_submit(&bed, take_most, &shut, &handle));
		assert_int_equal(bed_run(&bed, take_most, &open), -ENOMEM);
		assert_says("window_memory_bytes");
		gate_open((uint32_t)shut);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		assert_ok(rp_handle_release(handle));
		assert_ok(bed_run(&bed, take_most, &open));
	}
	bed_close(&bed);
}

static int too_many(struct rp_run *run, void *arg)
{
	struct rp_domain *domain;
	struct ring ring;
	char name[16];
	int err;

	(void)arg;
	for (int i = 0; i < RP_MAX_DOMAINS; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		ring = ring_of(name, 1, RING_NOTHING, 0);
		ring.spec.staging_bytes = 256;
		assert_ok(rp_run_domain(run, &ring.spec, &domain));
	}
	ring = ring_of("last", 1, RING_NOTHING, 0);
	err = rp_run_domain(run, &ring.spec, &domain);
	assert_says("64 domains");
	return err;
}

static void there_are_no_more_than_the_limit(void **state)
{
	struct bed bed;

	(void)state;
	open_chips(&bed, 1);
	assert_int_equal(ring_submit(bed.worker, bed.program, too_many, NULL, NULL),
			 -ENOSPC);
	assert_ok(ring_run(&bed, ring_of("big", 4096, RING_EXPECT, 0)));
	bed_close(&bed);
}

static void a_failed_run_releases_its_domains(void **state)
{
	struct rp_worker_stats stats;
	struct bed bed;

	(void)state;
	open_chips(&bed, 2);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(ring_run(&bed, ring_of("a", 4096, RING_FAIL, 0)), -EIO);
		assert_ok(ring_run(&bed, ring_of("a", 4096, RING_EXPECT, 0)));
	}
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	stats = bed_stats(&bed);
	assert_int_equal(stats.domains_allocated, 100);
	assert_int_equal(stats.domains_released, 100);
	bed_close(&bed);
}

static int zero_between(struct rp_run *run, void *arg)
{
	struct ring fill = ring_of("z", 4096, RING_FILL, 3);
	struct ring expect = ring_of("z", 4096, RING_BUFFERS, 0x303);
	struct rp_domain_buffer parts[] = { { "a", RP_UINT8, 0, 1000 },
					    { "b", RP_UINT8, 0, 1000 },
					    { "c", RP_UINT8, 0, 1000 } };
	struct rp_domain *domain;
	int err;

	(void)arg;
	fill.spec.buffers = parts;
	fill.spec.buffer_count = 3;
	err = rp_run_domain(run, &fill.spec, &domain);
	if (!err)
		err = ring_tasks(run, &fill, domain);
	assert_int_equal(rp_run_zero_domain(run, domain, "d"), -ENOENT);
	assert_says("no buffer 'd'");
	if (!err)
		err = rp_run_zero_domain(run, domain, "b");
	if (!err)
		err = ring_tasks(run, &expect, domain);
	if (!err)
		err = rp_run_zero_domain(run, domain, NULL);
	expect.act = RING_EXPECT;
	expect.operand = 0;
	return err ? err : ring_tasks(run, &expect, domain);
}

static void an_orchestration_can_zero_a_buffer_between_its_tasks(void **state)
{
	struct bed bed;

	(void)state;
	open_chips(&bed, 2);
	for (int i = 0; i < 50; i++)
		assert_ok(ring_submit(bed.worker, bed.program, zero_between, NULL, NULL));
	bed_close(&bed);
}

static void windows_are_reported_and_backed_as_asked(void **state)
{
	struct rp_region_info info[8];
	struct bed bed;
	size_t count;
	bool found = false;

	(void)state;
	open_chips(&bed, 2);
	count = rp_worker_memory_report(bed.worker, info, COUNT(info));
	for (size_t i = 0; i < count && i < COUNT(info); i++)
		if (!strcmp(info[i].name, "rp-windows")) {
			found = true;
			assert_true(info[i].bytes >= (size_t)8 << 20);
		}
	assert_true(found);
	bed_close(&bed);
}

static void null_arguments_are_refused(void **state)
{
	struct rp_domain_spec spec;
	struct rp_domain *domain;

	(void)state;
	rp_domain_spec_init(&spec);
	assert_int_equal(rp_run_domain(NULL, &spec, &domain), -EINVAL);
	assert_int_equal(rp_run_release_domain(NULL, NULL), -EINVAL);
	assert_int_equal(rp_run_zero_domain(NULL, NULL, NULL), -EINVAL);
	assert_int_equal(rp_domain_generation(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_fresh_domain_reads_zero_in_every_run),
		PROCESS_TEST(each_run_allocates_and_releases_its_own),
		PROCESS_TEST(several_domains_of_one_run_do_not_meet),
		PROCESS_TEST(only_members_may_use_a_domain),
		PROCESS_TEST(a_name_is_free_again_after_its_release),
		PROCESS_TEST(a_bad_specification_is_refused_and_leaves_nothing),
		PROCESS_TEST(exhausted_windows_are_an_error_and_come_back),
		PROCESS_TEST(a_window_is_nobody_elses_while_its_run_is_in_flight),
		PROCESS_TEST(there_are_no_more_than_the_limit),
		PROCESS_TEST(a_failed_run_releases_its_domains),
		PROCESS_TEST(an_orchestration_can_zero_a_buffer_between_its_tasks),
		PROCESS_TEST(windows_are_reported_and_backed_as_asked),
		PROCESS_TEST(null_arguments_are_refused),
	};

	return cmocka_run_group_tests_name("domain", tests, NULL, NULL);
}
