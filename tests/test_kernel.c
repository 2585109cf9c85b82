/* SPDX-License-Identifier: MIT */
/* Kernels inside the chips of a worker: sizes per dispatch, arenas, failures. */
#include <ringplane/kernel.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

/* --- The program --------------------------------------------------------- */

static int add_one(const struct rp_arg *args, size_t nargs)
{
	const int64_t *from = args[0].u.tensor.data;
	int64_t *to = args[1].u.tensor.data;

	(void)nargs;
	for (int64_t i = 0; i < args[0].u.tensor.shape[0]; i++)
		to[i] = from[i] + 1;
	return 0;
}

static int refuse(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return -EIO;
}

/* y = x + the scalar, one step at a time through outputs of the heap. */
static int steps(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_arg pair[2] = { rp_in(args[0].u.tensor) };
	struct rp_kernel kernel = {
		.fn = add_one, .name = "add_one", .args = pair, .arg_count = 2
	};
	int64_t count = args[2].u.scalar.value.i64;
	int err = 0;

	(void)nargs;
	for (int64_t i = 0; i < count && !err; i++) {
		pair[1] = i + 1 < count ? rp_out_new(RP_INT64, 1, pair[0].u.tensor.shape)
					: rp_out(args[1].u.tensor);
		err = rp_chip_submit(chip, &kernel, NULL);
		pair[0] = rp_in(pair[1].u.tensor);
	}
	return err;
}

/* The window in force, per ring, into y. */
static int windows(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int64_t *to = args[1].u.tensor.data;
	struct rp_ring_state state;

	(void)nargs;
	for (uint32_t ring = 0; ring < RP_RING_COUNT; ring++) {
		int err = rp_chip_ring_state(chip, ring, &state);

		if (err)
			return err;
		to[ring] = (int64_t)state.task_window.size;
	}
	return 0;
}

/* Faults that the entry does not pass on. */
static int forgetful(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_kernel kernel = { .fn = refuse, .name = "refuse" };

	(void)args;
	(void)nargs;
	rp_scope_begin(chip, RP_SCOPE_AUTO);
	rp_chip_submit(chip, &kernel, NULL);
	return 0;
}

static int no_kernels(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

static int run_on(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	for (;;)
		pause();
	return 0;
}

static bool never(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return false;
}

static int endless(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_kernel kernel = { .fn = run_on, .name = "run_on" };

	(void)args;
	(void)nargs;
	return rp_chip_submit(chip, &kernel, NULL);
}

static int forsaken(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_kernel kernel = { .fn = refuse, .name = "refuse", .ready = never };

	(void)args;
	(void)nargs;
	return rp_chip_submit(chip, &kernel, NULL);
}

enum {
	STEPS,
	WINDOWS,
	FORGETFUL,
	NO_KERNELS,
	ENDLESS,
	FORSAKEN
};

static const struct rp_entry entries[] = {
	{ "steps", steps },	      { "windows", windows }, { "forgetful", forgetful },
	{ "no_kernels", no_kernels }, { "endless", endless }, { "forsaken", forsaken }
};

#define ELEMENTS 8

static const struct rp_param params[] = {
	{ "x", RP_ARG_TENSOR, RP_INT64, RP_IN, 1, { ELEMENTS }, { 0 }, 0 },
	{ "y", RP_ARG_TENSOR, RP_INT64, RP_OUT, 1, { ELEMENTS }, { 0 }, 0 },
	{ "n", RP_ARG_SCALAR, RP_INT64, 0, 0, { 0 }, { 0 }, 0 },
};

static uint32_t entry, chips;

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	int err = 0;

	(void)nargs;
	(void)user;
	for (uint32_t chip = 0; chip < chips && !err; chip++) {
		struct rp_task task = { .entry = entry,
					.chip = (int32_t)chip,
					.args = args,
					.arg_count = 3 };

		err = rp_run_task(run, &task);
	}
	return err;
}

static struct rp_program *program;
static struct rp_worker *worker;
static int64_t *x, *y;

static void open_with(struct rp_worker_options *options)
{
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = "kernels";
	desc.params = params;
	desc.param_count = COUNT(params);
	desc.entries = entries;
	desc.entry_count = COUNT(entries);
	desc.orchestrate = orchestrate;
	assert_ok(rp_program_create(&desc, &program));
	assert_ok(rp_worker_prepare(&program, 1, options, &worker));
	x = bed_shared(ELEMENTS * sizeof(*x), 0);
	y = bed_shared(ELEMENTS * sizeof(*y), 0);
	chips = options->chip_count;
}

static void open_plain(uint32_t chip_count, uint32_t threads)
{
	struct rp_worker_options options;

	bed_options(&options, chip_count);
	options.compute_threads = threads;
	open_with(&options);
}

static void close_all(void)
{
	assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(program);
	rp_shared_free(x);
	rp_shared_free(y);
}

static int run(uint32_t which, int64_t n, const struct rp_run_config *config)
{
	struct rp_arg args[3] = { rp_arg_tensor(TENSOR(x, RP_INT64, ELEMENTS)),
				  rp_arg_tensor(TENSOR(y, RP_INT64, ELEMENTS)),
				  rp_arg_i64(n) };

	entry = which;
	return rp_worker_run(worker, program, args, 3, config);
}

static struct rp_run_config config_of(uint64_t window)
{
	struct rp_run_config config;

	rp_run_config_init(&config);
	config.ring_task_window.all = window;
	return config;
}

static struct rp_worker_stats stats(void)
{
	struct rp_worker_stats now = { .size = sizeof(now) };

	assert_ok(rp_worker_get_stats(worker, &now));
	return now;
}

/* --- Tests --------------------------------------------------------------- */

static void an_entry_submits_kernels(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 3; threads++) {
		open_plain(1, threads);
		for (int64_t n = 1; n < 40; n += 13) {
			for (int i = 0; i < ELEMENTS; i++)
				x[i] = 100 * i;
			assert_ok(run(STEPS, n, NULL));
			for (int i = 0; i < ELEMENTS; i++)
				assert_int_equal(y[i], 100 * i + n);
		}
		assert_int_equal(stats().kernels, 1 + 14 + 27);
		close_all();
	}
}

static void sizes_hold_for_their_dispatch_alone_and_reach_every_chip(void **state)
{
	struct rp_run_config config = config_of(0);

	(void)state;
	open_plain(2, 0);
	config.ring_task_window.ring[1] = 64;
	config.ring_task_window.ring[3] = 8;
	assert_ok(run(WINDOWS, 0, &config));
	assert_int_equal(y[0], 16384);
	assert_int_equal(y[1], 64);
	assert_int_equal(y[2], 16384);
	assert_int_equal(y[3], 8);
	assert_ok(run(WINDOWS, 0, NULL));
	assert_int_equal(y[1], 16384);
	/* Both chips had to build for the first one. */
	assert_int_equal(stats().arena_misses, 4);
	close_all();
}

static void a_bad_size_is_refused_before_anything_runs(void **state)
{
	const double bad_seconds[] = { -1, 1e10, (double)NAN, (double)INFINITY };
	struct rp_run_config config = config_of(63);
	struct rp_worker_options options;
	struct rp_worker *none;

	(void)state;
	open_plain(1, 0);
	assert_int_equal(run(NO_KERNELS, 0, &config), -EINVAL);
	assert_says("rp_worker_submit", "ring_task_window", "power of 2", "63");
	assert_int_equal(rp_run_config_check(&config), -EINVAL);
	assert_says("rp_run_config_check", "63");
	config.size = 1;
	assert_int_equal(rp_run_config_check(&config), -EINVAL);
	assert_int_equal(rp_run_config_check(NULL), -EINVAL);
	assert_int_equal(stats().tasks, 0);
	config = config_of(63);
	bed_options(&options, 1);
	options.prewarm = &config;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &none), -EINVAL);
	options.prewarm = NULL;
	options.arena_cache = 17;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &none), -EINVAL);
	assert_says("arena_cache 17");
	options.arena_cache = 0;
	options.compute_threads = 257;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &none), -EINVAL);
	assert_says("compute_threads 257");
	options.compute_threads = 0;
	for (size_t i = 0; i < COUNT(bad_seconds); i++) {
		options.kernel_timeout_s = bad_seconds[i];
		assert_int_equal(rp_worker_prepare(&program, 1, &options, &none),
				 -EINVAL);
		assert_says("kernel_timeout_s", "expected 0, for none");
	}
	close_all();
}

static void a_ring_that_is_too_small_fails_its_run_only(void **state)
{
	struct rp_run_config config = config_of(4);

	(void)state;
	open_plain(1, 1);
	assert_int_equal(run(STEPS, 5, &config), -EDEADLK);
	assert_says("entry 'steps'", "ring 0", "window of 4", "ring_task_window 8");
	assert_ok(run(STEPS, 4, &config));
	assert_int_equal(y[0], x[0] + 4);
	assert_ok(run(STEPS, 5, NULL));
	close_all();
}

static void a_fault_that_the_entry_ignores_fails_the_run(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 2; threads++) {
		open_plain(1, threads);
		assert_int_equal(run(FORGETFUL, 0, NULL), -EIO);
		assert_says("entry 'forgetful'", "kernel 0 'refuse'", "ring 1");
		assert_ok(run(STEPS, 3, NULL));
		close_all();
	}
}

static void the_first_dispatch_finds_what_prepare_made(void **state)
{
	struct rp_run_config config = config_of(128);
	struct rp_worker_options options;

	(void)state;
	/* Without a config: the defaults. */
	open_plain(1, 0);
	assert_int_equal(stats().arena_builds, 1);
	assert_ok(run(STEPS, 2, NULL));
	assert_int_equal(stats().arena_builds, 1);
	assert_int_equal(stats().arena_hits, 1);
	close_all();
	bed_options(&options, 1);
	options.prewarm = &config;
	open_with(&options);
	assert_int_equal(stats().arena_builds, 1);
	assert_ok(run(STEPS, 2, &config));
	assert_int_equal(stats().arena_builds, 1);
	assert_int_equal(stats().arena_misses, 0);
	/* One output, in what was backed ahead. */
	assert_int_equal(stats().arena_grown_bytes, 0);
	/* Another one builds and takes the only place. */
	assert_ok(run(STEPS, 2, NULL));
	assert_int_equal(stats().arena_grown_bytes, 1024);
	assert_ok(run(STEPS, 2, NULL));
	assert_int_equal(stats().arena_grown_bytes, 1024);
	assert_ok(run(STEPS, 2, &config));
	assert_int_equal(stats().arena_grown_bytes, 2048);
	assert_int_equal(stats().arena_builds, 3);
	assert_int_equal(stats().arena_misses, 2);
	assert_true(stats().arena_build_ns > 0);
	close_all();
}

static void two_places_keep_two_arenas(void **state)
{
	struct rp_run_config config = config_of(128);
	struct rp_worker_options options;

	(void)state;
	bed_options(&options, 1);
	options.arena_cache = 2;
	open_with(&options);
	for (int i = 0; i < 5; i++) {
		assert_ok(run(STEPS, 2, &config));
		assert_ok(run(STEPS, 2, NULL));
	}
	assert_int_equal(stats().arena_builds, 2);
	assert_int_equal(stats().arena_hits, 9);
	close_all();
}

static void entries_without_kernels_use_no_arena(void **state)
{
	(void)state;
	open_plain(1, 0);
	for (int i = 0; i < 3; i++)
		assert_ok(run(NO_KERNELS, 0, NULL));
	assert_int_equal(stats().arena_hits + stats().arena_misses, 0);
	close_all();
}

static void the_environment_sizes_what_the_config_does_not(void **state)
{
	struct rp_run_config config = config_of(0);

	(void)state;
	config.ring_task_window.ring[1] = 512;
	setenv("PTO2_RING_TASK_WINDOW", "64,32,16,8", 1);
	open_plain(1, 0);
	unsetenv("PTO2_RING_TASK_WINDOW");
	assert_ok(run(WINDOWS, 0, &config));
	assert_int_equal(y[0], 64);
	assert_int_equal(y[1], 512);
	assert_int_equal(y[2], 16);
	assert_int_equal(y[3], 8);
	close_all();
}

static void arenas_count_as_committed_memory(void **state)
{
	uint64_t bytes;

	(void)state;
	open_plain(1, 0);
	assert_ok(rp_worker_committed_device_memory(worker, 0, &bytes));
	assert_int_equal(bytes, stats().arena_bytes);
	assert_true(bytes > UINT64_C(1) << 30);
	close_all();
}

static void open_watched(uint32_t threads)
{
	struct rp_worker_options options;

	bed_options(&options, 2);
	options.compute_threads = threads;
	options.kernel_timeout_s = 0.5;
	open_with(&options);
}

static void a_kernel_that_waits_in_vain_fails_its_run_only(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 2; threads++) {
		open_watched(threads);
		assert_int_equal(run(FORSAKEN, 0, NULL), -ETIMEDOUT);
		assert_says("entry 'forsaken'", "kernel 0 'refuse' (ring 0)",
			    "dependency deadlock", "0.5 s");
		assert_ok(run(STEPS, 3, NULL));
		close_all();
	}
}

static void a_kernel_that_runs_on_ends_the_worker_and_is_named(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 2; threads++) {
		open_watched(threads);
		assert_ok(run(STEPS, 3, NULL));
		assert_int_equal(run(ENDLESS, 0, NULL), -EOWNERDEAD);
		assert_says("exited with status 1: kernel 0 'run_on' (ring 0) runs: "
			    "running-stalled",
			    "0.5 s");
		assert_int_equal(run(STEPS, 3, NULL), -EOWNERDEAD);
		assert_says("kernel 0 'run_on'");
		assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
		rp_worker_free(worker);
		rp_program_free(program);
		rp_shared_free(x);
		rp_shared_free(y);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(an_entry_submits_kernels),
		PROCESS_TEST(sizes_hold_for_their_dispatch_alone_and_reach_every_chip),
		PROCESS_TEST(a_bad_size_is_refused_before_anything_runs),
		PROCESS_TEST(a_ring_that_is_too_small_fails_its_run_only),
		PROCESS_TEST(a_fault_that_the_entry_ignores_fails_the_run),
		PROCESS_TEST(the_first_dispatch_finds_what_prepare_made),
		PROCESS_TEST(two_places_keep_two_arenas),
		PROCESS_TEST(entries_without_kernels_use_no_arena),
		PROCESS_TEST(the_environment_sizes_what_the_config_does_not),
		PROCESS_TEST(arenas_count_as_committed_memory),
		PROCESS_TEST(a_kernel_that_waits_in_vain_fails_its_run_only),
		PROCESS_TEST(a_kernel_that_runs_on_ends_the_worker_and_is_named),
	};

	return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
