/* SPDX-License-Identifier: MIT */
/* A run that fails, in a task or in its orchestration: what its caller hears, and that
 * nothing of it stays behind. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static void a_failed_run_poisons_nothing(void **state)
{
	int64_t *z = bed_shared(8, 0);
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	for (int round = 1; round < 20; round++) {
		assert_int_equal(
			bed_run(&bed, script_fail, (void *)(intptr_t)(round + 1)),
			-round - 1);
		assert_says("run ", "entry 'fail' of 'support' on chip 0: told to fail");
		assert_ok(RUN_ONE(&bed, ENTRY_ADD, rp_inout(TENSOR(z, RP_INT64, 1)),
				  rp_arg_i64(1)));
		assert_int_equal(z[0], round);
		assert_int_equal(bed_stats(&bed).dispatches_failed, (uint64_t)round);
	}
	bed_close(&bed);
	rp_shared_free(z);
}

static int return_code(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_RETURN, rp_arg_i64((intptr_t)arg));
}

static void what_an_entry_returns_is_the_outcome(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	assert_ok(bed_run(&bed, return_code, NULL));
	assert_int_equal(bed_run(&bed, return_code, (void *)(intptr_t)-ENODATA),
			 -ENODATA);
	assert_says("entry 'return'", strerror(ENODATA));
	/* No errno: what the entry did wrong is said, and no stale text is used. */
	assert_int_equal(bed_run(&bed, script_fail, (void *)(intptr_t)ENODATA), -ENODATA);
	assert_int_equal(bed_run(&bed, return_code, (void *)(intptr_t)3), -EINVAL);
	assert_says("entry 'return'", "returned 3", "expected 0 or a negative errno");
	assert_int_equal(bed_run(&bed, return_code, (void *)(intptr_t)-ENODATA),
			 -ENODATA);
	assert_says(strerror(ENODATA));
	bed_close(&bed);
}

/* The first failure is the run's, also where a later task of it fails otherwise, and
 * what depends on the failed task does not run. */
static int fail_before_dependents(struct rp_run *run, void *arg)
{
	struct rp_tensor z = TENSOR(arg, RP_INT64, 1);
	int err;

	err = TASK(run, 0, ENTRY_FAIL, rp_inout(z), rp_arg_i64(-EIO));
	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(z), rp_arg_i64(1));
	if (!err)
		err = TASK(run, 0, ENTRY_FAIL, rp_inout(z), rp_arg_i64(-ENODEV));
	if (!err)
		err = TASK(run, 1, ENTRY_NOTE, rp_in(z), rp_arg_i64(1));
	if (!err)
		err = CALL(run, CALLBACK_NOTE, rp_in(z), rp_arg_i64(2));
	return err;
}

static void the_first_error_wins_and_dependents_do_not_run(void **state)
{
	int64_t *z = bed_shared(8, 0);
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	for (int round = 0; round < 20; round++) {
		assert_int_equal(bed_run(&bed, fail_before_dependents, z), -EIO);
		assert_says("told to fail with -5", "on chip 0");
		assert_int_equal(z[0], 0);
		assert_int_equal(board->note_count, 0);
	}
	assert_int_equal(bed_stats(&bed).tasks, 20);
	assert_int_equal(bed_stats(&bed).tasks_cancelled, 80);
	bed_close(&bed);
	rp_shared_free(z);
}

static int enqueue_then_fail(struct rp_run *run, void *arg)
{
	struct rp_tensor z = TENSOR(arg, RP_INT64, 1);
	int err;

	/* Chip 1 waits for chip 0, which waits at a gate that nobody opens. */
	err = TASK(run, 0, ENTRY_GATE, rp_inout(z), rp_arg_u64(5));
	for (int i = 0; i < 20 && !err; i++)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(z), rp_arg_i64(1));
	if (!err)
		gate_await_entered(5, 1);
	return err ? err : rp_run_fail(run, -ECHILD, "the script gave up at %d", 42);
}

static int return_positive(struct rp_run *run, void *arg)
{
	(void)run;
	(void)arg;
	return 1;
}

static int return_negative(struct rp_run *run, void *arg)
{
	return rp_run_fail(run, (int)(intptr_t)arg, "nothing was enqueued");
}

static void a_failed_orchestration_leaves_nothing_in_flight(void **state)
{
	int64_t *z = bed_shared(8, 0);
	struct rp_handle handle = { 1, 2 };
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	for (uint64_t round = 1; round < 8; round++) {
		struct rp_worker_stats stats;

		atomic_store(&board->entered[5], 0);
		assert_int_equal(bed_submit(&bed, enqueue_then_fail, z, &handle),
				 -ECHILD);
		assert_says("the script gave up at 42");
		assert_int_equal(handle.worker, 1);
		assert_int_equal(board->passed[5], 0);
		assert_int_equal(z[0], 0);
		stats = bed_stats(&bed);
		/* All of them have ended by now, the second chip's without running. */
		assert_int_equal(stats.tasks + stats.tasks_cancelled, 21 * round);
		assert_int_equal(bed_submit(&bed, return_negative,
					    (void *)(intptr_t)-EXDEV, &handle),
				 -EXDEV);
		assert_says("nothing was enqueued");
		assert_int_equal(bed_submit(&bed, return_positive, NULL, &handle),
				 -EINVAL);
		assert_says("'support'", "returned 1", "expected 0 or a negative errno");
		assert_int_equal(stats.dispatches, 0);
	}
	/* Both frames and all handles are there. */
	for (int i = 0; i < 200; i++)
		assert_ok(bed_run(&bed, NULL, NULL));
	bed_close(&bed);
	rp_shared_free(z);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_failed_run_poisons_nothing),
		PROCESS_TEST(what_an_entry_returns_is_the_outcome),
		PROCESS_TEST(the_first_error_wins_and_dependents_do_not_run),
		PROCESS_TEST(a_failed_orchestration_leaves_nothing_in_flight),
	};

	return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
