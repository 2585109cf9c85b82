/* SPDX-License-Identifier: MIT */
/* exit() and libc's handlers for it, on both sides of the fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "deed.h"
#include "proc.h"

/* Takes libc's lock on its exit handlers, looks at each of them, and runs none. */
void __cxa_finalize(void *key);

/* So many that the lock is hardly ever free. */
#define HANDLERS 2000

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	return 0;
}

/* --- A thread of the host is at the handlers when the processes are forked ----- */

static _Atomic int busy;

static void *hold_the_lock(void *arg)
{
	static char nobodys;

	while (atomic_load(&busy))
		__cxa_finalize(&nobodys);
	return arg;
}

static void nothing(void)
{
}

static int prepare_beside_exit_handlers(void *arg)
{
	struct rp_worker_options options;
	pthread_t thread;

	(void)arg;
	for (int i = 0; i < HANDLERS; i++)
		PROC_MUST(!atexit(nothing));
	deed_options(&options, 2);
	/* Ends a hang. */
	options.startup_timeout_s = 20;
	atomic_store(&busy, 1);
	PROC_MUST(!pthread_create(&thread, NULL, hold_the_lock, NULL));
	for (int i = 0; i < 10; i++) {
		struct rp_worker *worker;

		PROC_MUST(!deed_prepare(&options, &worker));
		PROC_MUST(!deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0));
		PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
		rp_worker_free(worker);
	}
	atomic_store(&busy, 0);
	PROC_MUST(!pthread_join(thread, NULL));
	return 0;
}

static void processes_start_while_a_thread_is_at_the_exit_handlers(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(prepare_beside_exit_handlers, NULL), 0);
}

/* --- Whose handlers run ---------------------------------------------------------- */

static char file_name[64];

/* The handlers that ran, one character each, whichever process they ran in. */
static void note(const char *text)
{
	int fd = open(file_name, O_WRONLY | O_APPEND);

	PROC_MUST(fd >= 0);
	PROC_MUST(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void note_first(void)
{
	note("1");
}

static void note_second(void)
{
	note("2");
}

static void note_third(void)
{
	note("3");
}

/* An entry, as a library that it uses might. */
static void *exit_in_thread(void *arg)
{
	exit((int)(intptr_t)arg);
}

static int exit_by_another_thread(struct rp_chip *chip, uint64_t operand)
{
	pthread_t thread;

	(void)chip;
	if (pthread_create(&thread, NULL, exit_in_thread, (void *)(intptr_t)operand))
		return -EAGAIN;
	for (;;)
		pause();
}

static int exit_in_a_child(struct rp_chip *chip, uint64_t operand)
{
	pid_t pid = fork();
	int status;

	(void)chip;
	if (!pid)
		exit((int)operand);
	if (waitpid(pid, &status, 0) != pid)
		return -ECHILD;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EPROTO;
}

static int host_of_exits(void *arg)
{
	struct rp_worker *before, *after;

	(void)arg;
	PROC_MUST(!atexit(note_first));
	PROC_MUST(!deed_prepare(NULL, &before));
	PROC_MUST(!atexit(note_second));
	PROC_MUST(!deed_prepare(NULL, &after));
	PROC_MUST(!atexit(note_third));

	PROC_MUST(deed_run(before, 0, DEED_EXIT, 3) == -EOWNERDEAD);
	PROC_MUST(strstr(rp_last_error(), "exited with status 3"));
	rp_worker_free(before);

	/* What a process has forked itself is treated as it is. */
	deed_custom = exit_in_a_child;
	PROC_MUST(!deed_prepare(NULL, &before));
	PROC_MUST(deed_run(before, 0, DEED_CUSTOM, 7) == -7);
	rp_worker_free(before);

	deed_custom = exit_by_another_thread;
	PROC_MUST(!deed_prepare(NULL, &before));
	PROC_MUST(deed_run(before, 0, DEED_CUSTOM, 5) == -EOWNERDEAD);
	PROC_MUST(strstr(rp_last_error(), "exited with status 5"));
	rp_worker_free(before);

	PROC_MUST(deed_run(after, 0, DEED_EXIT, 0) == -EOWNERDEAD);
	PROC_MUST(strstr(rp_last_error(), "exited with status 0"));
	rp_worker_free(after);
	exit(0);
}

static int host_child_of_its_own(void *arg)
{
	struct rp_worker *worker;
	int status;
	pid_t pid;

	(void)arg;
	PROC_MUST(!atexit(note_first));
	PROC_MUST(!deed_prepare(NULL, &worker));
	/* A leak checker would look for the worker's thread in the child. */
	rp_worker_free(worker);
	fflush(NULL);
	pid = fork();
	if (!pid)
		exit(4);
	PROC_MUST(waitpid(pid, &status, 0) == pid);
	PROC_MUST(WIFEXITED(status) && WEXITSTATUS(status) == 4);
	return 0;
}

static void expect_handlers(int (*host)(void *arg), const char *want)
{
	char text[64] = "";
	int fd;

	snprintf(file_name, sizeof(file_name), "/tmp/rp-test-exit-XXXXXX");
	fd = mkstemp(file_name);
	assert_true(fd >= 0);
	assert_int_equal(proc_in_host(host, NULL), 0);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	close(fd);
	unlink(file_name);
	assert_string_equal(text, want);
}

static void exit_in_a_process_runs_no_handler_whoever_calls_it(void **state)
{
	(void)state;
	/* The host's own exit() runs its own, each once. */
	expect_handlers(host_of_exits, "321");
}

static void a_child_of_the_host_runs_the_hosts_handlers(void **state)
{
	(void)state;
	expect_handlers(host_child_of_its_own, "1");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(processes_start_while_a_thread_is_at_the_exit_handlers),
		TEST(exit_in_a_process_runs_no_handler_whoever_calls_it),
		TEST(a_child_of_the_host_runs_the_hosts_handlers),
	};

	return cmocka_run_group_tests_name("exit", tests, NULL, NULL);
}
