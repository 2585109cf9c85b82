/* SPDX-License-Identifier: MIT */
/* Preparing a worker: what is refused before a process exists, and every way in
 * which starting the processes can go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "base/testing.h"
#include "deed.h"
#include "proc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A start-up that hangs is given up after this. */
#define SHORT_START_S 0.3

enum act {
	ACT_FAIL,
	ACT_KILL,
	ACT_EXIT,
	ACT_SEGV,
	ACT_HANG
};

/* What the hook does at the n-th call of a point, in whichever process that is. */
struct rig {
	_Atomic int hits;  /* calls of the point */
	_Atomic int calls; /* of any point */
	char point[32];
	int nth;
	enum act act;
	int err;
};

static struct rig *rig;

static int hook(const char *point)
{
	atomic_fetch_add(&rig->calls, 1);
	if (strcmp(point, rig->point) || atomic_fetch_add(&rig->hits, 1) + 1 != rig->nth)
		return 0;
	switch (rig->act) {
	case ACT_KILL:
		kill(getpid(), SIGKILL);
		return 0;
	case ACT_EXIT:
		_exit(3);
	case ACT_SEGV:
		raise(SIGSEGV);
		return 0;
	case ACT_HANG:
		for (;;)
			pause();
	default:
		return rig->err;
	}
}

static void arm(const char *point, int nth, enum act act, int err)
{
	atomic_store(&rig->hits, 0);
	atomic_store(&rig->calls, 0);
	snprintf(rig->point, sizeof(rig->point), "%s", point);
	rig->nth = nth;
	rig->act = act;
	rig->err = err;
	rpi_test_hook = hook;
}

static int noop_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

static int noop_callback(struct rp_callback_context *context, const struct rp_arg *args,
			 size_t nargs, void *user)
{
	(void)context;
	(void)args;
	(void)nargs;
	(void)user;
	return 0;
}

static const struct rp_entry noop_entries[] = { { "noop", noop_entry } };

#define CALLBACKS_MAX 60

struct traits {
	const char *name, *platform, *runtime;
	uint32_t chip_count, callback_workers;
};

static struct rp_program *program_new(const struct traits *traits)
{
	struct rp_callback callbacks[CALLBACKS_MAX];
	char names[CALLBACKS_MAX][16];
	struct rp_program_desc desc;
	struct rp_program *program;
	uint32_t i;

	for (i = 0; i < traits->callback_workers; i++) {
		snprintf(names[i], sizeof(names[i]), "look%u", i);
		callbacks[i] = (struct rp_callback){ names[i], noop_callback, NULL };
	}
	rp_program_desc_init(&desc);
	desc.name = traits->name;
	desc.platform = traits->platform;
	desc.runtime = traits->runtime;
	desc.chip_count = traits->chip_count;
	desc.entries = noop_entries;
	desc.entry_count = 1;
	if (traits->callback_workers) {
		desc.callbacks = callbacks;
		desc.callback_count = traits->callback_workers;
		desc.callback_workers = traits->callback_workers;
	}
	assert_int_equal(rp_program_create(&desc, &program), 0);
	return program;
}

static void assert_text_has(const char *part)
{
	if (!strstr(rp_last_error(), part))
		fail_msg("'%s' is not in '%s'", part, rp_last_error());
}

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	if (rig)
		return 0;
	rig = mmap(NULL, sizeof(*rig), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		   -1, 0);
	return rig == MAP_FAILED;
}

static int tear_down(void **state)
{
	(void)state;
	rpi_test_hook = NULL;
	return 0;
}

/* Refused before anything exists. */

struct option_case {
	const char *name;
	void (*change)(struct rp_worker_options *options);
	int want;
	const char *text; /* part of the error line */
};

#define SETS(id, member, value)                                 \
	static void set_##id(struct rp_worker_options *options) \
	{                                                       \
		options->member = (value);                      \
	}

SETS(timeout_zero, startup_timeout_s, 0)
SETS(timeout_negative, startup_timeout_s, -1)
SETS(timeout_nan, startup_timeout_s, (double)NAN)
SETS(timeout_inf, startup_timeout_s, (double)INFINITY)
SETS(timeout_minus_inf, startup_timeout_s, -(double)INFINITY)
SETS(size_small, size, sizeof(struct rp_worker_options) - 8)
SETS(size_large, size, sizeof(struct rp_worker_options) + 8)
SETS(size_zero, size, 0)
SETS(chips_many, chip_count, RP_MAX_PEERS + 1)
SETS(chips_wrap, chip_count, UINT32_MAX)
SETS(wait_unknown, wait, (enum rp_wait_policy)3)
SETS(worker_wait_unknown, worker_wait, (enum rp_wait_policy)3)
SETS(engine_unknown, sleep_engine, (enum rp_sleep_engine)3)
SETS(pages_unknown, pages, (enum rp_page_policy)3)
SETS(spin_min_large, spin_us_min, 10000001)
SETS(spin_max_large, spin_us_max, 10000001)
SETS(memory_small, device_memory_bytes, 4095)
SETS(memory_large, device_memory_bytes, ((size_t)1 << 46) + 1)
SETS(slots_small, task_ring_slots, 2)
SETS(slots_odd, task_ring_slots, 5)
SETS(slots_large, task_ring_slots, (uint32_t)1 << 21)
SETS(arg_bytes_small, arg_ring_bytes, 1024)
SETS(arg_bytes_large, arg_ring_bytes, ((size_t)1 << 30) + 1)
SETS(arg_bytes_wrap, arg_ring_bytes, SIZE_MAX)
SETS(handles_small, handle_count, 1)
SETS(handles_large, handle_count, ((uint32_t)1 << 20) + 1)
SETS(ring_fd_negative, ring_fd, -2)
SETS(backend_unknown, backend, "abacus")

static void set_spin_order(struct rp_worker_options *options)
{
	options->spin_us_min = 50;
	options->spin_us_max = 49;
}

static void set_cpu_low(struct rp_worker_options *options)
{
	static const int cpus[] = { -2 };

	options->chip_cpus = cpus;
}

static void set_cpu_high(struct rp_worker_options *options)
{
	static const int cpus[] = { 1 << 20 };

	options->chip_cpus = cpus;
}

static const struct option_case option_cases[] = {
	{ "timeout 0", set_timeout_zero, -EINVAL, "startup_timeout_s" },
	{ "timeout -1", set_timeout_negative, -EINVAL, "startup_timeout_s -1" },
	{ "timeout NaN", set_timeout_nan, -EINVAL, "startup_timeout_s" },
	{ "timeout inf", set_timeout_inf, -EINVAL, "startup_timeout_s inf" },
	{ "timeout -inf", set_timeout_minus_inf, -EINVAL, "startup_timeout_s -inf" },
	{ "size small", set_size_small, -EINVAL, "size" },
	{ "size large", set_size_large, -EINVAL, "size" },
	{ "size 0", set_size_zero, -EINVAL, "size" },
	{ "65 chips", set_chips_many, -EINVAL, "chip_count 65" },
	{ "chips wrap", set_chips_wrap, -EINVAL, "chip_count" },
	{ "wait", set_wait_unknown, -EINVAL, "wait 3" },
	{ "worker_wait", set_worker_wait_unknown, -EINVAL, "worker_wait 3" },
	{ "sleep_engine", set_engine_unknown, -EINVAL, "sleep_engine 3" },
	{ "pages", set_pages_unknown, -EINVAL, "pages 3" },
	{ "spin_us_min", set_spin_min_large, -EINVAL, "spin_us_min" },
	{ "spin_us_max", set_spin_max_large, -EINVAL, "spin_us_max" },
	{ "spin max below min", set_spin_order, -EINVAL, "spin_us_max 49" },
	{ "device memory small", set_memory_small, -EINVAL, "device_memory_bytes 4095" },
	{ "device memory large", set_memory_large, -EINVAL, "device_memory_bytes" },
	{ "ring slots small", set_slots_small, -EINVAL, "task_ring_slots 2" },
	{ "ring slots 5", set_slots_odd, -EINVAL, "task_ring_slots 5" },
	{ "ring slots large", set_slots_large, -EINVAL, "task_ring_slots" },
	{ "arg bytes small", set_arg_bytes_small, -EINVAL, "arg_ring_bytes 1024" },
	{ "arg bytes large", set_arg_bytes_large, -EINVAL, "arg_ring_bytes" },
	{ "arg bytes wrap", set_arg_bytes_wrap, -EINVAL, "arg_ring_bytes" },
	{ "1 handle", set_handles_small, -EINVAL, "handle_count 1" },
	{ "handles large", set_handles_large, -EINVAL, "handle_count" },
	{ "ring_fd -2", set_ring_fd_negative, -EINVAL, "ring_fd -2" },
	{ "cpu -2", set_cpu_low, -EINVAL, "chip_cpus[0] is -2" },
	{ "cpu 1M", set_cpu_high, -EINVAL, "chip_cpus[0]" },
	{ "backend", set_backend_unknown, -EOPNOTSUPP, "abacus" },
};

static void bad_options_are_refused_before_anything_exists(void **state)
{
	struct rp_worker *untouched = (struct rp_worker *)&state;
	struct rp_worker *worker = untouched;
	struct proc_census before;
	size_t i;

	proc_census_take(&before);
	for (i = 0; i < COUNT(option_cases); i++) {
		const struct option_case *at = &option_cases[i];
		struct rp_worker_options options;
		int err;

		rp_worker_options_init(&options);
		at->change(&options);
		arm("process.fork", 0, ACT_FAIL, 0);
		err = deed_prepare(&options, &worker);
		if (err != at->want)
			fail_msg("%s: %d, expected %d (%s)", at->name, err, at->want,
				 rp_last_error());
		assert_text_has(at->text);
		if (atomic_load(&rig->calls))
			fail_msg("%s: found after something had been made", at->name);
		assert_ptr_equal(worker, untouched);
	}
	assert_true(proc_census_same(&before));
}

static void prepare_expect(struct rp_program *const *programs, size_t count,
			   const struct rp_worker_options *options, int want,
			   const char *part, const char *other_part)
{
	struct rp_worker *worker = NULL;

	arm("process.fork", 0, ACT_FAIL, 0);
	assert_int_equal(rp_worker_prepare(programs, count, options, &worker), want);
	assert_text_has(part);
	assert_text_has(other_part);
	assert_int_equal(atomic_load(&rig->calls), 0);
	assert_null(worker);
}

static void programs_that_disagree_are_refused_and_both_are_named(void **state)
{
	static const struct traits traits[] = {
		{ .name = "first" },
		{ .name = "elsewhere", .platform = "a2a3" },
		{ .name = "other-runtime", .runtime = "host_build_graph" },
		{ .name = "two", .chip_count = 2 },
		{ .name = "three", .chip_count = 3 },
	};
	struct rp_program *programs[COUNT(traits)];
	struct rp_worker_options options;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(traits); i++)
		programs[i] = program_new(&traits[i]);
	rp_worker_options_init(&options);
	prepare_expect((struct rp_program *[]){ programs[0], programs[1] }, 2, &options,
		       -EINVAL, "'sim'", "'a2a3'");
	prepare_expect((struct rp_program *[]){ programs[0], programs[1] }, 2, &options,
		       -EINVAL, "'first'", "'elsewhere'");
	prepare_expect((struct rp_program *[]){ programs[0], programs[2] }, 2, &options,
		       -EINVAL, "tensormap_and_ringbuffer", "host_build_graph");
	options.chip_count = 2;
	prepare_expect((struct rp_program *[]){ programs[3], programs[4] }, 2, &options,
		       -EINVAL, "'three' needs 3 chips", "2");
	for (i = 0; i < COUNT(traits); i++)
		rp_program_free(programs[i]);
}

static void missing_and_doubled_programs_are_refused(void **state)
{
	struct rp_program *program = program_new(&(struct traits){ .name = "only" });
	struct rp_program *crowd =
		program_new(&(struct traits){ .name = "crowd", .callback_workers = 60 });
	struct rp_worker_options options;

	(void)state;
	rp_worker_options_init(&options);
	prepare_expect(NULL, 1, &options, -EINVAL, "no programs", "at least one");
	prepare_expect(&program, 0, &options, -EINVAL, "no programs", "at least one");
	prepare_expect((struct rp_program *[]){ program, NULL }, 2, &options, -EINVAL,
		       "program 1 is NULL", "");
	prepare_expect((struct rp_program *[]){ program, program }, 2, &options, -EINVAL,
		       "'only'", "twice");
	options.chip_count = 5;
	prepare_expect(&crowd, 1, &options, -EINVAL, "5 chips", "60 callback workers");
	assert_int_equal(rp_worker_prepare(&program, 1, NULL, NULL), -EINVAL);
	assert_text_has("worker_out");
	rp_program_free(crowd);
	rp_program_free(program);
}

static void callback_processes_are_the_most_any_program_wants(void **state)
{
	struct rp_program *programs[] = {
		program_new(&(struct traits){ .name = "one", .callback_workers = 1 }),
		program_new(&(struct traits){ .name = "three", .callback_workers = 3 }),
	};
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	deed_options(&options, 2);
	assert_int_equal(rp_worker_prepare(programs, 2, &options, &worker), 0);
	assert_int_equal(proc_children(getpid(), NULL, 0), 2 + 3);
	assert_int_not_equal(rp_worker_pid(worker, 4), 0);
	assert_int_equal(rp_worker_pid(worker, 5), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
	rp_program_free(programs[0]);
	rp_program_free(programs[1]);
}

/* Starting goes wrong. */

/* Two chips and one callback process, in the shape that `pages` gives. */
static int prepare_three(enum rp_page_policy pages, double timeout_s,
			 struct rp_worker **worker_out)
{
	struct rp_program *program =
		program_new(&(struct traits){ .name = "trio", .callback_workers = 1 });
	struct rp_worker_options options;
	int err;

	deed_options(&options, 2);
	options.pages = pages;
	if (timeout_s > 0)
		options.startup_timeout_s = timeout_s;
	err = rp_worker_prepare(&program, 1, &options, worker_out);
	rp_program_free(program);
	return err;
}

static void end(struct rp_worker *worker)
{
	assert_int_equal(rp_worker_run(worker, NULL, NULL, 0, NULL), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
}

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
		arm(phase->point, nth, ACT_FAIL, -EXFULL);
		err = prepare_three(pages, 0, &worker);
		fired = atomic_load(&rig->hits) >= nth;
		rpi_test_hook = NULL;
		if (!err) {
			/* Where pages may be had elsewhere, one refusal ends nothing. */
			if (fired && strncmp(phase->point, "region.", 7))
				fail_msg("%s: call %d failed, prepare did not",
					 phase->point, nth);
			end(worker);
		} else {
			assert_int_equal(err, -EXFULL);
			assert_null(worker);
			assert_string_not_equal(rp_last_error(), "");
			if (phase->child)
				assert_text_has("rp-c");
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

static void die_at_every_call(const struct phase *phase, enum act act, const char *how)
{
	struct proc_census before;
	struct rp_worker *worker;
	bool fired = true;
	int nth;
	int err;

	proc_census_take(&before);
	for (nth = 1; fired; nth++) {
		worker = NULL;
		arm(phase->point, nth, act, 0);
		err = prepare_three(RP_PAGES_NEVER, 0, &worker);
		fired = atomic_load(&rig->hits) >= nth;
		rpi_test_hook = NULL;
		if (!fired) {
			assert_int_equal(err, 0);
			end(worker);
		} else {
			assert_int_equal(err, -EOWNERDEAD);
			assert_null(worker);
			assert_text_has(how);
			assert_text_has("(rp-c");
			assert_text_has(phase->phase);
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
		die_at_every_call(&phases[i], ACT_KILL, "killed by signal 9");
		die_at_every_call(&phases[i], ACT_SEGV, "killed by signal 11");
		die_at_every_call(&phases[i], ACT_EXIT, "exited with status 3");
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
		arm(phases[i].point, 1, ACT_HANG, 0);
		assert_int_equal(prepare_three(RP_PAGES_NEVER, SHORT_START_S, &worker),
				 -ETIMEDOUT);
		rpi_test_hook = NULL;
		assert_null(worker);
		assert_text_has("rp-c");
		assert_text_has("0.3");
		assert_text_has(phases[i].phase);
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
	assert_text_has("rp-chip1");
	assert_text_has("CPU 1023");
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
		err = prepare_three(RP_PAGES_NEVER, 0, &worker);
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
	err = prepare_three(RP_PAGES_AUTO, 0, &worker);
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

static int count_in_dev_shm(void)
{
	char line[256];
	FILE *pipe = popen("ls /dev/shm 2>/dev/null | wc -l", "r");
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
			prepare_three(i % 2 ? RP_PAGES_AUTO : RP_PAGES_NEVER, 0, &worker),
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

/* The host application is a strange place. */

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

		assert_int_equal(prepare_three(RP_PAGES_NEVER, 0, &worker), 0);
		end(worker);
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

/* Start-up fails in a host that takes every child's status itself. */
static void reap_everything(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = saved;
}

static int start_beside_a_reaper(void *arg)
{
	struct sigaction action = { .sa_handler = *(sighandler_t *)arg };
	struct rp_worker *worker;
	int err;
	int i;

	PROC_MUST(!sigaction(SIGCHLD, &action, NULL));
	for (i = 0; i < 20; i++) {
		worker = NULL;
		arm("child.memory", 1 + i % 3, ACT_KILL, 0);
		err = prepare_three(RP_PAGES_NEVER, 0, &worker);
		if (err != -EOWNERDEAD)
			fprintf(stderr, "%d: %s\n", err, rp_last_error());
		PROC_MUST(err == -EOWNERDEAD);
		PROC_MUST(strstr(rp_last_error(), "(rp-c"));
		PROC_MUST(!worker);
		rpi_test_hook = NULL;
	}
	PROC_MUST(!prepare_three(RP_PAGES_NEVER, 0, &worker));
	PROC_MUST(!rp_worker_run(worker, NULL, NULL, 0, NULL));
	PROC_MUST(!rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	PROC_MUST(!proc_children(getpid(), NULL, 0));
	return 0;
}

static void a_host_that_takes_every_status_hears_of_a_failed_start(void **state)
{
	sighandler_t reaper = reap_everything;
	sighandler_t ignore = SIG_IGN;

	(void)state;
	assert_int_equal(proc_in_host(start_beside_a_reaper, &reaper), 0);
	assert_int_equal(proc_in_host(start_beside_a_reaper, &ignore), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bad_options_are_refused_before_anything_exists),
		TEST(programs_that_disagree_are_refused_and_both_are_named),
		TEST(missing_and_doubled_programs_are_refused),
		TEST(callback_processes_are_the_most_any_program_wants),
		TEST(any_failing_call_fails_prepare_and_leaves_nothing),
		TEST(a_process_that_dies_while_starting_is_named_with_its_end),
		TEST(a_process_that_hangs_while_starting_is_named_with_its_phase),
		TEST(a_cpu_that_is_not_there_is_named),
		TEST(too_few_descriptors_fail_prepare_and_leave_nothing),
		TEST(no_lockable_memory_is_enough_or_says_so),
		TEST(many_prepares_and_closes_leak_nothing),
		TEST(closed_standard_descriptors_stay_closed),
		TEST(processes_start_while_a_thread_allocates),
		TEST(processes_start_while_a_thread_holds_stdout),
		TEST(a_worker_outlives_the_thread_that_prepared_it),
		TEST(a_host_that_takes_every_status_hears_of_a_failed_start),
	};

	return cmocka_run_group_tests_name("start", tests, NULL, NULL);
}
