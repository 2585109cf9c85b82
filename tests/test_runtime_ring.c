/* SPDX-License-Identifier: MIT */
/* The parts of a ring: heap placement, edges, the queue of ready kernels, arenas. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "kernel_bed.h"

/* --- Heap ---------------------------------------------------------------- */

static uint64_t offset_of(const struct rpi_runtime *runtime, const struct rp_tensor *t)
{
	return (uint64_t)((uint8_t *)t->data - runtime->arena->rings[0].heap_memory);
}

static void outputs_take_whole_units_and_follow_one_another(void **state)
{
	static const struct {
		int64_t bytes;
		uint64_t offset;
	} cases[] = {
		{ 1, 0 }, { 1023, 1024 }, { 1024, 2048 }, { 1025, 3072 }, { 1, 5120 }
	};
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ .heap = 8192 });

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rp_tensor out = { 0 };

		assert_ok(kernel_output(runtime, cases[i].bytes, &out));
		assert_int_equal(offset_of(runtime, &out), cases[i].offset);
	}
	kernel_close(runtime, 0);
}

static void outputs_of_one_kernel_are_packed(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });
	int64_t bytes[3] = { 1, 2000, 5 };
	struct rp_arg args[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		args[i] = rp_out_new(RP_UINT8, 1, &bytes[i]);
	assert_ok(kernel_submit(runtime, kernel_nothing, args, 3));
	assert_int_equal(offset_of(runtime, &args[0].u.tensor), 0);
	assert_int_equal(offset_of(runtime, &args[1].u.tensor), 1024);
	assert_int_equal(offset_of(runtime, &args[2].u.tensor), 3072);
	kernel_close(runtime, 0);
}

static void strides_of_an_output_are_row_major(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });
	int64_t shape[3] = { 2, 3, 4 };
	struct rp_arg arg = rp_out_new(RP_FLOAT32, 3, shape);

	(void)state;
	assert_ok(kernel_submit(runtime, kernel_nothing, &arg, 1));
	assert_non_null(arg.u.tensor.data);
	assert_int_equal(arg.u.tensor.strides[0], 12);
	assert_int_equal(arg.u.tensor.strides[1], 4);
	assert_int_equal(arg.u.tensor.strides[2], 1);
	assert_true(rp_tensor_contiguous(&arg.u.tensor));
	kernel_close(runtime, 0);
}

/* Parked at half of the heap, a request for all of it fits once it has drained. */
static void a_drained_heap_serves_a_request_of_its_whole_size(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 2; threads++) {
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = threads, .heap = 8192 });

		for (int i = 0; i < 20; i++) {
			assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
			assert_ok(kernel_output(runtime, 4096 - 1024 * (i % 3), NULL));
			assert_ok(rpi_runtime_scope_end(runtime));
			assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
			/* Without outputs: takes nothing, and holds up nothing. */
			assert_ok(kernel_empty(runtime));
			assert_ok(kernel_output(runtime, 8192, NULL));
			assert_ok(rpi_runtime_scope_end(runtime));
		}
		kernel_close(runtime, 0);
	}
}

static void a_block_never_straddles_the_end(void **state)
{
	struct rpi_lap lap = { .size = 8192, .top = 8192 + 5120, .tail = 8192 + 4096 };
	uint64_t begin = rpi_lap_place(&lap, 3072);

	(void)state;
	assert_int_equal(begin, lap.top);
	assert_true(rpi_lap_fits(&lap, lap.tail, begin, 3072));
	begin = rpi_lap_place(&lap, 4096);
	assert_int_equal(begin, 2 * 8192);
	/* What is left at the end is charged: 3072 there, 1024 live, 4096 asked. */
	assert_true(rpi_lap_fits(&lap, lap.tail, begin, 4096));
	assert_false(rpi_lap_fits(&lap, lap.tail, begin, 4097));
}

/* Whether a program fits depends on the program alone. */
static void what_fits_once_fits_however_fast_kernels_end(void **state)
{
	struct rpi_runtime *runtime =
		kernel_open((struct kernel_bed){ .threads = 2, .heap = 16384 });

	(void)state;
	for (int i = 0; i < 3000; i++) {
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		/* All outputs of a scope and the largest once more fit. */
		assert_ok(kernel_output(runtime, 1024 * (1 + i % 5), NULL));
		assert_ok(kernel_output(runtime, 1024 * (1 + i % 3), NULL));
		assert_ok(kernel_output(runtime, 1024, NULL));
		assert_ok(rpi_runtime_scope_end(runtime));
	}
	kernel_close(runtime, 0);
}

/* --- Edges --------------------------------------------------------------- */

static void edges_are_taken_and_given_back_in_order(void **state)
{
	struct rpi_edge memory[5];
	struct rpi_edges pool = { .edge = memory, .size = 5 };

	(void)state;
	for (int round = 0; round < 7; round++) {
		uint64_t mark = 0;

		for (int i = 0; i < 5; i++) {
			assert_non_null(rpi_edges_take(&pool));
			if (i == 2)
				mark = pool.taken;
		}
		assert_null(rpi_edges_take(&pool));
		rpi_edges_free(&pool, mark);
		assert_int_equal(rpi_edges_used(&pool), 2);
		assert_non_null(rpi_edges_take(&pool));
		rpi_edges_free(&pool, pool.taken);
		assert_int_equal(rpi_edges_used(&pool), 0);
		assert_ptr_equal(rpi_edges_take(&pool), &memory[0]);
		rpi_edges_free(&pool, pool.taken);
	}
	assert_int_equal(pool.peak, 5);
}

/* --- Ready queue --------------------------------------------------------- */

#define SIDES 2
#define ITEMS 20000u

static struct rpi_ready *queue;
static _Atomic uint32_t taken[SIDES * ITEMS];
static _Atomic uint32_t taken_count;

static void *put_all(void *arg)
{
	uintptr_t side = (uintptr_t)arg;

	for (uintptr_t i = 0; i < ITEMS; i++)
		while (!rpi_ready_put(queue, (struct rpi_flight *)(side * ITEMS + i + 1)))
			sched_yield();
	return NULL;
}

static void *take_all(void *arg)
{
	uintptr_t last[SIDES] = { 0 };

	(void)arg;
	while (atomic_load(&taken_count) < SIDES * ITEMS) {
		uintptr_t item = (uintptr_t)rpi_ready_take(queue);

		if (!item) {
			sched_yield();
			continue;
		}
		item--;
		atomic_fetch_add(&taken[item], 1);
		atomic_fetch_add(&taken_count, 1);
		/* In order per producer, as far as one consumer sees it. */
		if (item % ITEMS + 1 <= last[item / ITEMS])
			abort();
		last[item / ITEMS] = item % ITEMS + 1;
	}
	return NULL;
}

static void each_ready_kernel_is_taken_once_and_in_order(void **state)
{
	pthread_t threads[2 * SIDES];

	(void)state;
	queue = aligned_alloc(_Alignof(struct rpi_ready), sizeof(*queue));
	rpi_ready_init(queue);
	for (uintptr_t i = 0; i < 2 * SIDES; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i < SIDES ? put_all : take_all,
						(void *)(i % SIDES)),
				 0);
	for (int i = 0; i < 2 * SIDES; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < SIDES * ITEMS; i++)
		assert_int_equal(taken[i], 1);
	assert_false(rpi_ready_any(queue));
	assert_null(rpi_ready_take(queue));
	free(queue);
}

static void a_full_queue_says_so(void **state)
{
	struct rpi_flight *item = (struct rpi_flight *)64;

	(void)state;
	queue = aligned_alloc(_Alignof(struct rpi_ready), sizeof(*queue));
	rpi_ready_init(queue);
	for (uint32_t i = 0; i < RPI_READY_CELLS; i++)
		assert_true(rpi_ready_put(queue, item));
	assert_false(rpi_ready_put(queue, item));
	assert_ptr_equal(rpi_ready_take(queue), item);
	assert_true(rpi_ready_put(queue, item));
	free(queue);
}

/* --- Arenas -------------------------------------------------------------- */

static struct rpi_sizing sizing_of(uint64_t window)
{
	struct rpi_sizing none = { { { 0 } } }, out;

	rpi_sizing_resolve(&none, &none, &out);
	for (int ring = 0; ring < RP_RING_COUNT; ring++)
		out.size[RPI_TASK_WINDOW][ring] = window;
	return out;
}

static void the_arena_used_longest_ago_makes_room(void **state)
{
	struct rpi_sizing a = sizing_of(4), b = sizing_of(8), c = sizing_of(16);
	struct rpi_arena_cache cache;
	struct rpi_arena *arena, *kept;

	(void)state;
	rpi_arena_cache_init(&cache, 2, RP_PAGES_AUTO);
	assert_ok(rpi_arena_get(&cache, &a, &kept));
	assert_ok(rpi_arena_get(&cache, &b, &arena));
	assert_ok(rpi_arena_get(&cache, &a, &arena));
	assert_ptr_equal(arena, kept);
	assert_ok(rpi_arena_get(&cache, &c, &arena)); /* in place of b */
	assert_ok(rpi_arena_get(&cache, &a, &arena));
	assert_ptr_equal(arena, kept);
	assert_int_equal(cache.hits, 2);
	assert_int_equal(cache.misses, 3);
	assert_int_equal(cache.builds, 3);
	assert_ok(rpi_arena_get(&cache, &b, &arena));
	assert_int_equal(cache.builds, 4);
	assert_true(cache.bytes >= 2 * 4 * RPI_DEFAULT_HEAP);
	rpi_arena_cache_fini(&cache);
	assert_int_equal(cache.bytes, 0);
}

static void one_number_of_twelve_makes_another_arena(void **state)
{
	struct rpi_sizing a = sizing_of(4), b = a;
	struct rpi_arena_cache cache;
	struct rpi_arena *arena;

	(void)state;
	b.size[RPI_DEP_POOL][3]++;
	rpi_arena_cache_init(&cache, 1, RP_PAGES_AUTO);
	for (int i = 0; i < 3; i++) {
		assert_ok(rpi_arena_get(&cache, &a, &arena));
		assert_ok(rpi_arena_get(&cache, &b, &arena));
	}
	assert_int_equal(cache.misses, 6);
	assert_int_equal(cache.hits, 0);
	rpi_arena_cache_fini(&cache);
}

static void a_prewarmed_arena_is_a_hit(void **state)
{
	struct rpi_sizing a = sizing_of(4);
	struct rpi_arena_cache cache;
	struct rpi_arena *arena;

	(void)state;
	rpi_arena_cache_init(&cache, 1, RP_PAGES_NEVER);
	assert_ok(rpi_arena_prewarm(&cache, &a, true));
	assert_int_equal(cache.hits + cache.misses, 0);
	assert_int_equal(cache.builds, 1);
	assert_ok(rpi_arena_get(&cache, &a, &arena));
	assert_int_equal(cache.hits, 1);
	assert_int_equal(cache.builds, 1);
	rpi_arena_cache_fini(&cache);
}

static void sizes_are_equal_wherever_they_come_from(void **state)
{
	struct rpi_runtime_config config = { .compute_threads = 0 };
	struct rp_run_config by_config = { .size = sizeof(by_config),
					   .ring_task_window = { .all = 64 } };
	struct rpi_runtime *runtime;
	const char *text;

	(void)state;
	for (int ring = 0; ring < RP_RING_COUNT; ring++)
		config.env.size[RPI_TASK_WINDOW][ring] = 64;
	assert_ok(rpi_runtime_open(&config, &runtime));
	for (int i = 0; i < 4; i++) {
		rpi_runtime_begin(runtime, i % 2 ? &by_config : NULL);
		assert_ok(kernel_empty(runtime));
		assert_ok(rpi_runtime_end(runtime, 0, &text));
	}
	assert_int_equal(runtime->cache.builds, 1);
	assert_int_equal(runtime->cache.hits, 3);
	rpi_runtime_close(runtime);
}

static int failing_calls;

static int fail_map(const char *point)
{
	return !strcmp(point, "arena.map") && failing_calls-- > 0 ? -ENOMEM : 0;
}

static void memory_that_is_not_to_be_had_fails_one_run(void **state)
{
	struct rpi_runtime *runtime;
	const char *text;

	(void)state;
	rpi_test_hook = fail_map;
	failing_calls = 1;
	runtime = kernel_open((struct kernel_bed){ 0 });
	assert_int_equal(kernel_empty(runtime), -ENOMEM);
	assert_says("arena", "bytes");
	assert_int_equal(kernel_empty(runtime), -ENOMEM);
	assert_int_equal(rpi_runtime_end(runtime, 0, &text), -ENOMEM);
	rpi_runtime_begin(runtime, NULL);
	assert_ok(kernel_empty(runtime));
	rpi_test_hook = NULL;
	kernel_close(runtime, 0);
}

static int fail_thread(const char *point)
{
	return !strcmp(point, "crew.thread") && !failing_calls-- ? -EAGAIN : 0;
}

static void a_thread_that_does_not_start_fails_the_opening(void **state)
{
	struct rpi_runtime_config config = { .compute_threads = 3 };
	struct rpi_runtime *runtime;

	(void)state;
	rpi_test_hook = fail_thread;
	for (int nth = 0; nth < 3; nth++) {
		failing_calls = nth;
		assert_int_equal(rpi_runtime_open(&config, &runtime), -EAGAIN);
		assert_says("compute_threads 3");
	}
	failing_calls = 3;
	assert_ok(rpi_runtime_open(&config, &runtime));
	rpi_test_hook = NULL;
	rpi_runtime_close(runtime);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outputs_take_whole_units_and_follow_one_another),
		cmocka_unit_test(outputs_of_one_kernel_are_packed),
		cmocka_unit_test(strides_of_an_output_are_row_major),
		cmocka_unit_test(a_drained_heap_serves_a_request_of_its_whole_size),
		cmocka_unit_test(a_block_never_straddles_the_end),
		cmocka_unit_test(what_fits_once_fits_however_fast_kernels_end),
		cmocka_unit_test(edges_are_taken_and_given_back_in_order),
		cmocka_unit_test(each_ready_kernel_is_taken_once_and_in_order),
		cmocka_unit_test(a_full_queue_says_so),
		cmocka_unit_test(the_arena_used_longest_ago_makes_room),
		cmocka_unit_test(one_number_of_twelve_makes_another_arena),
		cmocka_unit_test(a_prewarmed_arena_is_a_hit),
		cmocka_unit_test(sizes_are_equal_wherever_they_come_from),
		cmocka_unit_test(memory_that_is_not_to_be_had_fails_one_run),
		cmocka_unit_test(a_thread_that_does_not_start_fails_the_opening),
	};

	return cmocka_run_group_tests_name("runtime_ring", tests, NULL, NULL);
}
