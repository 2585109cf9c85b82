/* SPDX-License-Identifier: MIT */
/* What the public headers say in passing, and no other file asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "support.h"

/* A poll that lasts this long has missed something: a watchdog, not a limit. */
#define LOST_MS 20000

static struct rp_tensor words(void *data)
{
	return TENSOR(data, RP_INT64, 4);
}

/* --- Numbers of runs ------------------------------------------------------------ */

struct numbered {
	uint64_t id;
	int err; /* of the orchestration */
	bool task;
};

static int see_number(struct rp_run *run, void *arg)
{
	struct numbered *numbered = arg;
	int err = 0;

	numbered->id = rp_run_id(run);
	if (numbered->task)
		err = bed_task(run, 0, ENTRY_SEE, NULL, 0);
	return err ? err : numbered->err;
}

static void a_number_of_a_run_is_used_once_and_grows_also_past_refusals(void **state)
{
	struct numbered cases[] = {
		{ .task = true },
		{ .task = true, .err = -EIO }, /* a task may have run under it */
		{ .task = true },
		{ .err = -EIO },
		{ .task = true },
	};
	uint64_t last = 0;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(bed_run(&bed, see_number, &cases[i]), cases[i].err);
		if (!i)
			assert_int_equal(cases[i].id, 1);
		assert_true(cases[i].id > last);
		last = cases[i].id;
		if (!cases[i].err)
			assert_int_equal(board->seen.run_id, last);
		/* Refused for its arguments: before or after it takes a number. */
		assert_int_equal(RUN(&bed, rp_arg_i64(0)), -EINVAL);
	}
	bed_close(&bed);
}

/* --- The descriptor --------------------------------------------------------------- */

static int nothing(struct rp_run *run, void *arg)
{
	(void)arg;
	return bed_task(run, 0, ENTRY_EMPTY, NULL, 0);
}

static void a_dispatch_without_a_handle_makes_the_descriptor_readable_too(void **state)
{
	struct rp_handle handle;
	struct pollfd fd;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	fd = (struct pollfd){ .fd = rp_worker_fd(bed.worker), .events = POLLIN };
	assert_true(fd.fd >= 0);
	assert_ok(bed_run(&bed, nothing, NULL));
	assert_int_equal(poll(&fd, 1, LOST_MS), 1);
	assert_int_equal(rp_worker_reap(bed.worker, &handle, 1), 0);
	assert_int_equal(rp_worker_fd(NULL), -EINVAL);
	bed_close(&bed);
}

/* --- From an orchestration ---------------------------------------------------------- */

struct copying {
	struct rp_worker *worker;
	int64_t *middle; /* shared: from chip 1 to chip 0 */
	struct rp_tensor resident;
	uint64_t address;
	int64_t seen[4];
};

/* The last task before each copy follows one that is held back for a group. */
static int copy_between_tasks(struct rp_run *run, void *arg)
{
	struct copying *copying = arg;
	struct rp_tensor middle = words(copying->middle);
	int err = TASK(run, 1, ENTRY_ADD, rp_inout(middle), rp_arg_i64(1));

	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(middle), rp_arg_i64(1));
	if (!err)
		err = TASK(run, 0, ENTRY_COPY, rp_in(middle), rp_out(copying->resident));
	if (!err)
		err = rp_worker_copy_from(copying->worker, 0, copying->address, 0,
					  copying->seen, 0, sizeof(copying->seen));
	if (err || copying->seen[0] != 2)
		return err ? err : -EPROTO;
	/* What it has read decides what it enqueues. */
	return TASK(run, 0, ENTRY_ADD, rp_inout(middle),
		    rp_arg_i64(copying->seen[0] * 100));
}

static void a_copy_in_an_orchestration_follows_its_tasks(void **state)
{
	struct copying copying = { .middle = bed_shared(4096, 0) };
	static const int64_t four = 4;
	uint32_t chip;
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	copying.worker = bed.worker;
	assert_ok(rp_worker_alloc_tensor(bed.worker, 0, RP_INT64, 1, &four, NULL,
					 &copying.resident));
	assert_ok(rp_worker_tensor_address(bed.worker, &copying.resident, &chip,
					   &copying.address));
	assert_ok(bed_run(&bed, copy_between_tasks, &copying));
	assert_int_equal(copying.middle[3], 202);
	bed_close(&bed);
	rp_shared_free(copying.middle);
}

struct inner {
	struct bed *outer;
	struct bed *other;
};

static int submit_to_outer(struct rp_run *run, void *arg)
{
	struct inner *inner = arg;

	(void)run;
	return bed_run(inner->outer, nothing, NULL);
}

static int submit_to_other(struct rp_run *run, void *arg)
{
	struct inner *inner = arg;
	int err;

	(void)run;
	/* Another worker's dispatch is fine, also inside this one's ... */
	err = bed_run(inner->other, nothing, NULL);
	/* ... unless it comes back here. */
	return err ? err : bed_run(inner->other, submit_to_outer, inner);
}

static int close_the_worker(struct rp_run *run, void *arg)
{
	struct inner *inner = arg;

	(void)run;
	return rp_worker_close(inner->outer->worker, 0);
}

static void an_orchestration_that_would_wait_for_itself_is_told(void **state)
{
	struct bed outer, other;
	struct inner inner = { &outer, &other };

	(void)state;
	bed_open(&outer, 1);
	bed_open(&other, 1);
	assert_int_equal(bed_run(&outer, submit_to_other, &inner), -EDEADLK);
	assert_says("rp_worker_submit", "orchestration");
	assert_int_equal(bed_run(&outer, close_the_worker, &inner), -EDEADLK);
	assert_says("rp_worker_close", "orchestration");
	/* Both go on. */
	assert_ok(bed_run(&outer, nothing, NULL));
	assert_ok(bed_run(&other, nothing, NULL));
	bed_close(&other);
	bed_close(&outer);
}

/* --- Outcomes ------------------------------------------------------------------------
 */

static int fail_late(struct rp_run *run, void *arg)
{
	int err = TASK(run, 0, ENTRY_GATE, rp_arg_i64(0));

	(void)arg;
	return err ? err : TASK(run, 0, ENTRY_RETURN, rp_arg_i64(-ETIMEDOUT));
}

static void still_running_is_told_from_an_outcome_and_is_no_failure(void **state)
{
	struct rp_handle handle;
	char before[512];
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	assert_ok(bed_submit(&bed, fail_late, NULL, &handle));
	assert_int_equal(rp_worker_close(NULL, 0), -EINVAL);
	snprintf(before, sizeof(before), "%s", rp_last_error());
	assert_int_equal(rp_handle_wait(handle, 0), -ETIMEDOUT);
	assert_int_equal(rp_handle_done(handle), 0);
	assert_string_equal(rp_last_error(), before);
	gate_open(0);
	assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), -ETIMEDOUT);
	assert_int_equal(rp_handle_done(handle), 1);
	assert_says("'return'", strerror(ETIMEDOUT));
	assert_int_equal(rp_handle_release(handle), 0);
	bed_close(&bed);
}

static int fail_at_once(struct rp_run *run, void *arg)
{
	(void)arg;
	return TASK(run, 0, ENTRY_FAIL, rp_arg_i64(-EXFULL));
}

static void close_tells_of_errors_whose_handles_are_still_held(void **state)
{
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	for (int held = 0; held < 2; held++) {
		bed_open(&bed, 1);
		assert_ok(bed_submit(&bed, fail_at_once, NULL, &handle));
		if (!held)
			assert_int_equal(rp_handle_release(handle), 0);
		assert_int_equal(rp_worker_close(bed.worker, RP_WAIT_FOREVER),
				 held ? -EXFULL : 0);
		assert_int_equal(rp_worker_close(bed.worker, RP_WAIT_FOREVER), 0);
		bed_close(&bed);
	}
}

/* --- Options, memory
 * -------------------------------------------------------------------- */

static void no_backend_is_the_one_that_the_programs_are_built_for(void **state)
{
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_program *program;
	struct rp_worker *worker;

	(void)state;
	bed_describe(&desc, "elsewhere", NULL, 0);
	desc.platform = "a2a3";
	assert_ok(rp_program_create(&desc, &program));
	bed_options(&options, 1);
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EOPNOTSUPP);
	assert_says("'a2a3'");
	rp_program_free(program);
}

static int add_to_out(struct rp_run *run, void *arg)
{
	const struct rp_tensor *tensor = arg;

	return TASK(run, 0, ENTRY_ADD, rp_out(*tensor), rp_arg_i64(1));
}

static void out_memory_reads_as_zero_unless_it_is_resident(void **state)
{
	int64_t *host = bed_shared(4096, 0);
	struct rp_tensor tensor = words(host);
	struct rp_tensor resident;
	uint64_t address;
	uint32_t chip;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	host[0] = 41;
	assert_ok(rp_worker_alloc_tensor(bed.worker, 0, RP_INT64, 1, tensor.shape,
					 &tensor, &resident));
	assert_ok(bed_run(&bed, add_to_out, &tensor));
	assert_int_equal(host[0], 1);
	assert_ok(bed_run(&bed, add_to_out, &resident));
	assert_ok(rp_worker_tensor_address(bed.worker, &resident, &chip, &address));
	assert_ok(rp_worker_copy_from(bed.worker, 0, address, 0, host, 0, 8));
	assert_int_equal(host[0], 42);
	bed_close(&bed);
	rp_shared_free(host);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_number_of_a_run_is_used_once_and_grows_also_past_refusals),
		TEST(a_dispatch_without_a_handle_makes_the_descriptor_readable_too),
		TEST(a_copy_in_an_orchestration_follows_its_tasks),
		TEST(an_orchestration_that_would_wait_for_itself_is_told),
		TEST(still_running_is_told_from_an_outcome_and_is_no_failure),
		TEST(close_tells_of_errors_whose_handles_are_still_held),
		TEST(no_backend_is_the_one_that_the_programs_are_built_for),
		TEST(out_memory_reads_as_zero_unless_it_is_resident),
	};

	return cmocka_run_group_tests_name("promises", tests, NULL, NULL);
}
