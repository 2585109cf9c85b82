/* SPDX-License-Identifier: MIT */
/* Waiting for dispatches: each policy on each engine, many waiters, time-outs that
 * race with the end, and what waiting costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "base/cpus.h"
#include "deed.h"
#include "proc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A wait that lasts this long has lost its wake-up: a watchdog, not a limit. */
#define LOST_NS INT64_C(20000000000)

static int set_up(void **state)
{
	(void)state;
	alarm(2 * PROC_WATCHDOG_S);
	deed_pad_reset();
	return 0;
}

struct setting {
	enum rp_wait_policy wait, worker_wait;
	enum rp_sleep_engine engine;
};

static const char *const policy_names[] = { "hybrid", "spin", "block" };

/* NULL when the engine can't be had here. */
static struct rp_worker *prepare_as(const struct setting *setting, uint32_t chip_count)
{
	struct rp_worker_options options;
	struct rp_worker *worker;
	int err;

	deed_options(&options, chip_count);
	options.wait = setting->wait;
	options.worker_wait = setting->worker_wait;
	options.sleep_engine = setting->engine;
	err = deed_prepare(&options, &worker);
	if (err && setting->engine == RP_SLEEP_URING) {
		print_message("left out, io_uring is missing: %s\n", rp_last_error());
		return NULL;
	}
	assert_int_equal(err, 0);
	if (setting->engine != RP_SLEEP_AUTO)
		assert_int_equal(rp_worker_sleep_engine(worker, NULL), setting->engine);
	return worker;
}

static void end(struct rp_worker *worker)
{
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
}

static struct rp_worker_stats stats_of(struct rp_worker *worker)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	assert_int_equal(rp_worker_get_stats(worker, &stats), 0);
	return stats;
}

static void wait_and_release(struct rp_handle handle)
{
	assert_int_equal(rp_handle_wait(handle, LOST_NS), 0);
	assert_int_equal(rp_handle_release(handle), 0);
}

static void dispatch_many(const struct setting *setting, uint32_t chip_count, int rounds)
{
	struct rp_worker *worker = prepare_as(setting, chip_count);
	uint64_t want = 0;
	uint32_t chip;
	int i;

	if (!worker)
		return;
	deed_pad_reset();
	for (i = 0; i < rounds; i++) {
		struct rp_handle first, second;

		/* One, then two in flight, on all chips and on one. */
		assert_int_equal(deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
		assert_int_equal(
			deed_submit(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0, &first), 0);
		assert_int_equal(
			deed_submit(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0, &second), 0);
		wait_and_release(i % 2 ? second : first);
		wait_and_release(i % 2 ? first : second);
		want += 3;
		/* Long enough for everybody to have gone to sleep. */
		if (i % 100 == 99)
			proc_pause_us(2000);
	}
	for (chip = 0; chip < chip_count; chip++)
		assert_int_equal(atomic_load(&deed_pad->left[chip]), want);
	assert_int_equal(stats_of(worker).dispatches, want);
	assert_int_equal(stats_of(worker).dispatches_failed, 0);
	end(worker);
}

static void every_policy_dispatches_on_every_engine(void **state)
{
	static const enum rp_sleep_engine engines[] = { RP_SLEEP_URING, RP_SLEEP_FUTEX };
	static const struct {
		uint32_t chips;
		int rounds;
	} sizes[] = { { 1, 300 }, { 2, 200 }, { 8, 30 } };
	size_t engine, size;
	int wait, worker_wait;

	(void)state;
	for (engine = 0; engine < COUNT(engines); engine++)
		for (wait = 0; wait < 3; wait++)
			for (worker_wait = 0; worker_wait < 3; worker_wait++)
				for (size = 0; size < COUNT(sizes); size++) {
					struct setting setting = {
						(enum rp_wait_policy)wait,
						(enum rp_wait_policy)worker_wait,
						engines[engine]
					};

					dispatch_many(&setting, sizes[size].chips,
						      sizes[size].rounds);
				}
}

/* Time-outs. */

static void a_time_out_that_races_with_the_end_changes_nothing(void **state)
{
	unsigned seed = 11;
	int wait;

	(void)state;
	for (wait = 0; wait < 6; wait++) {
		struct setting setting = { (enum rp_wait_policy)(wait % 3),
					   RP_WAIT_HYBRID,
					   wait < 3 ? RP_SLEEP_AUTO : RP_SLEEP_FUTEX };
		struct rp_worker *worker = prepare_as(&setting, 1);
		int late = 0;
		int i;

		for (i = 0; i < 200; i++) {
			struct rp_handle handle;
			int ret;

			assert_int_equal(deed_submit(worker, 0, DEED_SLEEP,
						     (unsigned)rand_r(&seed) % 200,
						     &handle),
					 0);
			do {
				ret = rp_handle_wait(handle, rand_r(&seed) % 200000);
				late += ret == -ETIMEDOUT;
				assert_true(!ret || ret == -ETIMEDOUT);
			} while (ret);
			assert_int_equal(rp_handle_done(handle), 1);
			assert_int_equal(rp_handle_wait(handle, 0), 0);
			assert_int_equal(rp_handle_release(handle), 0);
		}
		assert_true(late > 0);
		assert_int_equal(stats_of(worker).dispatches, 200);
		end(worker);
	}
}

static void a_time_out_leaves_the_run_going_and_its_frame_taken(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_HYBRID, RP_WAIT_SPIN,
							RP_WAIT_BLOCK };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(policies); i++) {
		struct setting setting = { policies[i], RP_WAIT_HYBRID, RP_SLEEP_AUTO };
		struct rp_worker *worker = prepare_as(&setting, 1);
		struct rp_handle handle;
		uint64_t begin_ns;

		deed_pad_reset();
		assert_int_equal(deed_submit(worker, 0, DEED_GATE, 1, &handle), 0);
		assert_int_equal(rp_handle_wait(handle, -2), -EINVAL);
		assert_int_equal(rp_handle_wait(handle, INT64_MIN), -EINVAL);
		assert_int_equal(rp_handle_wait(handle, 0), -ETIMEDOUT);
		begin_ns = proc_now_ns();
		assert_int_equal(rp_handle_wait(handle, 10000000), -ETIMEDOUT);
		/* Never early. */
		assert_true(proc_now_ns() - begin_ns >= 10000000);
		assert_int_equal(rp_handle_done(handle), 0);
		atomic_store(&deed_pad->gate, 1);
		/* The longest there is: no sum of it wraps. */
		assert_int_equal(rp_handle_wait(handle, INT64_MAX), 0);
		end(worker);
	}
}

/* Several threads. */

#define WAITERS 4

struct relay {
	_Atomic uint64_t turn; /* both handles are there once it has grown */
	_Atomic uint64_t answers;
	struct rp_handle handles[2];
	int wants[2];
	uint64_t turns;
	_Atomic int wrong;
};

static void *wait_for_both(void *arg)
{
	struct relay *relay = arg;
	unsigned seed = (unsigned)gettid();
	uint64_t turn;

	for (turn = 1; turn <= relay->turns; turn++) {
		int first = rand_r(&seed) % 2;
		int i;

		while (atomic_load(&relay->turn) < turn)
			proc_pause_us(20);
		for (i = 0; i < 2; i++) {
			int which = first ^ i;
			int64_t timeout_ns = rand_r(&seed) % 4 ? LOST_NS
							       : rand_r(&seed) % 50000;
			int ret = rp_handle_wait(relay->handles[which], timeout_ns);

			if (ret == -ETIMEDOUT && timeout_ns < LOST_NS)
				ret = rp_handle_wait(relay->handles[which], LOST_NS);
			if (ret != relay->wants[which])
				atomic_store(&relay->wrong, 1);
		}
		atomic_fetch_add(&relay->answers, 1);
	}
	return NULL;
}

static void many_waiters_on_two_runs_all_hear_the_outcome(void **state)
{
	int wait;

	(void)state;
	for (wait = 0; wait < 6; wait++) {
		struct setting setting = { (enum rp_wait_policy)(wait % 3),
					   (enum rp_wait_policy)(wait % 3),
					   wait < 3 ? RP_SLEEP_AUTO : RP_SLEEP_FUTEX };
		struct rp_worker *worker = prepare_as(&setting, 2);
		struct relay relay = { .turns = 150 };
		pthread_t threads[WAITERS];
		unsigned seed = 5;
		uint64_t turn;
		int i;

		for (i = 0; i < WAITERS; i++)
			assert_int_equal(
				pthread_create(&threads[i], NULL, wait_for_both, &relay),
				0);
		for (turn = 1; turn <= relay.turns; turn++) {
			for (i = 0; i < 2; i++) {
				bool fails = turn % 10 == 0 && i;

				relay.wants[i] = fails ? -EXFULL : 0;
				assert_int_equal(
					deed_submit(worker, (uint64_t)i,
						    fails ? DEED_FAIL : DEED_SLEEP,
						    fails ? EXFULL
							  : (unsigned)rand_r(&seed) % 300,
						    &relay.handles[i]),
					0);
			}
			atomic_store(&relay.turn, turn);
			while (atomic_load(&relay.answers) < turn * WAITERS)
				proc_pause_us(20);
			for (i = 0; i < 2; i++)
				assert_int_equal(rp_handle_release(relay.handles[i]), 0);
		}
		for (i = 0; i < WAITERS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(atomic_load(&relay.wrong), 0);
		end(worker);
	}
}

/* A thread loses its CPU anywhere, in the middle of collecting an outcome too. The
 * others must not sleep past it. */
static void nap(int sig)
{
	(void)sig;
	proc_pause_us(2000);
}

struct held {
	struct rp_worker *worker;
	_Atomic uint64_t latest; /* word of the newest handle; its worker is the same */
	uint64_t worker_word;
	_Atomic int stop;
	_Atomic int wrong; /* what a wait returned that it must not */
};

static void *dispatch_while_held(void *arg)
{
	struct held *held = arg;

	while (!atomic_load(&held->stop)) {
		struct rp_handle handle;
		int ret;

		if (deed_submit(held->worker, 0, DEED_NOTHING, 0, &handle))
			break;
		held->worker_word = handle.worker;
		atomic_store(&held->latest, handle.run);
		ret = rp_handle_wait(handle, LOST_NS);
		if (ret)
			atomic_store(&held->wrong, ret);
		rp_handle_release(handle);
	}
	return NULL;
}

static void *wait_beside(void *arg)
{
	struct held *held = arg;

	while (!atomic_load(&held->stop)) {
		uint64_t run = atomic_load(&held->latest);
		struct rp_handle handle = { held->worker_word, run };
		int ret;

		if (!run)
			continue;
		ret = rp_handle_wait(handle, LOST_NS);
		/* The dispatcher gives its handles back as soon as it has heard. */
		if (ret && ret != -ESTALE)
			atomic_store(&held->wrong, ret);
	}
	return NULL;
}

static void a_thread_that_is_held_anywhere_lets_nobody_sleep_for_ever(void **state)
{
	struct sigaction action = { .sa_handler = nap };
	struct sigaction saved;
	int wait;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, &saved), 0);
	for (wait = 0; wait < 3; wait++) {
		struct setting setting = { (enum rp_wait_policy)wait, RP_WAIT_HYBRID,
					   wait ? RP_SLEEP_AUTO : RP_SLEEP_FUTEX };
		struct held held = { .worker = prepare_as(&setting, 1) };
		pthread_t dispatcher, waiters[2];
		int i;

		assert_int_equal(
			pthread_create(&dispatcher, NULL, dispatch_while_held, &held), 0);
		for (i = 0; i < 2; i++)
			assert_int_equal(
				pthread_create(&waiters[i], NULL, wait_beside, &held), 0);
		for (i = 0; i < 250 && !atomic_load(&held.wrong); i++) {
			proc_pause_us(2500);
			pthread_kill(dispatcher, SIGUSR1);
		}
		atomic_store(&held.stop, 1);
		pthread_join(dispatcher, NULL);
		for (i = 0; i < 2; i++)
			pthread_join(waiters[i], NULL);
		if (atomic_load(&held.wrong))
			fail_msg("policy %s: a wait returned %d", policy_names[wait],
				 atomic_load(&held.wrong));
		end(held.worker);
	}
	sigaction(SIGUSR1, &saved, NULL);
}

/* The engine. */

static int host_without_uring(void *arg)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | *(unsigned *)arg),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { COUNT(filter), filter };
	struct rp_worker_options options;
	struct rp_worker *worker;
	const char *reason = NULL;
	int i;

	PROC_MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 77;
	deed_options(&options, 2);
	PROC_MUST(!deed_prepare(&options, &worker));
	PROC_MUST(rp_worker_sleep_engine(worker, &reason) == RP_SLEEP_FUTEX);
	PROC_MUST(reason &&
		  strstr(reason, *(unsigned *)arg == EPERM ? "EPERM" : "ENOSYS"));
	for (i = 0; i < 200; i++) {
		PROC_MUST(!deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0));
		if (i % 20 == 0)
			proc_pause_us(1000);
	}
	PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	options.sleep_engine = RP_SLEEP_URING;
	PROC_MUST(deed_prepare(&options, &worker) < 0);
	PROC_MUST(strstr(rp_last_error(), "io_uring"));
	PROC_MUST(!proc_children(getpid(), NULL, 0));
	return 0;
}

static void io_uring_refused_means_futexes_and_says_why(void **state)
{
	static unsigned refusals[] = { EPERM, ENOSYS };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(refusals); i++) {
		int status = proc_in_host(host_without_uring, &refusals[i]);

		if (status == 77 << 8) {
			print_message("skipped: seccomp filters are refused here\n");
			skip();
		}
		assert_int_equal(status, 0);
	}
}

static void the_environment_chooses_the_engine_when_the_caller_does_not(void **state)
{
	struct setting plain = { RP_WAIT_HYBRID, RP_WAIT_HYBRID, RP_SLEEP_AUTO };
	struct setting futex = { RP_WAIT_HYBRID, RP_WAIT_HYBRID, RP_SLEEP_FUTEX };
	struct rp_worker *worker;
	const char *reason = NULL;

	(void)state;
	setenv("RINGPLANE_PARK", "futex", 1);
	worker = prepare_as(&plain, 1);
	assert_int_equal(rp_worker_sleep_engine(worker, &reason), RP_SLEEP_FUTEX);
	assert_non_null(strstr(reason, "RINGPLANE_PARK"));
	assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
	end(worker);
	setenv("RINGPLANE_PARK", "uring", 1);
	worker = prepare_as(&futex, 1);
	assert_int_equal(rp_worker_sleep_engine(worker, &reason), RP_SLEEP_FUTEX);
	assert_null(strstr(reason, "RINGPLANE_PARK"));
	end(worker);
	setenv("RINGPLANE_PARK", "neither", 1);
	worker = prepare_as(&plain, 1);
	if (rp_worker_sleep_engine(worker, &reason) == RP_SLEEP_URING)
		assert_string_equal(reason, "");
	else
		assert_string_not_equal(reason, "");
	end(worker);
	unsetenv("RINGPLANE_PARK");
}

/* What waiting costs. */

/* Of 1 s, more than any bookkeeping and much less than a spin. */
#define IDLE_CPU_NS 50000000u

static bool is_asleep(void *arg)
{
	uint64_t *seen = arg;
	pid_t pid = (pid_t)seen[0];

	return proc_state(pid) == 'S';
}

static uint64_t cpu_of_chips(struct rp_worker *worker)
{
	uint64_t ns = 0;
	uint32_t chip;

	for (chip = 0; chip < rp_worker_chip_count(worker); chip++)
		ns += proc_cpu_ns(rp_worker_pid(worker, chip));
	return ns;
}

static void an_idle_worker_and_a_waiting_caller_burn_no_cpu(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_HYBRID, RP_WAIT_BLOCK };
	size_t i;

	(void)state;
	for (i = 0; i < 2 * COUNT(policies); i++) {
		struct setting setting = { policies[i / 2], policies[i / 2],
					   i % 2 ? RP_SLEEP_FUTEX : RP_SLEEP_AUTO };
		struct rp_worker *worker = prepare_as(&setting, 4);
		uint64_t chips_ns, caller_ns;
		struct rp_handle handle;
		int round;

		for (round = 0; round < 100; round++)
			assert_int_equal(
				deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
		/* One chip works, asleep itself; three are idle; the caller waits. */
		assert_int_equal(deed_submit(worker, 0, DEED_SLEEP, 1000000, &handle), 0);
		for (round = 0; round < 4; round++) {
			uint64_t pid = (uint64_t)rp_worker_pid(worker, (uint32_t)round);

			assert_true(proc_await(is_asleep, &pid));
		}
		chips_ns = cpu_of_chips(worker);
		caller_ns = proc_cpu_ns(getpid());
		assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), 0);
		caller_ns = proc_cpu_ns(getpid()) - caller_ns;
		chips_ns = cpu_of_chips(worker) - chips_ns;
		if (chips_ns >= IDLE_CPU_NS || caller_ns >= IDLE_CPU_NS)
			fail_msg("policy %s: %.1f ms of CPU in chips, %.1f ms in the "
				 "caller",
				 policy_names[policies[i / 2]], (double)chips_ns / 1e6,
				 (double)caller_ns / 1e6);
		end(worker);
	}
}

static void await_long_gap(struct rp_worker *worker)
{
	uint64_t pid = (uint64_t)rp_worker_pid(worker, 0);

	proc_pause_us(5000);
	assert_true(proc_await(is_asleep, &pid));
}

static void gaps_below_the_budget_never_sleep_and_long_ones_do(void **state)
{
	struct rp_worker_options options;
	struct rp_worker_stats before, after;
	struct rp_worker *worker;
	int i;

	(void)state;
	if (rpi_cpu_allowed() < 2) {
		print_message("skipped: one CPU, so that spins are cut short\n");
		skip();
	}
	/* The user's bounds rule: no gap here is as long as this. */
	deed_options(&options, 1);
	options.spin_us_min = options.spin_us_max = 10000000;
	assert_int_equal(deed_prepare(&options, &worker), 0);
	for (i = 0; i < 2000; i++)
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
	after = stats_of(worker);
	assert_int_equal(after.worker_sleeps, 0);
	assert_int_equal(after.worker_wakes, 0);
	assert_int_equal(after.caller_sleeps, 0);
	assert_int_equal(after.caller_wakes, 0);
	end(worker);

	assert_int_equal(deed_prepare(NULL, &worker), 0);
	assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
	/* From one sleep on, so that it does not matter when exactly it began. */
	await_long_gap(worker);
	before = stats_of(worker);
	for (i = 0; i < 20; i++) {
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
		await_long_gap(worker);
	}
	after = stats_of(worker);
	/* Each gap slept, and each of those sleeps was ended by one wake-up. */
	assert_true(after.worker_sleeps - before.worker_sleeps >= 20);
	assert_int_equal(after.worker_wakes - before.worker_wakes, 20);
	end(worker);
}

/* With the defaults it is the machine's load that decides whether a spin is long
 * enough: some stretch without a sleep must be found. */
static void back_to_back_dispatches_find_the_worker_awake(void **state)
{
	struct rp_worker *worker;
	int tries, i;

	(void)state;
	if (rpi_cpu_allowed() < 2) {
		print_message("skipped: one CPU, so that spins are cut short\n");
		skip();
	}
	assert_int_equal(deed_prepare(NULL, &worker), 0);
	for (tries = 0; tries < 2000; tries++) {
		struct rp_worker_stats before = stats_of(worker), after;

		for (i = 0; i < 50; i++)
			assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
		after = stats_of(worker);
		if (after.worker_sleeps == before.worker_sleeps &&
		    after.caller_sleeps == before.caller_sleeps)
			break;
	}
	assert_true(tries < 2000);
	end(worker);
}

/* A wake-up is sent for a doze that was announced, never more than one for each. */
static void no_sleeper_is_woken_twice(void **state)
{
	static const enum rp_sleep_engine engines[] = { RP_SLEEP_AUTO, RP_SLEEP_FUTEX };
	unsigned seed = 9;
	size_t engine;
	int i;

	(void)state;
	for (engine = 0; engine < COUNT(engines); engine++) {
		struct setting setting = { RP_WAIT_BLOCK, RP_WAIT_BLOCK,
					   engines[engine] };
		struct rp_worker *worker = prepare_as(&setting, 1);
		struct rp_worker_stats stats;

		for (i = 0; i < 2000; i++) {
			assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
			if (rand_r(&seed) % 8 == 0)
				proc_pause_us((unsigned)rand_r(&seed) % 100);
		}
		stats = stats_of(worker);
		/* One task each: at most one wake-up each, either way. */
		assert_true(stats.worker_wakes <= 2000);
		assert_true(stats.caller_wakes <= 2000);
		/* A late wake-up ends the next sleep for nothing, once. */
		assert_true(stats.worker_sleeps <= 2 * stats.worker_wakes + 2);
		assert_true(stats.caller_sleeps <= 2 * stats.caller_wakes + 2);
		assert_true(stats.worker_sleeps > 0);
		end(worker);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_policy_dispatches_on_every_engine),
		TEST(a_time_out_that_races_with_the_end_changes_nothing),
		TEST(a_time_out_leaves_the_run_going_and_its_frame_taken),
		TEST(many_waiters_on_two_runs_all_hear_the_outcome),
		TEST(a_thread_that_is_held_anywhere_lets_nobody_sleep_for_ever),
		TEST(io_uring_refused_means_futexes_and_says_why),
		TEST(the_environment_chooses_the_engine_when_the_caller_does_not),
		TEST(an_idle_worker_and_a_waiting_caller_burn_no_cpu),
		TEST(gaps_below_the_budget_never_sleep_and_long_ones_do),
		TEST(back_to_back_dispatches_find_the_worker_awake),
		TEST(no_sleeper_is_woken_twice),
	};

	return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
