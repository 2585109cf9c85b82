/* SPDX-License-Identifier: MIT */
/* What a worker process keeps of the application that it was forked from: nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "deed.h"
#include "noop.h"
#include "proc.h"

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	return 0;
}

/* Two chips and two callback processes. */
#define PEERS 4

static struct rp_worker *prepare_four(enum rp_sleep_engine engine)
{
	static const struct rp_entry entries[] = { { "noop", noop_entry } };
	static const struct rp_callback callbacks[] = {
		{ .name = "look", .fn = noop_callback },
		{ .name = "listen", .fn = noop_callback },
	};
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_program *program;
	struct rp_worker *worker;

	rp_program_desc_init(&desc);
	desc.name = "four";
	desc.entries = entries;
	desc.entry_count = 1;
	desc.callbacks = callbacks;
	desc.callback_count = 2;
	assert_int_equal(rp_program_create(&desc, &program), 0);
	deed_options(&options, 2);
	options.sleep_engine = engine;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), 0);
	rp_program_free(program);
	return worker;
}

static void end(struct rp_worker *worker)
{
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
}

static void processes_carry_names_that_ps_shows(void **state)
{
	static const char *const names[PEERS] = { "rp-chip0", "rp-chip1", "rp-call0",
						  "rp-call1" };
	struct rp_worker *worker = prepare_four(RP_SLEEP_AUTO);
	char name[32];
	uint32_t peer;

	(void)state;
	for (peer = 0; peer < PEERS; peer++) {
		proc_name(rp_worker_pid(worker, peer), name, sizeof(name));
		assert_string_equal(name, names[peer]);
	}
	assert_int_equal(rp_worker_pid(worker, PEERS), 0);
	assert_int_equal(rp_worker_pid(worker, UINT32_MAX), 0);
	end(worker);
}

static void assert_own_descriptors_only(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	int sockets = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		int fd = atoi(entry->d_name);
		char link[128];

		if (entry->d_name[0] == '.' || fd < 3)
			continue;
		proc_fd_link(pid, fd, link, sizeof(link));
		/* One: the way that memory comes by after the fork. */
		if (!strncmp(link, "socket:", 7) && !sockets++)
			continue;
		if (strcmp(link, "anon_inode:[eventfd]") &&
		    strcmp(link, "anon_inode:[io_uring]"))
			fail_msg("process %d holds %d: %s", (int)pid, fd, link);
	}
	closedir(dir);
}

static void no_descriptor_of_the_application_lives_on_in_a_process(void **state)
{
	static const enum rp_sleep_engine engines[] = { RP_SLEEP_AUTO, RP_SLEEP_FUTEX };
	struct sockaddr_in any = { .sin_family = AF_INET };
	int listening = socket(AF_INET, SOCK_STREAM, 0);
	int file = open("/proc/self/maps", O_RDONLY);
	struct rlimit limit;
	size_t engine;
	int pipes[2];
	int high;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(listening, 1), 0);
	assert_int_equal(pipe(pipes), 0);
	/* Far from the others, as far as the limit goes. */
	high = limit.rlim_cur > 900 ? 900 : (int)limit.rlim_cur - 1;
	high = fcntl(pipes[0], F_DUPFD, high);
	assert_true(high > pipes[1] + 32);
	for (engine = 0; engine < 2; engine++) {
		struct rp_worker *worker = prepare_four(engines[engine]);
		uint32_t peer;

		for (peer = 0; peer < PEERS; peer++) {
			pid_t pid = rp_worker_pid(worker, peer);

			assert_false(proc_holds(pid, listening));
			assert_false(proc_holds(pid, pipes[0]));
			assert_false(proc_holds(pid, pipes[1]));
			assert_false(proc_holds(pid, file));
			assert_own_descriptors_only(pid);
		}
		end(worker);
	}
	/* The application has kept them all. */
	assert_true(fcntl(listening, F_GETFD) >= 0);
	assert_true(fcntl(high, F_GETFD) >= 0);
	close(listening);
	close(pipes[0]);
	close(pipes[1]);
	close(high);
	close(file);
}

static void a_pipe_ends_when_the_application_closes_it(void **state)
{
	struct rp_worker *worker;
	int pipes[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	worker = prepare_four(RP_SLEEP_AUTO);
	close(pipes[1]);
	/* A process that held the other end would keep this waiting. */
	assert_int_equal(read(pipes[0], &byte, 1), 0);
	close(pipes[0]);
	end(worker);
}

static void ignore_it(int sig)
{
	(void)sig;
}

static int host_with_signals(void *arg)
{
	static const int handled[] = { SIGINT,	SIGTERM, SIGCHLD, SIGPIPE,
				       SIGUSR1, SIGSEGV, SIGALRM };
	struct sigaction action = { .sa_handler = ignore_it };
	struct rp_worker_options options;
	struct rp_worker *worker;
	/* Signals 32 and 33 are libc's own; some parents start us with them ignored. */
	uint64_t libc = UINT64_C(3) << 31;
	sigset_t blocked;
	uint32_t chip;
	size_t i;

	(void)arg;
	for (i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		PROC_MUST(!sigaction(handled[i], &action, NULL));
	action.sa_handler = SIG_IGN;
	PROC_MUST(!sigaction(SIGHUP, &action, NULL));
	PROC_MUST(!sigaction(SIGTERM, &action, NULL));
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigaddset(&blocked, SIGTERM);
	PROC_MUST(!sigprocmask(SIG_BLOCK, &blocked, NULL));
	deed_options(&options, 2);
	PROC_MUST(!deed_prepare(&options, &worker));
	for (chip = 0; chip < 2; chip++) {
		pid_t pid = rp_worker_pid(worker, chip);

		PROC_MUST((proc_status_mask(pid, "SigIgn") & ~libc) ==
			  UINT64_C(1) << (SIGINT - 1));
		PROC_MUST(!(proc_status_mask(pid, "SigCgt") & ~libc));
		PROC_MUST(!proc_status_mask(pid, "SigBlk"));
	}
	/* The application's own are as they were. */
	PROC_MUST(!sigprocmask(SIG_BLOCK, NULL, &blocked));
	PROC_MUST(sigismember(&blocked, SIGUSR2) && !sigismember(&blocked, SIGUSR1));
	PROC_MUST(!sigaction(SIGINT, NULL, &action));
	PROC_MUST(action.sa_handler == ignore_it);
	PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	return 0;
}

static void signals_are_as_in_a_fresh_process_but_for_the_interrupt(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(host_with_signals, NULL), 0);
}

static volatile sig_atomic_t interrupts;

static void count_interrupt(int sig)
{
	(void)sig;
	interrupts++;
}

static int host_in_the_foreground(void *arg)
{
	struct sigaction action = { .sa_handler = count_interrupt };
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_handle handle;
	int i;

	(void)arg;
	PROC_MUST(!setpgid(0, 0));
	PROC_MUST(!sigaction(SIGINT, &action, NULL));
	deed_options(&options, 2);
	PROC_MUST(!deed_prepare(&options, &worker));
	for (i = 0; i < 5; i++) {
		/* While one works and one sleeps. */
		PROC_MUST(!deed_submit(worker, 0, DEED_SLEEP, 3000, &handle));
		PROC_MUST(!kill(0, SIGINT));
		PROC_MUST(!rp_handle_wait(handle, RP_WAIT_FOREVER));
		PROC_MUST(!rp_handle_release(handle));
	}
	PROC_MUST(interrupts == 5);
	PROC_MUST(!deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0));
	PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	return 0;
}

static void the_terminals_interrupt_leaves_processes_alive(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(host_in_the_foreground, NULL), 0);
}

static void chips_are_pinned_as_asked(void **state)
{
	struct rp_worker_options options;
	struct rp_worker *worker;
	cpu_set_t allowed, set;
	int cpus[3] = { -1, -1, -1 };
	int last = -1;
	int cpu;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		if (cpus[0] < 0)
			cpus[0] = cpu;
		last = cpu;
	}
	cpus[2] = last;
	deed_options(&options, 3);
	options.chip_cpus = cpus;
	assert_int_equal(deed_prepare(&options, &worker), 0);
	assert_int_equal(sched_getaffinity(rp_worker_pid(worker, 0), sizeof(set), &set),
			 0);
	assert_int_equal(CPU_COUNT(&set), 1);
	assert_true(CPU_ISSET(cpus[0], &set));
	/* -1: wherever the application may be. */
	assert_int_equal(sched_getaffinity(rp_worker_pid(worker, 1), sizeof(set), &set),
			 0);
	assert_true(CPU_EQUAL(&set, &allowed));
	assert_int_equal(sched_getaffinity(rp_worker_pid(worker, 2), sizeof(set), &set),
			 0);
	assert_int_equal(CPU_COUNT(&set), 1);
	assert_true(CPU_ISSET(last, &set));
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	assert_true(CPU_EQUAL(&set, &allowed));
	assert_int_equal(deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
	end(worker);
}

static void every_shared_mapping_is_without_a_name_in_any_file_system(void **state)
{
	struct rp_worker *worker;
	char line[512];
	void *block;
	uint32_t peer;

	(void)state;
	assert_int_equal(rp_shared_alloc((size_t)3 << 20, &block), 0);
	worker = prepare_four(RP_SLEEP_AUTO);
	for (peer = 0; peer < PEERS; peer++) {
		char path[64];
		FILE *maps;
		int memfds = 0;

		snprintf(path, sizeof(path), "/proc/%d/maps",
			 rp_worker_pid(worker, peer));
		maps = fopen(path, "r");
		assert_non_null(maps);
		while (fgets(line, sizeof(line), maps)) {
			/* Shared and writable: ours, the test's pad, or a ring. */
			if (!strstr(line, " rw-s "))
				continue;
			if (strstr(line, "io_uring"))
				continue;
			memfds += strstr(line, "/memfd:rp-") != NULL;
			if (!strstr(line, "(deleted)"))
				fail_msg("a mapping with a name: %s", line);
		}
		fclose(maps);
		assert_true(memfds >= 2);
	}
	end(worker);
	assert_int_equal(rp_shared_free(block), 0);
}

/* Another fork of the application's is no business of the worker's. */
static void a_fork_of_the_application_changes_nothing(void **state)
{
	struct rp_worker_options options;
	struct rp_worker *worker;
	int status;
	pid_t pid;

	(void)state;
	deed_options(&options, 2);
	assert_int_equal(deed_prepare(&options, &worker), 0);
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
	end(worker);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(processes_carry_names_that_ps_shows),
		TEST(no_descriptor_of_the_application_lives_on_in_a_process),
		TEST(a_pipe_ends_when_the_application_closes_it),
		TEST(signals_are_as_in_a_fresh_process_but_for_the_interrupt),
		TEST(the_terminals_interrupt_leaves_processes_alive),
		TEST(chips_are_pinned_as_asked),
		TEST(every_shared_mapping_is_without_a_name_in_any_file_system),
		TEST(a_fork_of_the_application_changes_nothing),
	};

	return cmocka_run_group_tests_name("hygiene", tests, NULL, NULL);
}
