/* SPDX-License-Identifier: MIT */
/* What comes late, and what is full besides the rings: nothing live is given back. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bed.h"

#define GATES 4

static _Atomic bool open_gates[GATES];
static _Atomic uint32_t passed;

static void shut_all(void)
{
	for (int i = 0; i < GATES; i++)
		atomic_store(&open_gates[i], false);
	atomic_store(&passed, 0);
}

/* The last argument is the gate. */
static bool is_open(const struct rp_arg *args, size_t nargs)
{
	return atomic_load(&open_gates[args[nargs - 1].u.scalar.value.u32]);
}

static int pass(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	atomic_fetch_add(&passed, 1);
	return 0;
}

/* The first argument, bytes of the heap, all 0x5a. */
static int fill(const struct rp_arg *args, size_t nargs)
{
	(void)nargs;
	memset(args[0].u.tensor.data, 0x5a, (size_t)args[0].u.tensor.shape[0]);
	return 0;
}

static int submit_behind(struct rpi_runtime *runtime, uint32_t gate, rp_kernel_fn fn,
			 struct rp_arg *first)
{
	struct rp_arg args[2];
	struct rp_kernel kernel = { .fn = fn, .args = args, .ready = is_open };
	int err;

	if (first)
		args[kernel.arg_count++] = *first;
	args[kernel.arg_count++] = rp_arg_u32(gate);
	err = rpi_runtime_submit(runtime, &kernel, NULL);
	if (first)
		*first = args[0];
	return err;
}

static struct rp_ring_state state_of(struct rpi_runtime *runtime, uint32_t ring)
{
	struct rp_ring_state seen;

	assert_ok(rpi_runtime_ring_state(runtime, ring, &seen));
	return seen;
}

/*
 * Three kernels of one ring: the first has no outputs and ends last but one, after the
 * heap had run empty and begun anew for the third.
 */
static void an_older_kernel_that_retires_late_frees_nothing_newer(void **state)
{
	const int64_t all = 8192, part = 1024;

	(void)state;
	for (uint32_t threads = 0; threads < 3; threads++) {
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = threads, .heap = 8192 });
		struct rp_arg slab = rp_out_new(RP_UINT8, 1, &all), next;

		shut_all();
		/* So that the heap's top is not at its beginning. */
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		assert_ok(kernel_output(runtime, 3072, NULL));
		assert_ok(rpi_runtime_scope_end(runtime));
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		assert_ok(submit_behind(runtime, 0, pass, NULL));
		assert_ok(rpi_runtime_scope_end(runtime));
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		assert_ok(submit_behind(runtime, 1, fill, &slab));
		assert_ok(rpi_runtime_scope_end(runtime));
		/* The first one ends and retires; the third one's block is all there is.
		 */
		atomic_store(&open_gates[0], true);
		while (!atomic_load(&passed) ||
		       state_of(runtime, 1).task_window.in_use > 1) {
			/* Whoever submits looks at what has ended. */
			assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
			assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
			assert_ok(kernel_empty(runtime));
			assert_ok(rpi_runtime_scope_end(runtime));
			assert_ok(rpi_runtime_scope_end(runtime));
			sched_yield();
		}
		assert_int_equal(state_of(runtime, 1).heap.in_use, 8192);
		/* The next one wants its place, and gets it when it has ended. */
		atomic_store(&open_gates[1], true);
		next = rp_out_new(RP_UINT8, 1, &part);
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		assert_ok(kernel_submit(runtime, fill, &next, 1));
		assert_ok(rpi_runtime_drain(runtime));
		assert_int_equal(*(uint8_t *)next.u.tensor.data, 0x5a);
		assert_int_equal(state_of(runtime, 1).heap.in_use, 1024);
		kernel_close(runtime, 0);
	}
}

/* More kernels wait than the ready queue has cells: all are asked, all start. */
static void more_wait_than_the_queue_holds(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 3; threads += 2) {
		/* Without threads each submit asks all: fewer have to do. */
		uint32_t count = threads ? RPI_READY_CELLS + 100 : 500;
		struct rpi_runtime *runtime =
			kernel_open((struct kernel_bed){ .threads = threads });

		shut_all();
		for (uint32_t i = 0; i < count; i++)
			assert_ok(submit_behind(runtime, 0, pass, NULL));
		assert_int_equal(atomic_load(&passed), 0);
		atomic_store(&open_gates[0], true);
		assert_ok(rpi_runtime_drain(runtime));
		assert_int_equal(atomic_load(&passed), count);
		kernel_close(runtime, 0);
	}
}

static struct rpi_runtime *pressed;

/* Says yes when the overlap map has no room for a kernel of TENSORS. */
#define TENSORS RP_MAX_TASK_TENSORS

static bool map_is_full(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return !rpi_uses_room(pressed->arena->uses, TENSORS);
}

/* The oldest kernel keeps the uses of all that came after it. */
static void a_full_overlap_map_presses_back(void **state)
{
	static uint8_t bytes[TENSORS];
	struct rp_arg args[TENSORS];
	struct rp_kernel first = { .fn = kernel_nothing, .ready = map_is_full };
	struct rp_ring_state seen;

	(void)state;
	pressed = kernel_open((struct kernel_bed){ 0 });
	for (int i = 0; i < TENSORS; i++)
		args[i] = rp_in((struct rp_tensor){ .data = &bytes[i],
						    .dtype = RP_UINT8,
						    .rank = 1,
						    .shape = { 1 },
						    .strides = { 1 } });
	assert_ok(rpi_runtime_submit(pressed, &first, NULL));
	for (uint32_t i = 0; i < RPI_USES_MAX / TENSORS + 200; i++)
		assert_ok(kernel_submit(pressed, kernel_nothing, args, TENSORS));
	assert_ok(rpi_runtime_drain(pressed));
	seen = state_of(pressed, 0);
	assert_int_equal(seen.overlap_map.size, RPI_USES_MAX);
	assert_int_equal(seen.overlap_map.in_use, 0);
	assert_true(seen.overlap_map.peak > RPI_USES_MAX - TENSORS);
	kernel_close(pressed, 0);
}

/* There are no outputs of no bytes, nor of more than addresses can count; one that is
 * only larger than any heap is told so. */
static void an_output_has_bytes(void **state)
{
	static const int64_t shapes[] = { 0, -1, INT64_MAX, INT64_C(1) << 60 };

	(void)state;
	for (size_t i = 0; i < COUNT(shapes); i++) {
		struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });
		int err = kernel_output(runtime, shapes[i], NULL);

		assert_int_equal(err, shapes[i] == INT64_C(1) << 60 ? -ENOSPC : -EINVAL);
		assert_int_equal(state_of(runtime, 0).heap.in_use, 0);
		kernel_close(runtime, err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_older_kernel_that_retires_late_frees_nothing_newer),
		cmocka_unit_test(more_wait_than_the_queue_holds),
		cmocka_unit_test(a_full_overlap_map_presses_back),
		cmocka_unit_test(an_output_has_bytes),
	};

	return cmocka_run_group_tests_name("runtime_reclaim", tests, NULL, NULL);
}
