/* SPDX-License-Identifier: MIT */
/* What is asked of rp_worker_prepare(), judged before a process exists. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "check.h"
#include "deed.h"
#include "proc.h"
#include "rig.h"

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
SETS(arg_bytes_small, arg_ring_bytes, 1000)
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
	{ "arg bytes small", set_arg_bytes_small, -EINVAL, "arg_ring_bytes 1000" },
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
		rig_arm("process.fork", 0, RIG_FAIL, 0);
		err = deed_prepare(&options, &worker);
		if (err != at->want)
			fail_msg("%s: %d, expected %d (%s)", at->name, err, at->want,
				 rp_last_error());
		assert_says(at->text);
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

	rig_arm("process.fork", 0, RIG_FAIL, 0);
	assert_int_equal(rp_worker_prepare(programs, count, options, &worker), want);
	assert_says(part);
	assert_says(other_part);
	assert_int_equal(atomic_load(&rig->calls), 0);
	assert_null(worker);
}

static void programs_that_disagree_are_refused_and_both_are_named(void **state)
{
	static const struct rig_traits traits[] = {
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
		programs[i] = rig_program(&traits[i]);
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
	struct rp_program *program = rig_program(&(struct rig_traits){ .name = "only" });
	struct rp_program *crowd = rig_program(
		&(struct rig_traits){ .name = "crowd", .callback_workers = 60 });
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
	assert_says("worker_out");
	rp_program_free(crowd);
	rp_program_free(program);
}

static void callback_processes_are_the_most_any_program_wants(void **state)
{
	struct rp_program *programs[] = {
		rig_program(&(struct rig_traits){ .name = "one", .callback_workers = 1 }),
		rig_program(
			&(struct rig_traits){ .name = "three", .callback_workers = 3 }),
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

/* Memory is made of files that have no name: the limit holds for them, and to pass it is
 * a signal that ends the process. */
static int prepare_at_the_file_limit(void *arg)
{
	const struct rlimit small = { 1 << 20, RLIM_INFINITY };
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	struct rp_program *program = rig_program(&(struct rig_traits){ .name = "only" });
	struct rp_worker *worker;
	void *memory;

	(void)arg;
	PROC_MUST(!setrlimit(RLIMIT_FSIZE, &small));
	PROC_MUST(rp_shared_alloc(4 << 20, &memory) == -EFBIG);
	PROC_MUST(strstr(rp_last_error(), "File too large"));
	PROC_MUST(rp_worker_prepare(&program, 1, NULL, &worker) == -EFBIG);
	PROC_MUST(strstr(rp_last_error(), "File too large"));
	PROC_MUST(!setrlimit(RLIMIT_FSIZE, &none));
	PROC_MUST(!rp_worker_prepare(&program, 1, NULL, &worker));
	rp_worker_free(worker);
	rp_program_free(program);
	return 0;
}

static void memory_past_the_limit_on_files_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(prepare_at_the_file_limit, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(bad_options_are_refused_before_anything_exists),
		RIG_TEST(programs_that_disagree_are_refused_and_both_are_named),
		RIG_TEST(missing_and_doubled_programs_are_refused),
		RIG_TEST(callback_processes_are_the_most_any_program_wants),
		RIG_TEST(memory_past_the_limit_on_files_is_an_error),
	};

	return cmocka_run_group_tests_name("prepare", tests, NULL, NULL);
}
