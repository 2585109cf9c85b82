/* SPDX-License-Identifier: MIT */
/* The heap of a chip's memory: its notes alone, nothing behind the addresses. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/testing.h"
#include "device.h"
#include "support.h"
#include "tensor/heap.h"

#define BASE	     UINT64_C(0x40000400)
#define UNIT	     ((uint64_t)RP_DEVICE_ALIGN)

#define SMALL_BLOCKS 4000

static struct rpi_heap heap;

static void open_heap(uint64_t bytes)
{
	assert_ok(rpi_heap_init(&heap, "option", 3, BASE, bytes));
}

static int alloc(uint64_t bytes, struct rpi_block **out)
{
	return rpi_heap_alloc(&heap, "test", bytes, 0, out);
}

static struct rpi_block *must_alloc(uint64_t bytes)
{
	struct rpi_block *block = NULL;

	assert_ok(alloc(bytes, &block));
	return block;
}

/* The whole heap is one free block: it can be had. */
static void assert_whole(uint64_t bytes)
{
	struct rpi_block *block = must_alloc(bytes);

	assert_int_equal(block->address, BASE);
	assert_int_equal(block->bytes, bytes);
	rpi_heap_free(&heap, block);
	assert_int_equal(heap.committed, 0);
	assert_int_equal(heap.live_count, 0);
}

static void blocks_start_on_the_boundary_and_keep_what_was_asked(void **state)
{
	static const struct {
		uint64_t asked, taken;
	} cases[] = {
		{ 1, 1024 },	{ 1023, 1024 },	  { 1024, 1024 },     { 1025, 2048 },
		{ 4095, 4096 }, { 65537, 66560 }, { 100000, 100352 },
	};
	uint64_t next = BASE;
	size_t i;

	(void)state;
	open_heap(MIB);
	for (i = 0; i < COUNT(cases); i++) {
		struct rpi_block *block = must_alloc(cases[i].asked);

		assert_int_equal(block->address, next);
		assert_int_equal(block->address % RP_DEVICE_ALIGN, 0);
		assert_int_equal(block->bytes, cases[i].taken);
		assert_int_equal(block->asked, cases[i].asked);
		assert_ptr_equal(rpi_heap_find(&heap, next), block);
		assert_null(rpi_heap_find(&heap, next + 1));
		assert_null(rpi_heap_find(&heap, next + UNIT / 2));
		assert_ptr_equal(rpi_heap_holding(&heap, next + cases[i].taken - 1),
				 block);
		next += cases[i].taken;
		assert_int_equal(heap.committed, next - BASE);
		assert_null(rpi_heap_holding(&heap, next));
	}
	/* With blocks alive: what is left goes with the heap. */
	rpi_heap_fini(&heap);
}

static void what_can_not_be_is_refused(void **state)
{
	static const uint64_t too_large[] = {
		MIB + 1, 2 * MIB, UINT64_MAX / 2, UINT64_MAX - UNIT + 1, UINT64_MAX,
	};
	struct rpi_block *block = NULL;
	size_t i;

	(void)state;
	open_heap(MIB + 1000);
	assert_int_equal(alloc(0, &block), -EINVAL);
	assert_says("test", "0 bytes");
	for (i = 0; i < COUNT(too_large); i++)
		assert_int_equal(alloc(too_large[i], &block), -ENOMEM);
	assert_null(block);
	/* A heap has whole units only. */
	assert_whole(MIB);
	rpi_heap_fini(&heap);

	open_heap(UNIT - 1);
	assert_int_equal(alloc(1, &block), -ENOMEM);
	assert_says("free are 0", "largest block has 0");
	rpi_heap_fini(&heap);
}

static void exhaustion_says_what_was_asked_and_what_there_is(void **state)
{
	struct rpi_block *blocks[4];
	struct rpi_block *none;
	int i;

	(void)state;
	open_heap(16 * UNIT);
	for (i = 0; i < 4; i++)
		blocks[i] = must_alloc(4 * UNIT);
	assert_int_equal(alloc(1, &none), -ENOMEM);
	assert_says("test: 1 bytes", "chip 3", "free are 0,",
		    "largest block has 0 (option)");
	rpi_heap_free(&heap, blocks[0]);
	rpi_heap_free(&heap, blocks[2]);
	assert_int_equal(alloc(5 * UNIT, &none), -ENOMEM);
	assert_says("test: 5120 bytes", "free are 8192,", "largest block has 4096 ");
	/* After a free of enough the same request is served. */
	rpi_heap_free(&heap, blocks[1]);
	none = must_alloc(5 * UNIT);
	assert_int_equal(none->address, BASE);
	rpi_heap_fini(&heap);
}

/* The n-th order of five blocks. */
static void order_of(int n, int order[5])
{
	int left[5] = { 0, 1, 2, 3, 4 };
	int i, k, pick;

	for (i = 0; i < 5; i++) {
		pick = n % (5 - i);
		n /= 5 - i;
		order[i] = left[pick];
		for (k = pick; k < 4; k++)
			left[k] = left[k + 1];
	}
}

static void neighbours_join_in_every_order(void **state)
{
	static const uint64_t units[5] = { 3, 1, 7, 2, 5 };
	int order[5];
	int n, i, k;

	(void)state;
	for (n = 0; n < 120; n++) {
		struct rpi_block *blocks[5];
		bool is_free[5] = { false };

		order_of(n, order);
		open_heap(18 * UNIT);
		for (i = 0; i < 5; i++)
			blocks[i] = must_alloc(units[i] * UNIT);
		for (i = 0; i < 5; i++) {
			uint64_t largest = 0;
			uint64_t run = 0;
			struct rpi_block *block;

			rpi_heap_free(&heap, blocks[order[i]]);
			is_free[order[i]] = true;
			for (k = 0; k < 5; k++) {
				run = is_free[k] ? run + units[k] : 0;
				largest = run > largest ? run : largest;
			}
			/* Exactly the largest run of free neighbours can be had. */
			assert_int_equal(alloc(largest * UNIT + 1, &block), -ENOMEM);
			block = must_alloc(largest * UNIT);
			rpi_heap_free(&heap, block);
		}
		assert_whole(18 * UNIT);
		rpi_heap_fini(&heap);
	}
}

static void a_hole_of_the_size_is_filled_before_the_rest_is_cut(void **state)
{
	struct rpi_block *blocks[8];
	uint64_t hole;
	int round, i;

	(void)state;
	open_heap(MIB);
	for (i = 0; i < 8; i++)
		blocks[i] = must_alloc(21 * UNIT);
	/* The eighth would join the rest. */
	for (round = 0; round < 100; round++) {
		i = round * 5 % 7;
		hole = blocks[i]->address;
		rpi_heap_free(&heap, blocks[i]);
		blocks[i] = must_alloc(21 * UNIT);
		assert_int_equal(blocks[i]->address, hole);
	}
	/* Nothing was lost by it: the rest is still in one piece. */
	must_alloc(MIB - 8 * 21 * UNIT);
	rpi_heap_fini(&heap);
}

static void memory_that_is_there_is_not_refused(void **state)
{
	struct rpi_block *holes[50];
	struct rpi_block *block;
	uint64_t wanted;
	int i;

	(void)state;
	/* Holes of 20 to 23 units share a list; each is freed apart from the others. */
	open_heap((uint64_t)50 * 24 * UNIT);
	for (i = 0; i < 50; i++) {
		holes[i] = must_alloc((uint64_t)(i == 7 ? 23 : 20 + i % 3) * UNIT);
		must_alloc(UNIT);
	}
	while (!alloc(UNIT, &block))
		;
	wanted = holes[7]->address;
	for (i = 0; i < 50; i++)
		rpi_heap_free(&heap, holes[i]);
	block = must_alloc(23 * UNIT);
	assert_int_equal(block->address, wanted);
	assert_int_equal(alloc(23 * UNIT, &block), -ENOMEM);
	assert_says("largest block has 22528 ");
	rpi_heap_fini(&heap);
}

static const char *failing_point;

static int fail_memory(const char *point)
{
	return failing_point && !strcmp(point, failing_point) ? -ENOMEM : 0;
}

static void without_host_memory_nothing_is_lost(void **state)
{
	static struct rpi_block *blocks[SMALL_BLOCKS];
	int i;

	(void)state;
	rpi_test_hook = fail_memory;
	failing_point = "heap.block";
	assert_int_equal(rpi_heap_init(&heap, "option", 3, BASE, MIB), -ENOMEM);
	failing_point = "heap.table";
	assert_int_equal(rpi_heap_init(&heap, "option", 3, BASE, MIB), -ENOMEM);
	assert_says("chip 3");
	failing_point = NULL;
	open_heap(4 * MIB);
	/* A block that can't be cut is given whole, and counted whole. */
	failing_point = "heap.block";
	blocks[0] = must_alloc(10);
	assert_int_equal(blocks[0]->bytes, 4 * MIB);
	assert_int_equal(blocks[0]->asked, 10);
	assert_int_equal(heap.committed, 4 * MIB);
	rpi_heap_free(&heap, blocks[0]);
	assert_whole(4 * MIB);
	/* A table that can't grow only gets slower. */
	failing_point = "heap.table";
	for (i = 0; i < SMALL_BLOCKS; i++)
		blocks[i] = must_alloc(UNIT);
	assert_int_equal(heap.live_slots, 256);
	for (i = 0; i < SMALL_BLOCKS; i++)
		assert_ptr_equal(rpi_heap_find(&heap, blocks[i]->address), blocks[i]);
	for (i = 0; i < SMALL_BLOCKS; i++)
		rpi_heap_free(&heap, blocks[i]);
	assert_whole(4 * MIB);
	rpi_heap_fini(&heap);
	rpi_test_hook = NULL;
}

static void records_made_ahead_are_enough_and_come_back(void **state)
{
	struct rpi_block *blocks[8];

	(void)state;
	rpi_test_hook = fail_memory;
	failing_point = NULL;
	open_heap(4 * MIB);
	failing_point = "heap.block";
	assert_int_equal(rpi_heap_reserve(&heap, 1), -ENOMEM);
	assert_says("chip 3");
	failing_point = NULL;
	assert_ok(rpi_heap_reserve(&heap, COUNT(blocks)));
	/* None can be made now, and each cut takes one. */
	failing_point = "heap.block";
	for (int round = 0; round < 100; round++) {
		for (size_t i = 0; i < COUNT(blocks); i++) {
			blocks[i] = must_alloc(UNIT);
			assert_int_equal(blocks[i]->bytes, UNIT);
		}
		for (size_t i = 0; i < COUNT(blocks); i++)
			rpi_heap_free(&heap, blocks[(i + (size_t)round) % COUNT(blocks)]);
		assert_whole(4 * MIB);
	}
	rpi_heap_fini(&heap);
	rpi_test_hook = NULL;
}

/* Who has each unit of the heap, as a model that shares nothing with it. */
struct model {
	uint32_t *owner; /* of each unit: live index + 1, 0 free */
	uint64_t units;
	uint64_t taken;
	struct rpi_block **live;
	uint64_t *asked;
	uint32_t live_count;
	uint64_t seed;
};

static void model_open(struct model *model, uint64_t bytes, uint32_t live_max,
		       uint64_t seed)
{
	*model = (struct model){ .units = bytes / UNIT, .seed = seed };
	model->owner = calloc(model->units, sizeof(*model->owner));
	model->live = calloc(live_max, sizeof(*model->live));
	model->asked = calloc(live_max, sizeof(*model->asked));
	open_heap(bytes);
}

static void model_close(struct model *model)
{
	rpi_heap_fini(&heap);
	free(model->owner);
	free(model->live);
	free(model->asked);
}

static uint64_t model_random(struct model *model, uint64_t below)
{
	return bed_random(&model->seed) % below;
}

static bool model_alloc(struct model *model, uint64_t bytes)
{
	struct rpi_block *block;
	uint64_t first, count, i;

	if (alloc(bytes, &block))
		return false;
	first = (block->address - BASE) / UNIT;
	count = (bytes + UNIT - 1) / UNIT;
	assert_int_equal(block->address % UNIT, 0);
	assert_int_equal(block->bytes, count * UNIT);
	assert_true(first + count <= model->units);
	for (i = first; i < first + count; i++) {
		assert_int_equal(model->owner[i], 0);
		model->owner[i] = model->live_count + 1;
	}
	model->taken += count;
	model->asked[model->live_count] = bytes;
	model->live[model->live_count++] = block;
	assert_int_equal(heap.committed, model->taken * UNIT);
	return true;
}

static void model_free(struct model *model, uint32_t idx)
{
	struct rpi_block *block = model->live[idx];
	uint32_t last = model->live_count - 1;
	uint64_t first = (block->address - BASE) / UNIT;
	uint64_t i;

	assert_ptr_equal(rpi_heap_find(&heap, block->address), block);
	assert_int_equal(block->asked, model->asked[idx]);
	for (i = 0; i < block->bytes / UNIT; i++) {
		assert_int_equal(model->owner[first + i], idx + 1);
		model->owner[first + i] = 0;
	}
	model->taken -= block->bytes / UNIT;
	rpi_heap_free(&heap, block);
	/* The last one moves to its place. */
	model->live[idx] = model->live[last];
	model->asked[idx] = model->asked[last];
	model->live_count--;
	if (idx == last)
		return;
	first = (model->live[idx]->address - BASE) / UNIT;
	for (i = 0; i < model->live[idx]->bytes / UNIT; i++)
		model->owner[first + i] = idx + 1;
}

static uint64_t largest_run(const struct model *model)
{
	uint64_t largest = 0;
	uint64_t run = 0;
	uint64_t i;

	for (i = 0; i < model->units; i++) {
		run = model->owner[i] ? 0 : run + 1;
		largest = run > largest ? run : largest;
	}
	return largest;
}

static void ten_thousand_tensors_never_overlap_and_all_come_back(void **state)
{
	struct model model;
	uint32_t i;

	(void)state;
	model_open(&model, 256 * MIB, 10000, device_seed(42));
	while (model.live_count < 10000)
		assert_true(model_alloc(&model, 1 + model_random(&model, 20 * KIB)));
	for (i = 0; i < 60000; i++) {
		model_free(&model, (uint32_t)model_random(&model, model.live_count));
		assert_true(model_alloc(&model, 1 + model_random(&model, 20 * KIB)));
	}
	assert_int_equal(heap.live_count, 10000);
	while (model.live_count)
		model_free(&model, (uint32_t)model_random(&model, model.live_count));
	assert_whole(256 * MIB);
	model_close(&model);
}

static void a_full_heap_refuses_exactly_what_does_not_fit(void **state)
{
	uint64_t seed = device_seed(7);
	int round, step;

	(void)state;
	for (round = 0; round < 8; round++) {
		struct model model;

		model_open(&model, 2 * MIB, 4096, seed + (uint64_t)round);
		for (step = 0; step < 3000; step++) {
			uint64_t bytes = 1 + model_random(&model, 64 * KIB);

			/* Mostly full, then mostly empty. */
			if (model.live_count &&
			    model_random(&model, 100) < (step < 3000 / 2 ? 30u : 55u)) {
				model_free(&model, (uint32_t)model_random(
							   &model, model.live_count));
			} else if (!model_alloc(&model, bytes)) {
				assert_true((bytes + UNIT - 1) / UNIT >
					    largest_run(&model));
				model_free(&model, (uint32_t)model_random(
							   &model, model.live_count));
			}
		}
		while (model.live_count)
			model_free(&model, model.live_count - 1);
		assert_whole(2 * MIB);
		model_close(&model);
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Blocks looked at per free and alloc, with so many alive; and what they took. */
static double looks_with(uint32_t live, uint64_t seed, double *ns_out)
{
	const uint32_t steps = 20000;
	struct rpi_block **blocks = calloc(live, sizeof(*blocks));
	uint64_t looks, begin_ns;
	uint32_t i;
	double mean;

	open_heap(live * 24 * UNIT);
	for (i = 0; i < live; i++)
		blocks[i] = must_alloc(1 + bed_random(&seed) % (20 * UNIT));
	looks = heap.looks;
	begin_ns = cpu_ns();
	for (i = 0; i < steps; i++) {
		uint32_t idx = (uint32_t)(bed_random(&seed) % live);

		rpi_heap_free(&heap, blocks[idx]);
		blocks[idx] = must_alloc(1 + bed_random(&seed) % (20 * UNIT));
	}
	*ns_out = (double)(cpu_ns() - begin_ns) / steps;
	mean = (double)(heap.looks - looks) / steps;
	rpi_heap_fini(&heap);
	free(blocks);
	return mean;
}

static void the_work_does_not_grow_with_the_tensors(void **state)
{
	static const uint32_t populations[] = { 100, 1000, 10000, 100000 };
	uint64_t seed = device_seed(11);
	double ns, first_ns = 0;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(populations); i++) {
		double looks = looks_with(populations[i], seed, &ns);

		if (!i)
			first_ns = ns;
		print_message("%6u alive: %.2f blocks looked at, %.0f ns per free and "
			      "alloc, %.2f x that of %u\n",
			      populations[i], looks, ns, ns / first_ns, populations[0]);
		/* Four tries in the list, and a chain of two in the table. */
		assert_true(looks < 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_start_on_the_boundary_and_keep_what_was_asked),
		cmocka_unit_test(what_can_not_be_is_refused),
		cmocka_unit_test(exhaustion_says_what_was_asked_and_what_there_is),
		cmocka_unit_test(neighbours_join_in_every_order),
		cmocka_unit_test(a_hole_of_the_size_is_filled_before_the_rest_is_cut),
		cmocka_unit_test(memory_that_is_there_is_not_refused),
		cmocka_unit_test(without_host_memory_nothing_is_lost),
		cmocka_unit_test(records_made_ahead_are_enough_and_come_back),
		cmocka_unit_test(ten_thousand_tensors_never_overlap_and_all_come_back),
		cmocka_unit_test(a_full_heap_refuses_exactly_what_does_not_fit),
		cmocka_unit_test(the_work_does_not_grow_with_the_tensors),
	};

	return cmocka_run_group_tests_name("test_heap", tests, NULL, NULL);
}
