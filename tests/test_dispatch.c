/* SPDX-License-Identifier: MIT */
/* One dispatch from submit to release, and several within two frames. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define WORDS 64

/* --- Snapshots ------------------------------------------------------------ */

static int gate_then_see(struct rp_run *run, void *arg)
{
	uint64_t *tag_out = arg;
	int err;

	*tag_out = rp_run_get_config(run)->tag;
	err = TASK(run, 0, ENTRY_GATE, rp_arg_u64(0));
	return err ? err : bed_task(run, 0, ENTRY_SEE, NULL, 0);
}

static uint64_t tag_in_orchestration;

static int orchestrate_tagged(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			      void *user)
{
	(void)args;
	(void)nargs;
	(void)user;
	return gate_then_see(run, &tag_in_orchestration);
}

static void the_configuration_is_the_callers_as_it_was_at_submit(void **state)
{
	struct rp_worker_options options;
	struct rp_run_config config;
	struct rp_program_desc desc;
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	bed_describe(&desc, "tags", NULL, 0);
	desc.orchestrate = orchestrate_tagged;
	bed_prepare(&bed, &desc, &options);
	for (uint64_t round = 1; round < 5; round++) {
		board->gates[0] = 0;
		rp_run_config_init(&config);
		config.tag = 0xabc + round;
		assert_ok(rp_worker_submit(bed.worker, NULL, NULL, 0, &config, &handle));
		memset(&config, 0xee, sizeof(config));
		assert_int_equal(tag_in_orchestration, 0xabc + round);
		gate_open(0);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		assert_int_equal(board->seen.tag, 0xabc + round);
		assert_ok(rp_handle_release(handle));
		/* Without one the defaults are in force again, in either frame. */
		for (int i = 0; i < 2; i++) {
			assert_ok(rp_worker_run(bed.worker, NULL, NULL, 0, NULL));
			assert_int_equal(tag_in_orchestration, 0);
			assert_int_equal(board->seen.tag, 0);
		}
	}
	bed_close(&bed);
}

static const struct rp_param add_params[] = {
	{ .name = "z",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_INOUT,
	  .rank = 1,
	  .shape = { RP_DIM_ANY } },
	{ .name = "gate", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	{ .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
};

static void the_arguments_are_the_callers_as_they_were_at_submit(void **state)
{
	int64_t *z = bed_shared(WORDS * 8, 0);
	struct rp_arg args[] = { rp_arg_tensor(TENSOR(z, RP_INT64, WORDS)), rp_arg_u64(0),
				 rp_arg_i64(5) };
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	bed_describe(&desc, "add-later", add_params, COUNT(add_params));
	desc.orchestrate = NULL;
	desc.entries += ENTRY_GATE;
	desc.entry_count = 1;
	bed_prepare(&bed, &desc, &options);
	assert_ok(rp_worker_submit(bed.worker, NULL, args, 3, NULL, &handle));
	memset(args, 0xee, sizeof(args));
	gate_open(0);
	assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
	for (int i = 0; i < WORDS; i++)
		assert_int_equal(z[i], 5);
	assert_ok(rp_handle_release(handle));
	bed_close(&bed);
	rp_shared_free(z);
}

/* --- Two frames ----------------------------------------------------------- */

struct third {
	struct bed *bed;
	struct rp_handle handle;
	_Atomic int built; /* its orchestration has begun */
	int err;
	_Atomic int over;
};

static int say_built(struct rp_run *run, void *arg)
{
	struct third *third = arg;

	(void)run;
	atomic_store(&third->built, 1);
	return 0;
}

static void *submit_third(void *arg)
{
	struct third *third = arg;

	third->err = bed_submit(third->bed, say_built, third, &third->handle);
	atomic_store(&third->over, 1);
	return NULL;
}

static void a_third_submit_waits_for_the_oldest_and_keeps_its_error_to_itself(
	void **state)
{
	struct rp_handle first, second;
	struct third third;
	struct bed bed;
	pthread_t thread;

	(void)state;
	bed_open(&bed, 1);
	for (int round = 0; round < 4; round++) {
		memset(&third, 0, sizeof(third));
		third.bed = &bed;
		memset((void *)board, 0, sizeof(*board));
		assert_ok(
			bed_submit(&bed, script_gate_fail, (void *)(uintptr_t)1, &first));
		assert_ok(bed_submit(&bed, script_gate, (void *)(uintptr_t)2, &second));
		assert_int_equal(pthread_create(&thread, NULL, submit_third, &third), 0);
		gate_await_entered(1, 1);
		for (int i = 0; i < 100; i++)
			bed_breathe();
		/* It has built nothing while both frames are taken. */
		assert_int_equal(atomic_load(&third.built), 0);
		assert_int_equal(rp_handle_done(first), 0);
		gate_open(1);
		pthread_join(thread, NULL);
		assert_int_equal(third.err, 0);
		assert_int_equal(rp_handle_done(first), 1);
		assert_int_equal(rp_handle_done(second), 0);
		gate_open(2);
		assert_ok(rp_handle_wait(third.handle, RP_WAIT_FOREVER));
		assert_ok(rp_handle_wait(second, RP_WAIT_FOREVER));
		assert_int_equal(rp_handle_wait(first, RP_WAIT_FOREVER), -EIO);
		assert_ok(rp_handle_release(first));
		assert_ok(rp_handle_release(second));
		assert_ok(rp_handle_release(third.handle));
		assert_true(bed_stats(&bed).frame_waits > 0);
	}
	bed_close(&bed);
}

struct flood {
	struct bed *bed;
	_Atomic uint64_t runs;
	_Atomic uint64_t mistakes;
	_Atomic uint64_t ids; /* sum */
};

static int run_and_id(struct rp_run *run, void *arg)
{
	uint64_t *id_out = arg;

	*id_out = rp_run_id(run);
	return TASK(run, 0, ENTRY_NOTE, rp_arg_u64(*id_out));
}

static void *submit_and_wait(void *arg)
{
	struct flood *flood = arg;

	for (int i = 0; i < 250; i++) {
		struct rp_handle handle;
		uint64_t id;

		if (bed_submit(flood->bed, run_and_id, &id, &handle) ||
		    rp_handle_wait(handle, RP_WAIT_FOREVER) || rp_handle_release(handle))
			atomic_fetch_add(&flood->mistakes, 1);
		atomic_fetch_add(&flood->ids, id);
		atomic_fetch_add(&flood->runs, 1);
	}
	return NULL;
}

static void four_threads_of_250_runs_get_1000_outcomes(void **state)
{
	struct flood flood = { 0 };
	pthread_t threads[4];
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	flood.bed = &bed;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, submit_and_wait, &flood), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(flood.mistakes, 0);
	assert_int_equal(flood.runs, 1000);
	/* Numbered from 1 without a gap, and run in the order of their numbers. */
	assert_int_equal(flood.ids, 1000 * 1001 / 2);
	assert_int_equal(board->note_count, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(board->notes[i].word, i + 1);
	bed_close(&bed);
}

/* --- Waiting --------------------------------------------------------------- */

static void a_wait_that_times_out_changes_nothing(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_HYBRID, RP_WAIT_SPIN,
							RP_WAIT_BLOCK };

	(void)state;
	for (size_t k = 0; k < COUNT(policies); k++) {
		struct rp_worker_options options;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		bed_options(&options, 1);
		options.wait = policies[k];
		bed_open_with(&bed, &options);
		assert_ok(bed_submit(&bed, script_gate, NULL, &handle));
		assert_int_equal(rp_handle_wait(handle, 0), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, 1), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, 2000000), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, -2), -EINVAL);
		assert_says("rp_handle_wait", "timeout_ns -2", "expected 0 or more");
		assert_int_equal(rp_handle_wait(handle, INT64_MIN), -EINVAL);
		assert_int_equal(rp_handle_done(handle), 0);
		gate_open(0);
		/* Long past any clock's end. */
		assert_ok(rp_handle_wait(handle, INT64_MAX));
		assert_int_equal(rp_handle_done(handle), 1);
		assert_ok(rp_handle_wait(handle, 0));
		assert_ok(rp_handle_release(handle));
		bed_close(&bed);
	}
}

struct waiters {
	struct rp_handle handle;
	int want;
	const char *text;
	_Atomic int waiting;
	_Atomic uint64_t heard;
	_Atomic uint64_t mistakes;
};

static void *wait_five_times(void *arg)
{
	struct waiters *waiters = arg;

	atomic_fetch_add(&waiters->waiting, 1);
	for (int i = 0; i < 5; i++) {
		int status = rp_handle_wait(waiters->handle, RP_WAIT_FOREVER);

		if (status != waiters->want ||
		    (status && !strstr(rp_last_error(), waiters->text)))
			atomic_fetch_add(&waiters->mistakes, 1);
		atomic_fetch_add(&waiters->heard, 1);
	}
	return NULL;
}

static void all_waiters_hear_the_same_outcome_every_time(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_HYBRID, RP_WAIT_SPIN,
							RP_WAIT_BLOCK };

	(void)state;
	for (size_t k = 0; k < COUNT(policies) * 2; k++) {
		bool fails = k & 1;
		struct waiters waiters = { .want = fails ? -EIO : 0,
					   .text = "told to fail with -5" };
		struct rp_worker_options options;
		pthread_t threads[3];
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		bed_options(&options, 1);
		options.wait = policies[k / 2];
		bed_open_with(&bed, &options);
		assert_ok(bed_submit(&bed, fails ? script_gate_fail : script_gate, NULL,
				     &waiters.handle));
		for (size_t i = 0; i < COUNT(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL,
							wait_five_times, &waiters),
					 0);
		while (atomic_load(&waiters.waiting) < (int)COUNT(threads))
			bed_breathe();
		for (int i = 0; i < 40; i++)
			bed_breathe();
		assert_int_equal(waiters.heard, 0);
		gate_open(0);
		for (size_t i = 0; i < COUNT(threads); i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(waiters.heard, 15);
		assert_int_equal(waiters.mistakes, 0);
		/* After close as well. */
		rp_worker_close(bed.worker, RP_WAIT_FOREVER);
		assert_int_equal(rp_handle_wait(waiters.handle, 0), waiters.want);
		if (fails)
			assert_says("entry 'fail' of 'support' on chip 0",
				    "told to fail with -5");
		assert_ok(rp_handle_release(waiters.handle));
		bed_close(&bed);
	}
}

/* --- Handles ---------------------------------------------------------------- */

static void a_handle_is_told_apart_once_it_was_released(void **state)
{
	struct rp_handle zero = { 0, 0 };
	struct rp_handle handle, after;
	struct bed bed;

	(void)state;
	assert_int_equal(rp_handle_wait(zero, 0), -ESTALE);
	assert_says("rp_handle_wait", "no such handle");
	assert_int_equal(rp_handle_done(zero), -ESTALE);
	assert_int_equal(rp_handle_release(zero), -ESTALE);
	bed_open(&bed, 1);
	zero.worker = 0;
	assert_int_equal(rp_handle_wait(zero, RP_WAIT_FOREVER), -ESTALE);

	/* While it runs: it goes on, and its frame comes back. */
	assert_ok(bed_submit(&bed, script_gate, NULL, &handle));
	zero = (struct rp_handle){ .worker = handle.worker };
	assert_int_equal(rp_handle_wait(zero, RP_WAIT_FOREVER), -ESTALE);
	assert_ok(rp_handle_release(handle));
	assert_int_equal(rp_handle_release(handle), -ESTALE);
	assert_says("rp_handle_release", "not released");
	assert_int_equal(rp_handle_done(handle), -ESTALE);
	assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), -ESTALE);
	gate_open(0);
	for (int i = 0; i < 200; i++) {
		assert_ok(bed_submit(&bed, NULL, NULL, &after));
		assert_ok(rp_handle_release(after));
	}
	assert_int_equal(board->passed[0], 1);

	assert_ok(bed_submit(&bed, NULL, NULL, &handle));
	assert_ok(bed_submit(&bed, NULL, NULL, &after));
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	assert_ok(rp_handle_wait(handle, 0));
	assert_ok(rp_handle_release(handle));
	assert_int_equal(rp_handle_release(handle), -ESTALE);
	bed_close(&bed);
	assert_int_equal(rp_handle_wait(after, 0), -ESTALE);
	assert_int_equal(rp_handle_done(after), -ESTALE);
	assert_int_equal(rp_handle_release(after), -ESTALE);
	/* Also when another worker has come. */
	bed_open(&bed, 1);
	assert_int_equal(rp_handle_release(after), -ESTALE);
	bed_close(&bed);
}

static void handles_run_out_by_name_and_come_back(void **state)
{
	enum {
		HANDLES = 5
	};
	struct rp_handle handles[HANDLES], more;
	struct rp_worker_options options;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	options.handle_count = HANDLES;
	bed_open_with(&bed, &options);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < HANDLES; i++)
			assert_ok(bed_submit(&bed, NULL, NULL, &handles[i]));
		assert_int_equal(bed_submit(&bed, NULL, NULL, &more), -ENOSPC);
		assert_says("rp_worker_submit", "all 5 handles", "handle_count");
		for (int i = 0; i < HANDLES; i++)
			assert_ok(rp_handle_wait(handles[i], RP_WAIT_FOREVER));
		/* Ended is not released. */
		assert_int_equal(bed_submit(&bed, NULL, NULL, &more), -ENOSPC);
		assert_ok(rp_handle_release(handles[2]));
		assert_ok(bed_submit(&bed, NULL, NULL, &handles[2]));
		assert_int_equal(bed_submit(&bed, NULL, NULL, &more), -ENOSPC);
		for (int i = 0; i < HANDLES; i++)
			assert_ok(rp_handle_release(handles[i]));
	}
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(the_configuration_is_the_callers_as_it_was_at_submit),
		PROCESS_TEST(the_arguments_are_the_callers_as_they_were_at_submit),
		PROCESS_TEST(
			a_third_submit_waits_for_the_oldest_and_keeps_its_error_to_itself),
		PROCESS_TEST(four_threads_of_250_runs_get_1000_outcomes),
		PROCESS_TEST(a_wait_that_times_out_changes_nothing),
		PROCESS_TEST(all_waiters_hear_the_same_outcome_every_time),
		PROCESS_TEST(a_handle_is_told_apart_once_it_was_released),
		PROCESS_TEST(handles_run_out_by_name_and_come_back),
	};

	return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
