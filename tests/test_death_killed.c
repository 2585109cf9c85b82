/* SPDX-License-Identifier: MIT */
/* A chip is killed or stopped from outside, at every moment of a worker's service:
 * nobody hangs, everybody hears of it, and nothing is left. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "check.h"
#include "death.h"
#include "deed.h"
#include "proc.h"

struct setting {
	const char *name;
	enum rp_wait_policy wait, worker_wait;
	enum rp_sleep_engine engine;
};

static const struct setting settings[] = {
	{ "spin", RP_WAIT_SPIN, RP_WAIT_SPIN, RP_SLEEP_AUTO },
	{ "hybrid", RP_WAIT_HYBRID, RP_WAIT_HYBRID, RP_SLEEP_AUTO },
	{ "block", RP_WAIT_BLOCK, RP_WAIT_BLOCK, RP_SLEEP_AUTO },
	{ "hybrid, futex", RP_WAIT_HYBRID, RP_WAIT_HYBRID, RP_SLEEP_FUTEX },
	{ "block, futex", RP_WAIT_BLOCK, RP_WAIT_BLOCK, RP_SLEEP_FUTEX },
	{ "block, spinning chips", RP_WAIT_BLOCK, RP_WAIT_SPIN, RP_SLEEP_AUTO },
};

static struct rp_worker *prepare_as(const struct setting *setting, uint32_t chip_count,
				    uint32_t slots)
{
	struct rp_worker_options options;
	struct rp_worker *worker;

	deed_options(&options, chip_count);
	options.wait = setting->wait;
	options.worker_wait = setting->worker_wait;
	options.sleep_engine = setting->engine;
	options.task_ring_slots = slots;
	assert_int_equal(deed_prepare(&options, &worker), 0);
	return worker;
}

static void kill_chip(struct rp_worker *worker, uint32_t chip)
{
	pid_t pid = rp_worker_pid(worker, chip);

	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
}

static void a_chip_killed_between_dispatches_fails_the_next(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(settings); i++) {
		struct rp_worker *worker = prepare_as(&settings[i], 2, 0);

		assert_int_equal(deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
		kill_chip(worker, 0);
		/* Accepted before the death was seen or refused after it. */
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), -EOWNERDEAD);
		assert_says("chip 0 (rp-chip0) was killed by signal 9");
		assert_dead(worker, "signal 9");
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		assert_nothing_left(worker);
	}
}

struct waiter {
	pthread_t thread;
	_Atomic pid_t tid;
	struct rp_handle handle;
	int64_t timeout_ns;
	int ret;
	char text[256];
};

static void *wait_in_thread(void *arg)
{
	struct waiter *waiter = arg;

	atomic_store(&waiter->tid, gettid());
	waiter->ret = rp_handle_wait(waiter->handle, waiter->timeout_ns);
	snprintf(waiter->text, sizeof(waiter->text), "%s", rp_last_error());
	return NULL;
}

static void waiter_start(struct waiter *waiter, struct rp_handle handle,
			 int64_t timeout_ns)
{
	waiter->handle = handle;
	waiter->timeout_ns = timeout_ns;
	atomic_store(&waiter->tid, 0);
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_in_thread, waiter),
			 0);
}

static void waiter_expect(struct waiter *waiter, int want, const char *how)
{
	assert_int_equal(pthread_join(waiter->thread, NULL), 0);
	assert_int_equal(waiter->ret, want);
	if (!strstr(waiter->text, how))
		fail_msg("'%s' is not in '%s'", how, waiter->text);
}

struct sleepers {
	struct waiter *waiters;
	int count;
};

static bool all_asleep(void *arg)
{
	const struct sleepers *sleepers = arg;
	int i;

	for (i = 0; i < sleepers->count; i++) {
		pid_t tid = atomic_load(&sleepers->waiters[i].tid);

		if (!tid || proc_thread_state(tid) != 'S')
			return false;
	}
	return true;
}

/* Each waits: asleep, or in its spin. */
static void await_waiting(const struct setting *setting, struct waiter *waiters,
			  int count)
{
	struct sleepers sleepers = { waiters, count };

	if (setting->wait == RP_WAIT_SPIN)
		proc_pause_us(3000);
	else
		assert_true(proc_await(all_asleep, &sleepers));
}

static void a_chip_killed_mid_entry_wakes_whoever_waits(void **state)
{
	struct waiter waiter;
	struct rp_handle handle;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(settings); i++) {
		struct rp_worker *worker = prepare_as(&settings[i], 1, 0);

		deed_pad_reset();
		assert_int_equal(deed_submit(worker, 0, DEED_HANG, 0, &handle), 0);
		deed_await_entered(0, 1);
		waiter_start(&waiter, handle, RP_WAIT_FOREVER);
		await_waiting(&settings[i], &waiter, 1);
		kill_chip(worker, 0);
		waiter_expect(&waiter, -EOWNERDEAD, "signal 9");
		assert_outcome(handle, -EOWNERDEAD, "signal 9");
		assert_dead(worker, "signal 9");
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		assert_nothing_left(worker);
	}
}

static void one_of_two_chips_dies_and_both_runs_end(void **state)
{
	struct waiter waiters[6];
	struct rp_handle first, second;
	size_t i;
	int j;

	(void)state;
	for (i = 0; i < COUNT(settings); i++) {
		struct rp_worker *worker = prepare_as(&settings[i], 2, 0);
		pid_t other = rp_worker_pid(worker, 0);

		deed_pad_reset();
		assert_int_equal(deed_submit(worker, 0, DEED_HANG, 0, &first), 0);
		assert_int_equal(deed_submit(worker, 1, DEED_HANG, 0, &second), 0);
		deed_await_entered(0, 1);
		deed_await_entered(1, 1);
		for (j = 0; j < 6; j++)
			waiter_start(&waiters[j], j % 2 ? second : first,
				     j < 4 ? RP_WAIT_FOREVER : INT64_C(60000000000));
		await_waiting(&settings[i], waiters, 6);
		kill_chip(worker, 1);
		for (j = 0; j < 6; j++)
			waiter_expect(&waiters[j], -EOWNERDEAD, "chip 1");
		/* The other one may not write to the caller's memory any more. */
		assert_int_equal(proc_state(other), 0);
		assert_outcome(first, -EOWNERDEAD, "chip 1");
		assert_outcome(second, -EOWNERDEAD, "chip 1");
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		assert_nothing_left(worker);
	}
}

static void a_run_that_had_ended_before_the_death_has_succeeded(void **state)
{
	struct rp_worker *worker = prepare_as(&settings[1], 2, 0);
	struct rp_handle first, second;

	(void)state;
	assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &first), 0);
	assert_int_equal(deed_submit(worker, 1, DEED_HANG, 0, &second), 0);
	while (!atomic_load(&deed_pad->left[0]) ||
	       proc_state(rp_worker_pid(worker, 0)) != 'S')
		proc_pause_us(500);
	/* Nobody has looked at the first one yet. */
	kill_chip(worker, 1);
	assert_outcome(second, -EOWNERDEAD, "chip 1");
	assert_outcome(first, 0, "");
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_nothing_left(worker);
}

struct submitter {
	pthread_t thread;
	struct rp_worker *worker;
	uint64_t tasks;
	int ret;
	struct rp_handle handle;
	char text[256];
};

static void *submit_in_thread(void *arg)
{
	struct submitter *submitter = arg;

	submitter->ret = deed_submit_many(submitter->worker, 0, DEED_HANG, 0,
					  submitter->tasks, &submitter->handle);
	snprintf(submitter->text, sizeof(submitter->text), "%s", rp_last_error());
	return NULL;
}

static bool counts_a_wait(void *arg)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	return !rp_worker_get_stats(arg, &stats) &&
	       (stats.ring_full_waits || stats.frame_waits);
}

static void kill_under_a_submitter(const struct setting *setting, uint64_t tasks,
				   int before, unsigned delay_us)
{
	struct rp_worker *worker = prepare_as(setting, 1, 4);
	struct submitter submitter = { .worker = worker, .tasks = tasks };
	struct rp_handle handles[2];
	int i;

	deed_pad_reset();
	for (i = 0; i < before; i++)
		assert_int_equal(deed_submit(worker, 0, DEED_HANG, 0, &handles[i]), 0);
	assert_int_equal(
		pthread_create(&submitter.thread, NULL, submit_in_thread, &submitter), 0);
	assert_true(proc_await(counts_a_wait, worker));
	proc_pause_us(delay_us);
	kill_chip(worker, 0);
	assert_int_equal(pthread_join(submitter.thread, NULL), 0);
	assert_int_equal(submitter.ret, -EOWNERDEAD);
	if (!strstr(submitter.text, "signal 9"))
		fail_msg("'signal 9' is not in '%s'", submitter.text);
	for (i = 0; i < before; i++)
		assert_outcome(handles[i], -EOWNERDEAD, "signal 9");
	assert_dead(worker, "signal 9");
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_nothing_left(worker);
}

static void a_submitter_that_waits_for_ring_room_hears_of_the_death(void **state)
{
	size_t i;

	(void)state;
	/* At once, while it spins; later, when it sleeps. */
	for (i = 0; i < COUNT(settings); i++) {
		kill_under_a_submitter(&settings[i], 40, 0, 0);
		kill_under_a_submitter(&settings[i], 40, 1, 5000);
	}
}

static void a_submitter_that_waits_for_a_frame_hears_of_the_death(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(settings); i++) {
		kill_under_a_submitter(&settings[i], 1, 2, 0);
		kill_under_a_submitter(&settings[i], 1, 2, 5000);
	}
}

/* Killed at random under a load of submitters and waiters: nobody hangs, and every
 * accepted handle has one outcome. */
static void *submit_until_refused(void *arg)
{
	struct rp_worker *worker = arg;
	struct rp_handle handle;
	int ret;

	for (;;) {
		ret = deed_submit_many(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0, 3,
				       &handle);
		if (ret)
			return (void *)(intptr_t)ret;
		ret = rp_handle_wait(handle, RP_WAIT_FOREVER);
		rp_handle_release(handle);
		if (ret)
			return (void *)(intptr_t)ret;
	}
}

static void a_chip_killed_under_load_at_any_moment_hangs_nobody(void **state)
{
	unsigned seed = 20;
	int round;

	(void)state;
	for (round = 0; round < 40; round++) {
		struct rp_worker *worker =
			prepare_as(&settings[(unsigned)round % COUNT(settings)], 2, 4);
		pthread_t threads[3];
		void *ret;
		size_t i;

		for (i = 0; i < COUNT(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL,
							submit_until_refused, worker),
					 0);
		proc_pause_us((unsigned)rand_r(&seed) % 3000);
		kill_chip(worker, (uint32_t)round % 2);
		for (i = 0; i < COUNT(threads); i++) {
			assert_int_equal(pthread_join(threads[i], &ret), 0);
			assert_int_equal((intptr_t)ret, -EOWNERDEAD);
		}
		assert_dead(worker, "signal 9");
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		assert_nothing_left(worker);
	}
}

static void the_descriptor_tells_of_a_death(void **state)
{
	struct pollfd fd = { .events = POLLIN };
	struct rp_worker *worker;
	struct rp_handle handle;

	(void)state;
	/* Idle, with nothing in flight. */
	worker = prepare_as(&settings[1], 2, 0);
	fd.fd = rp_worker_fd(worker);
	assert_true(fd.fd > 2);
	assert_int_equal(poll(&fd, 1, 0), 0);
	kill_chip(worker, 0);
	assert_int_equal(poll(&fd, 1, PROC_WATCHDOG_S * 1000), 1);
	assert_int_equal(rp_worker_reap(worker, &handle, 1), 0);
	assert_dead(worker, "signal 9");
	/* Asked for after the death: told all the same. */
	rp_worker_free(worker);
	worker = prepare_as(&settings[1], 1, 0);
	kill_chip(worker, 0);
	assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), -EOWNERDEAD);
	while (deed_submit(worker, 0, DEED_NOTHING, 0, &handle) != -EOWNERDEAD)
		;
	fd.fd = rp_worker_fd(worker);
	assert_int_equal(poll(&fd, 1, PROC_WATCHDOG_S * 1000), 1);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_int_equal(rp_worker_fd(worker), -ESHUTDOWN);
	assert_nothing_left(worker);
}

static void a_stopped_chip_is_killed_at_the_deadline_of_close(void **state)
{
	struct rp_worker *worker;
	struct rp_handle handle;
	pid_t pid;

	(void)state;
	assert_int_equal(deed_prepare(NULL, &worker), 0);
	pid = rp_worker_pid(worker, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle), 0);
	assert_int_equal(rp_handle_wait(handle, 20000000), -ETIMEDOUT);
	assert_int_equal(rp_worker_close(worker, 50000000), -ETIMEDOUT);
	assert_outcome(handle, -EOWNERDEAD, "");
	assert_int_equal(proc_state(pid), 0);
	assert_nothing_left(worker);
	/* With nothing in flight it is given its time to leave, and then killed. */
	assert_int_equal(deed_prepare(NULL, &worker), 0);
	pid = rp_worker_pid(worker, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(rp_worker_close(worker, 50000000), 0);
	assert_int_equal(proc_state(pid), 0);
	assert_nothing_left(worker);
}

static void a_chip_that_is_continued_goes_on(void **state)
{
	struct rp_worker *worker;
	struct rp_handle handle;
	pid_t pid;

	(void)state;
	assert_int_equal(deed_prepare(NULL, &worker), 0);
	pid = rp_worker_pid(worker, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle), 0);
	assert_int_equal(rp_handle_wait(handle, 20000000), -ETIMEDOUT);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_nothing_left(worker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEATH_TEST(a_chip_killed_between_dispatches_fails_the_next),
		DEATH_TEST(a_chip_killed_mid_entry_wakes_whoever_waits),
		DEATH_TEST(one_of_two_chips_dies_and_both_runs_end),
		DEATH_TEST(a_run_that_had_ended_before_the_death_has_succeeded),
		DEATH_TEST(a_submitter_that_waits_for_ring_room_hears_of_the_death),
		DEATH_TEST(a_submitter_that_waits_for_a_frame_hears_of_the_death),
		DEATH_TEST(a_chip_killed_under_load_at_any_moment_hangs_nobody),
		DEATH_TEST(the_descriptor_tells_of_a_death),
		DEATH_TEST(a_stopped_chip_is_killed_at_the_deadline_of_close),
		DEATH_TEST(a_chip_that_is_continued_goes_on),
	};

	return cmocka_run_group_tests_name("death_killed", tests, NULL, NULL);
}
