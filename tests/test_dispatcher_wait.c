/* SPDX-License-Identifier: MIT */
/* Waiting for a request that becomes a dispatch just then. */
#include "job.h"

#include <errno.h>
#include <string.h>

#include "base/testing.h"
#include "proc.h"

static _Atomic uint32_t held, go;

static int hold_unqueued(const char *point)
{
	if (strcmp(point, "request.unqueued"))
		return 0;
	atomic_fetch_add(&held, 1);
	while (!atomic_load(&go))
		bed_breathe();
	return 0;
}

static void *wait_for_ever(void *job)
{
	return (void *)(intptr_t)rp_handle_wait(((struct job *)job)->handle,
						RP_WAIT_FOREVER);
}

static _Atomic bool accepted, heard;

static void *wait_and_say(void *job)
{
	void *status = wait_for_ever(job);

	atomic_store(&heard, true);
	return status;
}

static bool has_heard(void *arg)
{
	(void)arg;
	return atomic_load(&heard);
}

/* One thread sleeps for a long dispatch and would tell the other of any that it knew to
 * be running. The other one came when its own was not running yet, and its own has no
 * task whose end would wake anybody. */
static void an_end_is_not_missed_by_who_came_before_the_beginning(void **state)
{
	struct job slow = { .fn = job_gate, .number = 0 };
	struct job quick = { .fn = job_nothing };
	struct rp_worker_options options;
	pthread_t first, second;
	struct bed bed;
	void *status;

	(void)state;
	bed_options(&options, 1);
	options.wait = RP_WAIT_BLOCK;
	job_open_with(&bed, &options, 0);
	assert_ok(job_submit(&bed, &slow));
	gate_await_entered(0, 1);
	assert_int_equal(pthread_create(&first, NULL, wait_for_ever, &slow), 0);
	while (!bed_stats(&bed).caller_sleeps)
		bed_breathe();
	rpi_test_hook = hold_unqueued;
	assert_ok(job_submit(&bed, &quick));
	while (!atomic_load(&held))
		bed_breathe();
	assert_int_equal(pthread_create(&second, NULL, wait_and_say, &quick), 0);
	bed_give_a_chance();
	atomic_store(&go, 1);
	/* While the first one still sleeps. */
	assert_true(proc_await(has_heard, NULL));
	assert_int_equal(pthread_join(second, &status), 0);
	assert_int_equal((intptr_t)status, 0);
	rpi_test_hook = NULL;
	gate_open(0);
	assert_int_equal(pthread_join(first, &status), 0);
	assert_int_equal((intptr_t)status, 0);
	assert_ok(rp_handle_release(slow.handle));
	assert_ok(rp_handle_release(quick.handle));
	bed_close(&bed);
}

/* The dispatcher stops before it accepts, until a waiting thread has got as far as to
 * have looked for the last time before its sleep, and that thread until it has. */
static const char *looking_point;

static int accept_between_look_and_sleep(const char *point)
{
	if (!strcmp(point, "request.unqueued")) {
		atomic_fetch_add(&held, 1);
		while (!atomic_load(&go))
			bed_breathe();
	} else if (!strcmp(point, "request.accepted")) {
		atomic_store(&accepted, true);
	} else if (!strcmp(point, looking_point) && !atomic_load(&go)) {
		atomic_store(&go, 1);
		while (!atomic_load(&accepted))
			bed_breathe();
	}
	return 0;
}

/* Beside what chip 0 does. */
static int gate_in_chip_1(struct rp_run *run, struct job *job)
{
	return TASK(run, 1, ENTRY_GATE, rp_arg_u64(job->number));
}

/* A waiter that tried to leave word with a run too early, and finds it running. */
static void check_a_late_acceptance(struct bed *bed)
{
	struct job job = { .fn = gate_in_chip_1, .number = 1 };
	pthread_t waiter;
	void *status;

	atomic_store(&held, 0);
	atomic_store(&go, 0);
	atomic_store(&accepted, false);
	atomic_store(&heard, false);
	rpi_test_hook = accept_between_look_and_sleep;
	assert_ok(job_submit(bed, &job));
	while (!atomic_load(&held))
		bed_breathe();
	assert_int_equal(pthread_create(&waiter, NULL, wait_and_say, &job), 0);
	gate_await_entered(1, 1);
	bed_give_a_chance();
	gate_open(1);
	assert_true(proc_await(has_heard, NULL));
	assert_int_equal(pthread_join(waiter, &status), 0);
	assert_int_equal((intptr_t)status, 0);
	rpi_test_hook = NULL;
	assert_ok(rp_handle_release(job.handle));
}

static void a_leader_does_not_sleep_on_a_run_that_began_behind_its_back(void **state)
{
	struct rp_worker_options options;
	struct bed bed;

	(void)state;
	bed_options(&options, 2);
	options.wait = RP_WAIT_BLOCK;
	job_open_with(&bed, &options, 0);
	looking_point = "wait.leads";
	check_a_late_acceptance(&bed);
	bed_close(&bed);
}

static void nor_does_a_follower(void **state)
{
	struct job slow = { .fn = job_gate, .number = 0 };
	struct rp_worker_options options;
	pthread_t first;
	struct bed bed;
	void *status;

	(void)state;
	bed_options(&options, 2);
	options.wait = RP_WAIT_BLOCK;
	job_open_with(&bed, &options, 0);
	assert_ok(job_submit(&bed, &slow));
	gate_await_entered(0, 1);
	assert_int_equal(pthread_create(&first, NULL, wait_for_ever, &slow), 0);
	while (!bed_stats(&bed).caller_sleeps)
		bed_breathe();
	looking_point = "wait.follows";
	check_a_late_acceptance(&bed);
	gate_open(0);
	assert_int_equal(pthread_join(first, &status), 0);
	assert_int_equal((intptr_t)status, 0);
	assert_ok(rp_handle_release(slow.handle));
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(an_end_is_not_missed_by_who_came_before_the_beginning),
		PROCESS_TEST(a_leader_does_not_sleep_on_a_run_that_began_behind_its_back),
		PROCESS_TEST(nor_does_a_follower),
	};

	return cmocka_run_group_tests_name("dispatcher_wait", tests, NULL, NULL);
}
