/* SPDX-License-Identifier: MIT */
/* Every way in which starting the processes of a worker can go wrong. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "check.h"
#include "deed.h"
#include "proc.h"
#include "rig.h"

/* A start-up that hangs is given up after this. */
#define SHORT_START_S 0.3

struct phase {
	const char *point;
	const char *phase; /* as the error line calls it */
	bool child;
};

static const struct phase phases[] = {
	{ "prepare.eventfd", "", false },
	{ "region.memfd", "", false },
	{ "region.map", "", false },
	{ "process.fork", "", false },
	{ "child.clean", "touching its memory", true },
	{ "child.memory", "opening its device", true },
	{ "sim.open", "opening its device", true },
	{ "child.backend", "becoming ready", true },
};

static void fail_every_call(const struct phase *phase, enum rp_page_policy pages)
{
	struct proc_census before;
	struct rp_worker *worker;
	bool fired = true;
	int nth;
	int err;

	proc_census_take(&before);
	for (nth = 1; fired; nth++) {
		worker = NULL;
		rig_arm(phase->point, nth, RIG_FAIL, -EXFULL);
		err = rig_prepare(pages, 0, &worker);
		fired = atomic_load(&rig->hits) >= nth;
		rig_disarm();
		if (!err) {
			/* Where pages may be had elsewhere, one refusal ends nothing. */
			if (fired && strncmp(phase->point, "region.", 7))
				fail_msg("%s: call %d failed, prepare did not",
					 phase->point, nth);
			rig_end(worker);
		} else {
			assert_int_equal(err, -EXFULL);
			assert_null(worker);
			assert_string_not_equal(rp_last_error(), "");
			if (phase->child)
				assert_says("rp-c");
		}
		assert_true(proc_census_same(&before));
	}
	/* The last round is the one in which nothing failed; the first one did. */
	assert_true(nth > 2);
}

static void any_failing_call_fails_prepare_and_leaves_nothing(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(phases); i++) {
		fail_every_call(&phases[i], RP_PAGES_NEVER);
		fail_every_call(&phases[i], RP_PAGES_AUTO);
	}
}

static void die_at_every_call(const struct phase *phase, enum rig_act act,
			      const char *how)
{
	struct proc_census before;
	struct rp_worker *worker;
	bool fired = true;
	int nth;
	int err;

	proc_census_take(&before);
	for (nth = 1; fired; nth++) {
		worker = NULL;
		rig_arm(phase->point, nth, act, 0);
		err = rig_prepare(RP_PAGES_NEVER, 0, &worker);
		fired = atomic_load(&rig->hits) >= nth;
		rig_disarm();
		if (!fired) {
			assert_int_equal(err, 0);
			rig_end(worker);
		} else {
			assert_int_equal(err, -EOWNERDEAD);
			assert_null(worker);
			assert_says(how);
			assert_says("(rp-c");
			assert_says(phase->phase);
		}
		assert_true(proc_census_same(&before));
	}
	assert_true(nth > 2);
}

static void a_process_that_dies_while_starting_is_named_with_its_end(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(phases); i++) {
		if (!phases[i].child)
			continue;
		die_at_every_call(&phases[i], RIG_KILL, "killed by signal 9");
		die_at_every_call(&phases[i], RIG_SEGV, "killed by signal 11");
		die_at_every_call(&phases[i], RIG_EXIT, "exited with status 3");
	}
}

static void a_process_that_hangs_while_starting_is_named_with_its_phase(void **state)
{
	struct proc_census before;
	struct rp_worker *worker = NULL;
	size_t i;

	(void)state;
	proc_census_take(&before);
	for (i = 0; i < COUNT(phases); i++) {
		if (!phases[i].child)
			continue;
		rig_arm(phases[i].point, 1, RIG_HANG, 0);
		assert_int_equal(rig_prepare(RP_PAGES_NEVER, SHORT_START_S, &worker),
				 -ETIMEDOUT);
		rig_disarm();
		assert_null(worker);
		assert_says("rp-c");
		assert_says("0.3");
		assert_says(phases[i].phase);
		assert_true(proc_census_same(&before));
	}
}

static void a_cpu_that_is_not_there_is_named(void **state)
{
	static const int cpus[] = { -1, 1023 };
	struct rp_worker_options options;
	struct proc_census before;
	struct rp_worker *worker = NULL;

	(void)state;
	if (sysconf(_SC_NPROCESSORS_CONF) > 1023) {
		print_message("skipped: this machine has a CPU 1023\n");
		skip();
	}
	proc_census_take(&before);
	deed_options(&options, 2);
	options.chip_cpus = cpus;
	assert_int_equal(deed_prepare(&options, &worker), -EINVAL);
	assert_says("rp-chip1");
	assert_says("CPU 1023");
	assert_true(proc_census_same(&before));
}

/* Limits of the system. */

/* One descriptor more each time, until there are enough. */
static int low_descriptor_limit(void *arg)
{
	struct proc_census before;
	struct rlimit full;
	rlim_t allowed;
	int failures = 0;
	int err = -EMFILE;

	(void)arg;
	PROC_MUST(!getrlimit(RLIMIT_NOFILE, &full));
	proc_census_take(&before);
	for (allowed = 4; err && allowed < 200; allowed++) {
		struct rlimit low = { .rlim_cur = allowed, .rlim_max = full.rlim_max };
		struct rp_worker *worker = NULL;

		PROC_MUST(!setrlimit(RLIMIT_NOFILE, &low));
		err = rig_prepare(RP_PAGES_NEVER, 0, &worker);
		PROC_MUST(!setrlimit(RLIMIT_NOFILE, &full));
		failures += err != 0;
		if (err) {
			if (err != -EMFILE)
				fprintf(stderr, "%d: %s\n", err, rp_last_error());
			PROC_MUST(err == -EMFILE);
			PROC_MUST(strlen(rp_last_error()) > 10);
		} else {
			PROC_MUST(!rp_worker_run(worker, NULL, NULL, 0, NULL));
			PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
			rp_worker_free(worker);
		}
		PROC_MUST(proc_census_same(&before));
	}
	PROC_MUST(!err && failures > 3);
	return 0;
}

static void too_few_descriptors_fail_prepare_and_leave_nothing(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(low_descriptor_limit, NULL), 0);
}

static int low_memlock_limit(void *arg)
{
	struct rlimit none = { 0, 0 };
	struct proc_census before;
	struct rp_worker *worker = NULL;
	int err;

	(void)arg;
	PROC_MUST(!setrlimit(RLIMIT_MEMLOCK, &none));
	/* Root is above that limit. */
	if (!geteuid())
		PROC_MUST(!setresuid(65534, 65534, 65534));
	proc_census_take(&before);
	err = rig_prepare(RP_PAGES_AUTO, 0, &worker);
	if (err) {
		PROC_MUST(err == -ENOMEM);
		PROC_MUST(strlen(rp_last_error()) > 10);
	} else {
		PROC_MUST(!rp_worker_run(worker, NULL, NULL, 0, NULL));
		PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
		rp_worker_free(worker);
	}
	return 0;
}

static void no_lockable_memory_is_enough_or_says_so(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(low_memlock_limit, NULL), 0);
}

/* Of the library's names: other programs have files there too. */
static int count_in_dev_shm(void)
{
	char line[256];
	FILE *pipe = popen("ls /dev/shm 2>/dev/null | grep -c '^rp-'", "r");
	int count = -1;

	if (pipe && fgets(line, sizeof(line), pipe))
		count = atoi(line);
	if (pipe)
		pclose(pipe);
	return count;
}

static void many_prepares_and_closes_leak_nothing(void **state)
{
	int shm = count_in_dev_shm();
	struct proc_census before;
	int maps = 0;
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		struct rp_worker *worker;

		/* The first ones fill what is kept for ever, such as thread stacks. */
		if (i == 10) {
			proc_census_take(&before);
			maps = proc_map_count(getpid(), NULL);
		}
		assert_int_equal(
			rig_prepare(i % 2 ? RP_PAGES_AUTO : RP_PAGES_NEVER, 0, &worker),
			0);
		assert_int_equal(rp_worker_run(worker, NULL, NULL, 0, NULL), 0);
		/* Free alone is enough. */
		if (i % 3)
			assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		rp_worker_free(worker);
	}
	assert_true(proc_census_same(&before));
	assert_int_equal(count_in_dev_shm(), shm);
	/* Less than one a round: an allocator may map more in its own time. */
	assert_true(proc_map_count(getpid(), NULL) - maps < 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(any_failing_call_fails_prepare_and_leaves_nothing),
		RIG_TEST(a_process_that_dies_while_starting_is_named_with_its_end),
		RIG_TEST(a_process_that_hangs_while_starting_is_named_with_its_phase),
		RIG_TEST(a_cpu_that_is_not_there_is_named),
		RIG_TEST(too_few_descriptors_fail_prepare_and_leave_nothing),
		RIG_TEST(no_lockable_memory_is_enough_or_says_so),
		RIG_TEST(many_prepares_and_closes_leak_nothing),
	};

	return cmocka_run_group_tests_name("start", tests, NULL, NULL);
}
