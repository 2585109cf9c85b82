/* SPDX-License-Identifier: MIT */
/* Starting a worker in a host application that is a strange place. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "check.h"
#include "deed.h"
#include "proc.h"
#include "rig.h"

static int without_standard_descriptors(void *arg)
{
	struct rp_worker_options options;
	struct rp_worker *worker;
	char link[64];
	int fd;

	(void)arg;
	close(0);
	close(1);
	close(2);
	deed_options(&options, 2);
	if (deed_prepare(&options, &worker))
		return 1;
	if (deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0))
		return 2;
	for (fd = 0; fd < 3; fd++) {
		/* Nothing that others read or print to is one of ours. */
		if (fcntl(fd, F_GETFD) >= 0)
			return 10 + fd;
		proc_fd_link(rp_worker_pid(worker, 0), fd, link, sizeof(link));
		if (link[0])
			return 20 + fd;
		proc_fd_link(rp_worker_pid(worker, 1), fd, link, sizeof(link));
		if (link[0])
			return 30 + fd;
	}
	if (rp_worker_close(worker, RP_WAIT_FOREVER))
		return 3;
	rp_worker_free(worker);
	return 0;
}

static void closed_standard_descriptors_stay_closed(void **state)
{
	int status = proc_in_host(without_standard_descriptors, NULL);

	(void)state;
	assert_true(WIFEXITED(status));
	/* 10: descriptor 0 is taken in the caller; 20, 30: in a chip. */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static _Atomic int hammering;

static void *hammer_malloc(void *arg)
{
	void *kept[64] = { NULL };
	unsigned turn = 0;

	(void)arg;
	while (atomic_load(&hammering)) {
		free(kept[turn % 64]);
		kept[turn % 64] = malloc(16 + turn * 37 % 5000);
		turn++;
	}
	for (turn = 0; turn < 64; turn++)
		free(kept[turn]);
	return NULL;
}

static void *hammer_stdout(void *arg)
{
	(void)arg;
	flockfile(stdout);
	while (atomic_load(&hammering))
		proc_pause_us(200);
	funlockfile(stdout);
	return NULL;
}

static void prepare_beside(void *(*hammer)(void *arg), int rounds)
{
	pthread_t thread;
	int i;

	atomic_store(&hammering, 1);
	assert_int_equal(pthread_create(&thread, NULL, hammer, NULL), 0);
	for (i = 0; i < rounds; i++) {
		struct rp_worker *worker;

		assert_int_equal(rig_prepare(RP_PAGES_NEVER, 0, &worker), 0);
		rig_end(worker);
	}
	atomic_store(&hammering, 0);
	pthread_join(thread, NULL);
}

static void processes_start_while_a_thread_allocates(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	print_message("skipped: the sanitizer's allocator does not survive a fork from "
		      "a process that allocates meanwhile\n");
	skip();
#endif
	prepare_beside(hammer_malloc, 30);
}

static void processes_start_while_a_thread_holds_stdout(void **state)
{
	(void)state;
	prepare_beside(hammer_stdout, 5);
}

static void *prepare_in_thread(void *arg)
{
	struct rp_worker **worker = arg;
	struct rp_worker_options options;

	deed_options(&options, 2);
	return (void *)(intptr_t)deed_prepare(&options, worker);
}

static void a_worker_outlives_the_thread_that_prepared_it(void **state)
{
	struct rp_worker *worker;
	pthread_t thread;
	void *ret;
	int i;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, prepare_in_thread, &worker), 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal((intptr_t)ret, 0);
	for (i = 0; i < 20; i++) {
		assert_int_equal(deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
		proc_pause_us(2000);
	}
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
}

/* Start-up fails there as well. */
static int start_beside_a_reaper(void *arg)
{
	struct sigaction action = { .sa_handler = *(sighandler_t *)arg };
	struct rp_worker *worker;
	int err;
	int i;

	PROC_MUST(!sigaction(SIGCHLD, &action, NULL));
	for (i = 0; i < 20; i++) {
		worker = NULL;
		rig_arm("child.memory", 1 + i % 3, RIG_KILL, 0);
		err = rig_prepare(RP_PAGES_NEVER, 0, &worker);
		if (err != -EOWNERDEAD)
			fprintf(stderr, "%d: %s\n", err, rp_last_error());
		PROC_MUST(err == -EOWNERDEAD);
		PROC_MUST(strstr(rp_last_error(), "(rp-c"));
		PROC_MUST(!worker);
		rig_disarm();
	}
	PROC_MUST(!rig_prepare(RP_PAGES_NEVER, 0, &worker));
	PROC_MUST(!rp_worker_run(worker, NULL, NULL, 0, NULL));
	PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	PROC_MUST(!proc_children(getpid(), NULL, 0));
	return 0;
}

static void a_host_that_takes_every_status_hears_of_a_failed_start(void **state)
{
	sighandler_t reaper = proc_reap_everything;
	sighandler_t ignore = SIG_IGN;

	(void)state;
	assert_int_equal(proc_in_host(start_beside_a_reaper, &reaper), 0);
	assert_int_equal(proc_in_host(start_beside_a_reaper, &ignore), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(closed_standard_descriptors_stay_closed),
		RIG_TEST(processes_start_while_a_thread_allocates),
		RIG_TEST(processes_start_while_a_thread_holds_stdout),
		RIG_TEST(a_worker_outlives_the_thread_that_prepared_it),
		RIG_TEST(a_host_that_takes_every_status_hears_of_a_failed_start),
	};

	return cmocka_run_group_tests_name("start_host", tests, NULL, NULL);
}
