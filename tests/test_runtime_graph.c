/* SPDX-License-Identifier: MIT */
/* Random programs against a serial execution, and long ones through small windows. The
 * stress program does the same for longer and shrinks what fails. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "kernel_bed.h"

static void random_programs_give_what_a_serial_execution_gives(void **state)
{
	static const struct graph_setting settings[] = {
		{ .threads = 0 },
		{ .threads = 1,
		  .window = GRAPH_WINDOW_MIN,
		  .heap = GRAPH_HEAP_MIN,
		  .pool = 6 },
		{ .threads = 3 },
		{ .threads = 2, .window = 32, .heap = GRAPH_HEAP_MIN, .pool = 7 },
	};
	static struct graph graph;

	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		graph_make(&graph, seed, 300);
		for (size_t i = 0; i < COUNT(settings); i++)
			if (graph_differs(&graph, &settings[i], 1))
				fail_msg("seed %" PRIu64 ", setting %zu", seed, i);
	}
}

/* That the comparison can fail at all. Without threads, so that it is no race: kernels
 * that wait for their `ready` are overtaken by those that should follow them. */
static void left_out_dependencies_are_noticed(void **state)
{
	static const struct graph_setting broken = { .threads = 0, .break_it = true };
	static struct graph graph;
	uint64_t seed = 1;

	(void)state;
	do {
		graph_make(&graph, seed, 1000);
	} while (!graph_differs(&graph, &broken, 1) && ++seed < 50);
	assert_true(seed < 50);
}

#define CELLS	64
#define KERNELS 1000000

/* Under a sanitizer as many as are bearable. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREADED_KERNELS 50000
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define THREADED_KERNELS 50000
#endif
#endif
#ifndef THREADED_KERNELS
#define THREADED_KERNELS KERNELS
#endif

/* cell += the one before it, and what was submitted so far. */
static int blend(const struct rp_arg *args, size_t nargs)
{
	double *to = args[1].u.tensor.data;
	const double *from = args[0].u.tensor.data;

	(void)nargs;
	*to = *to * 0.75 + *from * 0.5 + args[2].u.scalar.value.f32;
	return 0;
}

static void run_long(struct kernel_bed bed, uint64_t kernels, double cells[CELLS])
{
	struct rpi_runtime *runtime = kernel_open(bed);
	struct rp_tensor t = {
		.dtype = RP_INT64, .rank = 1, .shape = { 1 }, .strides = { 1 }
	};
	uint64_t seed = 42;

	memset(cells, 0, CELLS * sizeof(*cells));
	for (uint64_t i = 0; i < kernels; i++) {
		struct rp_arg args[3];

		if (i % 8 == 0) {
			if (i)
				assert_ok(rpi_runtime_scope_end(runtime));
			assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		}
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		t.data = &cells[seed >> 58];
		args[0] = rp_in(t);
		t.data = &cells[seed >> 52 & (CELLS - 1)];
		args[1] = rp_inout(t);
		args[2] = rp_arg_f32((float)(i % 1000));
		assert_ok(kernel_submit(runtime, blend, args, 3));
	}
	kernel_close(runtime, 0);
}

static void a_window_of_16_gives_the_bits_of_one_of_16384(void **state)
{
	double small[CELLS], large[CELLS];

	(void)state;
	run_long((struct kernel_bed){ .window = 16 }, KERNELS, small);
	run_long((struct kernel_bed){ .window = 16384 }, KERNELS, large);
	assert_memory_equal(small, large, sizeof(small));
	/* With threads, where the slots of the window are used. */
	memcpy(large, small, sizeof(large));
	if (THREADED_KERNELS != KERNELS)
		run_long((struct kernel_bed){ 0 }, THREADED_KERNELS, large);
	for (uint32_t threads = 1; threads < 3; threads++) {
		run_long((struct kernel_bed){ .threads = threads, .window = 16 },
			 THREADED_KERNELS, small);
		assert_memory_equal(small, large, sizeof(small));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_programs_give_what_a_serial_execution_gives),
		cmocka_unit_test(left_out_dependencies_are_noticed),
		cmocka_unit_test(a_window_of_16_gives_the_bits_of_one_of_16384),
	};

	return cmocka_run_group_tests_name("runtime_graph", tests, NULL, NULL);
}
