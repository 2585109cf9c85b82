/* SPDX-License-Identifier: MIT */
/* A task ends the process that it runs in, by every road: whoever waits hears of it,
 * everything after it says the same, and nothing is left. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "check.h"
#include "death.h"
#include "deed.h"
#include "noop.h"
#include "proc.h"

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
		assert_says("chip 1 (rp-chip1)");
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
		assert_says(cases[i].text);
		assert_says("'act'");
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
		assert_says("killed");
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

static void close_reports_a_death_that_nobody_has_heard_of(void **state)
{
	struct rp_worker *worker;
	struct rp_handle handle;

	(void)state;
	assert_int_equal(deed_prepare(NULL, &worker), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_EXIT, 5, &handle), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), -EOWNERDEAD);
	assert_says("status 5");
	assert_outcome(handle, -EOWNERDEAD, "status 5");
	assert_nothing_left(worker);
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
	static const struct rp_callback callbacks[] = {
		{ .name = "quit", .fn = exit_in_callback, .user = &status }
	};
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
	assert_says("callback worker 0 (rp-call0) exited with status 9");
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_nothing_left(worker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEATH_TEST(an_entry_that_ends_its_process_is_reported_with_how),
		DEATH_TEST(an_entry_that_fails_costs_its_run_and_nothing_else),
		DEATH_TEST(an_entry_that_never_returns_is_waited_out_and_closed),
		DEATH_TEST(an_entry_that_exits_runs_no_handler_of_the_host),
		DEATH_TEST(close_reports_a_death_that_nobody_has_heard_of),
		DEATH_TEST(a_callback_that_exits_is_named),
	};

	return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
