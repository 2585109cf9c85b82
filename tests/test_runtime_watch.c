/* SPDX-License-Identifier: MIT */
/* Kernels that never end, and who notices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/testing.h"
#include "kernel_bed.h"

#define STALL_NS    UINT64_C(50000000)
#define THREADS_MAX 2

/* What the watch gave up, and the leave that it gave. */
static char abandoned[RPI_ERROR_BYTES];
static _Atomic bool let_go;

static void note_abandoned(void *context, const char *text)
{
	(void)context;
	rpi_format(abandoned, sizeof(abandoned), "%s", text);
	atomic_store(&let_go, true);
}

static struct rpi_runtime *open_watched(uint32_t threads, uint64_t stall_ns)
{
	struct rpi_runtime_config config = { .compute_threads = threads,
					     .stall_ns = stall_ns,
					     .abandon = note_abandoned };
	struct rpi_runtime *runtime;

	abandoned[0] = '\0';
	atomic_store(&let_go, false);
	assert_ok(rpi_runtime_open(&config, &runtime));
	rpi_runtime_begin(runtime, NULL);
	return runtime;
}

static void pause_ns(long ns)
{
	struct timespec moment = { .tv_sec = ns / 1000000000,
				   .tv_nsec = ns % 1000000000 };

	nanosleep(&moment, NULL);
}

/* The run ended with -ETIMEDOUT and this line; the next one is well. */
static void end_stalled(struct rpi_runtime *runtime, const char *line)
{
	const char *text;

	assert_int_equal(rpi_runtime_end(runtime, 0, &text), -ETIMEDOUT);
	assert_non_null(text);
	assert_non_null(strstr(text, line));
	assert_non_null(strstr(text, "no kernel has ended for 0.05 s"));
	rpi_runtime_begin(runtime, NULL);
	for (int i = 0; i < 100; i++)
		assert_ok(kernel_empty(runtime));
	kernel_close(runtime, 0);
}

static int run_on(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	while (!atomic_load(&let_go))
		pause_ns(1000000);
	return 0;
}

static void a_kernel_that_runs_on_is_given_up(void **state)
{
	static const char line[] = "kernel 1 'test' (ring 0) runs: running-stalled";

	(void)state;
	for (uint32_t threads = 0; threads <= THREADS_MAX; threads++) {
		struct rpi_runtime *runtime = open_watched(threads, STALL_NS);

		assert_ok(kernel_empty(runtime));
		/* Without threads it has run when this returns. */
		assert_ok(kernel_submit(runtime, run_on, NULL, 0));
		assert_int_equal(rpi_runtime_drain(runtime), -ETIMEDOUT);
		assert_non_null(strstr(abandoned, line));
		end_stalled(runtime, line);
	}
}

static bool never(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return false;
}

static int submit_forsaken(struct rpi_runtime *runtime)
{
	struct rp_kernel kernel = { .fn = kernel_nothing,
				    .name = "forsaken",
				    .ready = never };

	return rpi_runtime_submit(runtime, &kernel, NULL);
}

static void what_only_waits_fails_the_run(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads <= THREADS_MAX; threads++) {
		struct rpi_runtime *runtime = open_watched(threads, STALL_NS);

		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		assert_ok(submit_forsaken(runtime));
		assert_int_equal(rpi_runtime_drain(runtime), -ETIMEDOUT);
		assert_string_equal(abandoned, "");
		end_stalled(runtime, "kernel 0 'forsaken' (ring 1) waits for what does "
				     "not come, and the rest for it: dependency "
				     "deadlock");
	}
}

static void an_entry_that_does_not_go_on_is_told_from_a_deadlock(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads <= THREADS_MAX; threads++) {
		struct rpi_runtime *runtime = open_watched(threads, STALL_NS);

		assert_ok(submit_forsaken(runtime));
		while (!rpi_fault_is(&runtime->fault))
			pause_ns(1000000);
		assert_int_equal(kernel_empty(runtime), -ETIMEDOUT);
		end_stalled(runtime, "(ring 0) waits for what does not come, and the "
				     "entry neither submits nor ends: "
				     "orchestrator-starved");
	}
}

/* As it would be if a wake-up were lost: nothing else leads there. */
static void a_kernel_that_nobody_takes_is_named(void **state)
{
	struct rpi_runtime *runtime = open_watched(0, STALL_NS);
	struct rpi_flight *slot =
		aligned_alloc(_Alignof(struct rpi_flight), sizeof(*slot));

	(void)state;
	memset(slot, 0, sizeof(*slot));
	slot->fn = kernel_nothing;
	slot->name = "idle";
	slot->index = 7;
	slot->ring = 2;
	assert_true(rpi_ready_put(&runtime->ready, slot));
	atomic_store(&runtime->submitted, 1);
	while (!rpi_fault_is(&runtime->fault))
		pause_ns(1000000);
	atomic_store(&runtime->submitted, 0);
	while (rpi_ready_take(&runtime->ready) != slot)
		pause_ns(1000000);
	free(slot);
	end_stalled(runtime, "kernel 7 'idle' (ring 2) may start and nobody takes it: "
			     "ready-idle");
}

static int dawdle(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	pause_ns(20000000);
	return 0;
}

/* Far longer than the limit altogether; and a pause that long with nothing to do. */
static void slow_is_not_stalled(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads <= THREADS_MAX; threads++) {
		struct rpi_runtime *runtime = open_watched(threads, 10 * STALL_NS);
		uint64_t word = 0;
		struct rp_arg chain = rp_inout((struct rp_tensor){ .data = &word,
								   .dtype = RP_UINT64,
								   .rank = 1,
								   .shape = { 1 },
								   .strides = { 1 } });

		for (int i = 0; i < 30; i++)
			assert_ok(kernel_submit(runtime, dawdle, &chain, 1));
		assert_ok(rpi_runtime_drain(runtime));
		pause_ns(600000000);
		assert_ok(kernel_empty(runtime));
		kernel_close(runtime, 0);
	}
}

static int fail_thread(const char *point)
{
	return !strcmp(point, "watch.thread") ? -EAGAIN : 0;
}

static void a_watch_that_does_not_start_fails_the_opening(void **state)
{
	struct rpi_runtime_config config = { .compute_threads = 2, .stall_ns = 1 };
	struct rpi_runtime *runtime;

	(void)state;
	rpi_test_hook = fail_thread;
	assert_int_equal(rpi_runtime_open(&config, &runtime), -EAGAIN);
	assert_says("kernel_timeout_s");
	rpi_test_hook = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kernel_that_runs_on_is_given_up),
		cmocka_unit_test(what_only_waits_fails_the_run),
		cmocka_unit_test(an_entry_that_does_not_go_on_is_told_from_a_deadlock),
		cmocka_unit_test(a_kernel_that_nobody_takes_is_named),
		cmocka_unit_test(slow_is_not_stalled),
		cmocka_unit_test(a_watch_that_does_not_start_fails_the_opening),
	};

	return cmocka_run_group_tests_name("runtime_watch", tests, NULL, NULL);
}
