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

static _Atomic bool heard;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(an_end_is_not_missed_by_who_came_before_the_beginning),
	};

	return cmocka_run_group_tests_name("dispatcher_wait", tests, NULL, NULL);
}
