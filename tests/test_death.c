/* SPDX-License-Identifier: MIT */
/* A process of a worker dies in service, by every road: whoever waits hears of it,
 * everything after it says the same, and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "chip/server.h"
#include "deed.h"
#include "proc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct proc_census at_start;

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	proc_census_take(&at_start);
	return 0;
}

static void assert_text_has(const char *part)
{
	if (!strstr(rp_last_error(), part))
		fail_msg("'%s' is not in '%s'", part, rp_last_error());
}

/* Everything that is asked of a worker whose process died says so, at once. */
static void assert_dead(struct rp_worker *worker, const char *how)
{
	struct rp_handle handle;
	int i;

	for (i = 0; i < 3; i++) {
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), -EOWNERDEAD);
		assert_text_has(how);
		assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle),
				 -EOWNERDEAD);
		assert_text_has(how);
	}
}

static void assert_nothing_left(struct rp_worker *worker)
{
	uint32_t peer;

	for (peer = 0; peer < rp_worker_chip_count(worker); peer++)
		assert_int_equal(rp_worker_pid(worker, peer), 0);
	rp_worker_free(worker);
	assert_true(proc_census_same(&at_start));
}

static void assert_outcome(struct rp_handle handle, int want, const char *how)
{
	int i;

	for (i = 0; i < 3; i++) {
		assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), want);
		if (want)
			assert_text_has(how);
		assert_int_equal(rp_handle_done(handle), 1);
	}
}

/* An entry ends its process. */

static void an_entry_that_ends_its_process_is_reported_with_how(void **state)
{
	static const struct {
		const char *name;
		enum deed deed;
		uint64_t operand;
		const char *how;
	} cases[] = {
		{ "segfault", DEED_SEGV, 0, "killed by signal 11" },
		{ "exit 3", DEED_EXIT, 3, "exited with status 3" },
		{ "exit 0", DEED_EXIT, 0, "exited with status 0" },
		{ "abort", DEED_ABORT, 0, "killed by signal 6" },
	};
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_handle handle;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		deed_options(&options, 2);
		assert_int_equal(deed_prepare(&options, &worker), 0);
		assert_int_equal(deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
		assert_int_equal(
			deed_submit(worker, 1, cases[i].deed, cases[i].operand, &handle),
			0);
		assert_outcome(handle, -EOWNERDEAD, cases[i].how);
		assert_text_has("chip 1 (rp-chip1)");
		assert_dead(worker, cases[i].how);
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		assert_int_equal(rp_worker_close(worker, 0), 0);
		assert_outcome(handle, -EOWNERDEAD, cases[i].how);
		assert_nothing_left(worker);
		assert_int_equal(rp_handle_wait(handle, 0), -ESTALE);
	}
}

static void an_entry_that_fails_costs_its_run_and_nothing_else(void **state)
{
	static const struct {
		enum deed deed;
		uint64_t operand;
		int want;
		const char *text;
	} cases[] = {
		{ DEED_FAIL, EXFULL, -EXFULL, "chip 0" },
		{ DEED_RETURN, 7, -EINVAL, "returned 7" },
		{ DEED_RETURN, INT32_MAX, -EINVAL, "returned 2147483647" },
		{ DEED_RETURN, (uint64_t)(int64_t)INT32_MIN, INT32_MIN, "chip 0" },
	};
	struct rp_worker *worker;
	size_t i;

	(void)state;
	assert_int_equal(deed_prepare(NULL, &worker), 0);
	for (i = 0; i < COUNT(cases); i++) {
		assert_int_equal(deed_run(worker, 0, cases[i].deed, cases[i].operand),
				 cases[i].want);
		assert_text_has(cases[i].text);
		assert_text_has("'act'");
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
	}
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_nothing_left(worker);
}

static void an_entry_that_never_returns_is_waited_out_and_closed(void **state)
{
	static const enum deed deeds[] = { DEED_HANG, DEED_SPIN };
	struct rp_worker *worker;
	struct rp_handle handle;
	size_t i;
	pid_t pid;

	(void)state;
	for (i = 0; i < COUNT(deeds); i++) {
		assert_int_equal(deed_prepare(NULL, &worker), 0);
		pid = rp_worker_pid(worker, 0);
		assert_int_equal(deed_submit(worker, 0, deeds[i], 0, &handle), 0);
		assert_int_equal(rp_handle_wait(handle, 0), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, 5000000), -ETIMEDOUT);
		assert_int_equal(rp_handle_done(handle), 0);
		assert_int_equal(rp_worker_close(worker, 50000000), -ETIMEDOUT);
		assert_text_has("killed");
		assert_int_equal(proc_state(pid), 0);
		assert_outcome(handle, -EOWNERDEAD, "rp_worker_close");
		assert_nothing_left(worker);
	}
}

/* The host's exit handlers and stdio buffers are the host's alone. */
static char host_file[64];
static FILE *host_stream;

static void note_exit(void)
{
	FILE *file = fopen(host_file, "a");

	if (file) {
		fputs("handler\n", file);
		fclose(file);
	}
}

static int host_whose_entry_exits(void *arg)
{
	struct rp_worker *worker;

	(void)arg;
	PROC_MUST(!atexit(note_exit));
	host_stream = fopen(host_file, "a");
	PROC_MUST(host_stream);
	fputs("buffered\n", host_stream);
	printf("buffered\n");
	PROC_MUST(!deed_prepare(NULL, &worker));
	PROC_MUST(deed_run(worker, 0, DEED_EXIT, 3) == -EOWNERDEAD);
	PROC_MUST(strstr(rp_last_error(), "status 3"));
	rp_worker_free(worker);
	PROC_MUST(!deed_prepare(NULL, &worker));
	PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	exit(0);
}

static void an_entry_that_exits_runs_no_handler_of_the_host(void **state)
{
	char text[256] = "";
	int stdout_fd = dup(1);
	FILE *file;
	int status;
	int fd;

	(void)state;
	snprintf(host_file, sizeof(host_file), "/tmp/rp-test-death-XXXXXX");
	fd = mkstemp(host_file);
	assert_true(fd >= 0);
	fflush(stdout);
	assert_true(dup2(fd, 1) == 1);
	/* Appends, as the other writers do. */
	assert_int_equal(fcntl(1, F_SETFL, O_APPEND), 0);
	status = proc_in_host(host_whose_entry_exits, NULL);
	assert_true(dup2(stdout_fd, 1) == 1);
	close(stdout_fd);
	assert_int_equal(status, 0);
	lseek(fd, 0, SEEK_SET);
	file = fdopen(fd, "r");
	assert_non_null(file);
	status = (int)fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	unlink(host_file);
	/* One handler, two buffers, in the order in which exit() goes. */
	assert_string_equal(text, "handler\nbuffered\nbuffered\n");
}

/* A process is killed from outside. */

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
		assert_text_has("chip 0 (rp-chip0) was killed by signal 9");
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

static void close_reports_a_death_that_nobody_has_heard_of(void **state)
{
	struct rp_worker *worker;
	struct rp_handle handle;

	(void)state;
	assert_int_equal(deed_prepare(NULL, &worker), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_EXIT, 5, &handle), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), -EOWNERDEAD);
	assert_text_has("status 5");
	assert_outcome(handle, -EOWNERDEAD, "status 5");
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

/* A callback process dies. */

static int noop_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

static int exit_in_callback(struct rp_callback_context *context,
			    const struct rp_arg *args, size_t nargs, void *user)
{
	(void)context;
	(void)args;
	(void)nargs;
	exit(*(int *)user);
}

static int call_back(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		     void *user)
{
	(void)args;
	(void)nargs;
	(void)user;
	return rp_run_callback(run, 0, NULL, 0);
}

static void a_callback_that_exits_is_named(void **state)
{
	static int status = 9;
	static const struct rp_entry entries[] = { { "noop", noop_entry } };
	static const struct rp_callback callbacks[] = { { "quit", exit_in_callback,
							  &status } };
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_program *program;
	struct rp_worker *worker;

	(void)state;
	rp_program_desc_init(&desc);
	desc.name = "caller";
	desc.entries = entries;
	desc.entry_count = 1;
	desc.callbacks = callbacks;
	desc.callback_count = 1;
	desc.orchestrate = call_back;
	assert_int_equal(rp_program_create(&desc, &program), 0);
	deed_options(&options, 1);
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), 0);
	rp_program_free(program);
	assert_int_equal(rp_worker_run(worker, NULL, NULL, 0, NULL), -EOWNERDEAD);
	assert_text_has("callback worker 0 (rp-call0) exited with status 9");
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_nothing_left(worker);
}

/* A host that takes every status. */

static void reap_everything(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = saved;
}

static int serve_beside_a_reaper(void *arg)
{
	struct sigaction action = { .sa_handler = *(sighandler_t *)arg };
	struct rp_worker *worker;
	int i;

	PROC_MUST(!sigaction(SIGCHLD, &action, NULL));
	for (i = 0; i < 10; i++) {
		PROC_MUST(!deed_prepare(NULL, &worker));
		PROC_MUST(!deed_run(worker, 0, DEED_NOTHING, 0));
		PROC_MUST(deed_run(worker, 0, i % 2 ? DEED_SEGV : DEED_EXIT, 4) ==
			  -EOWNERDEAD);
		/* Whoever came first has the status; the death is known in any case. */
		PROC_MUST(strstr(rp_last_error(), "chip 0 (rp-chip0) "));
		PROC_MUST(strstr(rp_last_error(), "status") ||
			  strstr(rp_last_error(), "signal 11"));
		PROC_MUST(deed_run(worker, 0, DEED_NOTHING, 0) == -EOWNERDEAD);
		PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
		rp_worker_free(worker);
		PROC_MUST(!proc_children(getpid(), NULL, 0));
	}
	return 0;
}

static void a_host_that_takes_every_status_hears_of_a_death(void **state)
{
	sighandler_t reaper = reap_everything;
	sighandler_t ignore = SIG_IGN;

	(void)state;
	assert_int_equal(proc_in_host(serve_beside_a_reaper, &reaper), 0);
	assert_int_equal(proc_in_host(serve_beside_a_reaper, &ignore), 0);
}

static int leave_others_alone(void *arg)
{
	struct rp_worker *worker;
	int status;
	pid_t mine;

	(void)arg;
	mine = fork();
	if (!mine)
		_exit(42);
	PROC_MUST(!deed_prepare(NULL, &worker));
	PROC_MUST(deed_run(worker, 0, DEED_EXIT, 4) == -EOWNERDEAD);
	rp_worker_free(worker);
	PROC_MUST(waitpid(mine, &status, 0) == mine);
	PROC_MUST(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	return 0;
}

static void the_hosts_own_children_are_left_to_the_host(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(leave_others_alone, NULL), 0);
}

/* The parent dies. */

enum doing {
	DOING_IDLE,
	DOING_DISPATCH,
	DOING_SPIN,
	DOING_HANG,
	DOING_PREPARE
};

struct host {
	enum doing doing;
	enum rp_wait_policy policy;
};

static int host_to_be_killed(void *arg)
{
	const struct host *host = arg;
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_handle handle;

	deed_options(&options, 2);
	options.wait = options.worker_wait = host->policy;
	atomic_store(&deed_pad->words[0], 1);
	do {
		PROC_MUST(!deed_prepare(&options, &worker));
		if (host->doing == DOING_PREPARE)
			rp_worker_free(worker);
	} while (host->doing == DOING_PREPARE);
	PROC_MUST(!deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0));
	if (host->doing == DOING_SPIN || host->doing == DOING_HANG)
		PROC_MUST(!deed_submit(worker, DEED_ALL_CHIPS,
				       host->doing == DOING_SPIN ? DEED_SPIN : DEED_HANG,
				       0, &handle));
	atomic_store(&deed_pad->words[0], 2);
	while (host->doing == DOING_DISPATCH)
		PROC_MUST(!deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0));
	for (;;)
		pause();
}

static bool nobody_left(void *arg)
{
	(void)arg;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return proc_children(getpid(), NULL, 0) == 0;
}

static bool host_is_ready(void *arg)
{
	return atomic_load(&deed_pad->words[0]) >= *(uint64_t *)arg;
}

static void kill_host(const struct host *host, unsigned delay_us)
{
	uint64_t begin_ns, goal = host->doing == DOING_PREPARE ? 1 : 2;
	pid_t pid;

	deed_pad_reset();
	pid = proc_fork_host(host_to_be_killed, (void *)host);
	assert_true(pid > 0);
	assert_true(proc_await(host_is_ready, &goal));
	proc_pause_us(delay_us);
	if (host->doing != DOING_PREPARE)
		assert_int_equal(proc_children(pid, NULL, 0), 2);
	begin_ns = proc_now_ns();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(proc_await(nobody_left, NULL));
	if (proc_now_ns() - begin_ns > 1000000000u)
		print_message("the processes took %.1f s to be gone\n",
			      (double)(proc_now_ns() - begin_ns) / 1e9);
}

static void processes_end_with_their_parent(void **state)
{
	static const struct host hosts[] = {
		{ DOING_IDLE, RP_WAIT_SPIN },	    { DOING_IDLE, RP_WAIT_HYBRID },
		{ DOING_IDLE, RP_WAIT_BLOCK },	    { DOING_DISPATCH, RP_WAIT_SPIN },
		{ DOING_DISPATCH, RP_WAIT_HYBRID }, { DOING_DISPATCH, RP_WAIT_BLOCK },
		{ DOING_SPIN, RP_WAIT_HYBRID },	    { DOING_HANG, RP_WAIT_HYBRID },
		{ DOING_PREPARE, RP_WAIT_HYBRID },
	};
	unsigned seed = 7;
	size_t i;
	int round;

	(void)state;
	/* Orphans come here, so that none of them escapes the count. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	for (i = 0; i < COUNT(hosts); i++) {
		int rounds = hosts[i].doing == DOING_PREPARE ? 40 : 4;

		for (round = 0; round < rounds; round++)
			kill_host(&hosts[i], (unsigned)rand_r(&seed) % 12000);
	}
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* A process writes what it never may. */

enum nonsense {
	WRITE_DONE_FAR,
	WRITE_DONE_MAX,
	WRITE_LOADED,
	WRITE_DOZING,
	WRITE_ATTENTION,
	WRITE_DEP_WAITERS,
	WRITE_ROOM,
	WRITE_PHASE,
	WRITE_FAILED_STATUS,
	WRITE_CANCELLED,
	WRITE_RING_FULL,
	WRITE_RING_WILD,
	WRITE_KINDS
};

/* Until the caller has heard: what was written would be mended otherwise. */
static void await_gate(void)
{
	while (!atomic_load(&deed_pad->gate))
		proc_pause_us(100);
}

static int write_nonsense(struct rp_chip *chip, uint64_t operand)
{
	struct rpi_frame *frame = &chip->frames[chip->task->frame_idx];

	switch ((enum nonsense)operand) {
	case WRITE_DONE_FAR:
		atomic_store(&chip->self->done_seq, chip->rx.next_seq + 1000);
		await_gate();
		break;
	case WRITE_DONE_MAX:
		atomic_store(&chip->self->done_seq, UINT64_MAX);
		await_gate();
		break;
	case WRITE_LOADED:
		atomic_store(&chip->self->loaded_seq, UINT64_MAX);
		break;
	case WRITE_DOZING:
		atomic_store(&chip->self->dozing, UINT32_MAX);
		break;
	case WRITE_ATTENTION:
		atomic_store(&chip->self->attention, UINT32_MAX);
		break;
	case WRITE_DEP_WAITERS:
		atomic_store(&chip->self->dep_waiters, UINT64_MAX);
		break;
	case WRITE_ROOM:
		atomic_store(&chip->self->room_seq, UINT64_MAX);
		break;
	case WRITE_PHASE:
		atomic_store(&chip->self->phase, UINT32_MAX);
		break;
	case WRITE_FAILED_STATUS:
		frame->failed_status = 77;
		memset(frame->failed_text, 'x', sizeof(frame->failed_text));
		atomic_store(&frame->cancelled_run, chip->task->run_seq);
		atomic_store(&frame->failed_run, chip->task->run_seq);
		break;
	case WRITE_CANCELLED:
		atomic_store(&frame->cancelled_run, chip->task->run_seq);
		break;
	case WRITE_RING_FULL:
		/* Full, as the parent must read it. */
		rpi_burst_set_indices(
			chip->rx.at.burst,
			&(struct rpi_burst_indices){
				.prod_head = 1000,
				.prod_tail = 1000,
				.cons_tail = 1000 - rpi_burst_capacity(chip->rx.at.burst),
			});
		break;
	case WRITE_RING_WILD:
		rpi_burst_set_indices(chip->rx.at.burst, &(struct rpi_burst_indices){
								 .prod_head = UINT32_MAX,
								 .prod_tail = 5,
								 .cons_head = 0x80000000u,
								 .cons_tail = 0x7fffffffu,
							 });
		break;
	default:
		break;
	}
	return 0;
}

static int host_with_a_mad_chip(void *arg)
{
	uint64_t kind = *(uint64_t *)arg;
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_handle handle;
	int err;
	int i;

	deed_custom = write_nonsense;
	deed_options(&options, 2);
	options.wait = RP_WAIT_SPIN;
	PROC_MUST(!deed_prepare(&options, &worker));
	PROC_MUST(!deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0));
	err = deed_run(worker, 0, DEED_CUSTOM, kind);
	atomic_store(&deed_pad->gate, 1);
	PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD);
	if (kind == WRITE_DONE_FAR || kind == WRITE_DONE_MAX ||
	    kind == WRITE_FAILED_STATUS || kind == WRITE_CANCELLED)
		PROC_MUST(err == -EPROTO || err == -EOWNERDEAD);
	/* What comes after it may fail and may not end; it must not take the caller
	 * with it. Many tasks in a run use the ring that has been written to. */
	for (i = 0; i < 20; i++) {
		err = deed_submit_many(worker, 0, DEED_NOTHING, 0, 30, &handle);
		PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD);
		if (err)
			break;
		err = rp_handle_wait(handle, 200000000);
		PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD ||
			  err == -ETIMEDOUT);
		if (err)
			break;
	}
	err = rp_worker_close(worker, 300000000);
	PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD || err == -ETIMEDOUT);
	rp_worker_free(worker);
	PROC_MUST(!proc_children(getpid(), NULL, 0));
	return 0;
}

static void nonsense_in_shared_words_is_never_followed(void **state)
{
	uint64_t kind;
	int bad = 0;

	(void)state;
	for (kind = 0; kind < WRITE_KINDS; kind++) {
		int status;

		deed_pad_reset();
		status = proc_in_host(host_with_a_mad_chip, &kind);
		if (!status)
			continue;
		print_message("nonsense %d: the caller ended with wait status %#x\n",
			      (int)kind, (unsigned)status);
		bad++;
	}
	assert_int_equal(bad, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_entry_that_ends_its_process_is_reported_with_how),
		TEST(an_entry_that_fails_costs_its_run_and_nothing_else),
		TEST(an_entry_that_never_returns_is_waited_out_and_closed),
		TEST(an_entry_that_exits_runs_no_handler_of_the_host),
		TEST(a_chip_killed_between_dispatches_fails_the_next),
		TEST(a_chip_killed_mid_entry_wakes_whoever_waits),
		TEST(one_of_two_chips_dies_and_both_runs_end),
		TEST(a_run_that_had_ended_before_the_death_has_succeeded),
		TEST(a_submitter_that_waits_for_ring_room_hears_of_the_death),
		TEST(a_submitter_that_waits_for_a_frame_hears_of_the_death),
		TEST(a_chip_killed_under_load_at_any_moment_hangs_nobody),
		TEST(the_descriptor_tells_of_a_death),
		TEST(close_reports_a_death_that_nobody_has_heard_of),
		TEST(a_stopped_chip_is_killed_at_the_deadline_of_close),
		TEST(a_chip_that_is_continued_goes_on),
		TEST(a_callback_that_exits_is_named),
		TEST(a_host_that_takes_every_status_hears_of_a_death),
		TEST(the_hosts_own_children_are_left_to_the_host),
		TEST(processes_end_with_their_parent),
		TEST(nonsense_in_shared_words_is_never_followed),
	};

	return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
