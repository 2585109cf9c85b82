/* SPDX-License-Identifier: MIT */
/* Death and the host application: one that takes the status of every child, one that has
 * children of its own, and one that dies itself. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "check.h"
#include "death.h"
#include "deed.h"
#include "proc.h"

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
	sighandler_t reaper = proc_reap_everything;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEATH_TEST(a_host_that_takes_every_status_hears_of_a_death),
		DEATH_TEST(the_hosts_own_children_are_left_to_the_host),
		DEATH_TEST(processes_end_with_their_parent),
	};

	return cmocka_run_group_tests_name("death_host", tests, NULL, NULL);
}
