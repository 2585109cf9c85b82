/* SPDX-License-Identifier: MIT */
/* Rings that are smaller than what goes through them. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support.h"

struct heap_of_tasks {
	int64_t *memory; /* one word for each chip */
	uint32_t tasks;
	uint32_t scalars; /* to fill the argument ring with */
	bool gated;
};

static int enqueue_heap(struct rp_run *run, void *arg)
{
	struct heap_of_tasks *heap = arg;
	uint32_t chips = rp_run_chip_count(run);

	/* The first time, chips hold until a ring has been full. */
	for (uint32_t chip = 0; chip < (heap->gated ? chips : 0); chip++) {
		int err = TASK(run, (int32_t)chip, ENTRY_GATE, rp_arg_u64(0));

		if (err)
			return err;
	}
	heap->gated = false;
	for (uint32_t i = 0; i < heap->tasks; i++) {
		struct rp_arg args[1 + RP_MAX_TASK_SCALARS];
		uint32_t count = 0;
		int err;

		args[count++] = rp_inout(TENSOR(heap->memory + i % chips, RP_INT64, 1));
		for (uint32_t k = 0; k < 1 + i % (heap->scalars + 1); k++)
			args[count++] = rp_arg_i64(1);
		err = bed_task(run, RP_CHIP_ANY, ENTRY_ADD, args, i % 5 ? count : 0);
		if (err)
			return err;
	}
	return 0;
}

static void *open_when_full(void *arg)
{
	while (!bed_stats(arg).ring_full_waits)
		bed_breathe();
	gate_open(0);
	return NULL;
}

static void more_tasks_than_the_rings_hold_press_back_and_all_run(void **state)
{
	static const struct {
		uint32_t slots;
		size_t arg_bytes;
		uint32_t scalars;
	} cases[] = {
		{ 4, 4096, 0 },	    { 4, 4096, 100 },  { 64, 4096, 100 },
		{ 1024, 4096, 20 }, { 32, 4224, 127 },
	};
	int64_t *memory = bed_shared(2 * 8, 0);

	(void)state;
	for (size_t k = 0; k < COUNT(cases) * 2; k++) {
		uint32_t chips = 1 + (uint32_t)k % 2;
		struct heap_of_tasks heap = { .memory = memory,
					      .tasks = 3000,
					      .gated = true,
					      .scalars = cases[k / 2].scalars };
		struct rp_worker_options options;
		struct rp_worker_stats stats;
		pthread_t opener;
		struct bed bed;

		memset(memory, 0, 2 * 8);
		atomic_store(&board->gates[0], 0);
		bed_options(&options, chips);
		options.task_ring_slots = cases[k / 2].slots;
		options.arg_ring_bytes = cases[k / 2].arg_bytes;
		bed_open_with(&bed, &options);
		assert_int_equal(pthread_create(&opener, NULL, open_when_full, &bed), 0);
		for (int round = 0; round < 2; round++)
			assert_ok(bed_run(&bed, enqueue_heap, &heap));
		assert_int_equal(pthread_join(opener, NULL), 0);
		assert_int_equal(memory[0] + (chips > 1 ? memory[1] : 0),
				 2 * heap.tasks / 5 * 4);
		stats = bed_stats(&bed);
		assert_int_equal(stats.tasks, 2 * heap.tasks + chips);
		assert_true(stats.ring_full_waits > 0);
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

/* A ring full of tasks without arguments behind one that does not move, then one whose
 * arguments need more than the bytes before them left. */
static int args_after_none(struct rp_run *run, void *arg)
{
	struct rp_arg args[RP_MAX_TASK_SCALARS];
	int err;

	for (uint32_t i = 0; i < RP_MAX_TASK_SCALARS; i++)
		args[i] = rp_arg_u64(0);
	/* Without a scalar it is gate 0. */
	err = bed_task(run, 0, ENTRY_GATE, NULL, 0);
	for (uint32_t i = 1; i < *(uint32_t *)arg && !err; i++)
		err = bed_task(run, 0, ENTRY_EMPTY, NULL, 0);
	for (int i = 0; i < 4 && !err; i++)
		err = bed_task(run, 0, ENTRY_EMPTY, args, RP_MAX_TASK_SCALARS);
	return err;
}

static int three_scalars(struct rp_run *run, void *arg)
{
	(void)arg;
	return TASK(run, 0, ENTRY_EMPTY, rp_arg_u64(1), rp_arg_u64(2), rp_arg_u64(3));
}

static void *open_late(void *arg)
{
	(void)arg;
	gate_await_entered(0, 1);
	bed_give_a_chance();
	gate_open(0);
	return NULL;
}

static void room_for_arguments_comes_back_whatever_ran_between(void **state)
{
	uint32_t slots = 32;
	struct rp_worker_options options;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	options.task_ring_slots = slots;
	options.arg_ring_bytes = 4096;
	bed_open_with(&bed, &options);
	for (int round = 0; round < 5; round++) {
		pthread_t thread;

		board->gates[0] = board->entered[0] = 0;
		for (int i = 0; i < 16 + round; i++)
			assert_ok(bed_run(&bed, three_scalars, NULL));
		assert_int_equal(pthread_create(&thread, NULL, open_late, NULL), 0);
		assert_ok(bed_run(&bed, args_after_none, &slots));
		pthread_join(thread, NULL);
	}
	bed_close(&bed);
}

static int64_t *large_memory;

static int too_large(struct rp_run *run, void *arg)
{
	struct kept_error *wrong = arg;
	struct rp_arg args[65];
	int err;

	for (uint32_t i = 0; i < COUNT(args); i++)
		args[i] = rp_out(TENSOR(large_memory + i, RP_INT64, 1));
	/* 65 records of 64 bytes. */
	keep_error(wrong, bed_task(run, 0, ENTRY_EMPTY, args, COUNT(args)));
	/* The run goes on without it. What it would have written has its writers as
	 * before, and nobody waits for what was never sent. */
	err = TASK(run, 1, ENTRY_ADD, rp_inout(TENSOR(large_memory, RP_INT64, 1)),
		   rp_arg_i64(1));
	return err;
}

static int one_chip_then_too_large(struct rp_run *run, void *arg)
{
	int err = TASK(run, 1, ENTRY_GATE, rp_inout(TENSOR(large_memory, RP_INT64, 1)),
		       rp_arg_u64(0), rp_arg_i64(10));
	struct rp_arg args[65];

	if (err)
		return err;
	for (uint32_t i = 0; i < COUNT(args); i++)
		args[i] = rp_out(TENSOR(large_memory + i, RP_INT64, 1));
	keep_error(arg, bed_task(run, 0, ENTRY_EMPTY, args, COUNT(args)));
	/* Must come after chip 1 all the same. */
	return TASK(run, 0, ENTRY_ADD, rp_inout(TENSOR(large_memory, RP_INT64, 1)),
		    rp_arg_i64(1));
}

static void arguments_beyond_the_ring_are_refused_and_leave_no_trace(void **state)
{
	struct rp_worker_options options;
	struct rp_handle handle;
	struct kept_error wrong;
	struct bed bed;

	(void)state;
	large_memory = bed_shared(65 * 8, 0);
	bed_options(&options, 2);
	options.arg_ring_bytes = 4096;
	bed_open_with(&bed, &options);

	assert_ok(bed_submit(&bed, one_chip_then_too_large, &wrong, &handle));
	assert_int_equal(wrong.err, -ENOSPC);
	assert_non_null(strstr(wrong.line, "rp_run_task"));
	assert_non_null(strstr(wrong.line, "4160"));
	assert_non_null(strstr(wrong.line, "arg_ring_bytes is 4096"));
	bed_give_a_chance();
	assert_int_equal(large_memory[0], 0);
	gate_open(0);
	assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
	assert_int_equal(large_memory[0], 11);
	assert_ok(rp_handle_release(handle));

	assert_ok(bed_submit(&bed, too_large, &wrong, &handle));
	assert_int_equal(wrong.err, -ENOSPC);
	assert_int_equal(rp_handle_wait(handle, PATIENCE_NS), 0);
	assert_int_equal(large_memory[0], 12);
	bed_close(&bed);
	rp_shared_free(large_memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(more_tasks_than_the_rings_hold_press_back_and_all_run),
		PROCESS_TEST(room_for_arguments_comes_back_whatever_ran_between),
		PROCESS_TEST(arguments_beyond_the_ring_are_refused_and_leave_no_trace),
	};

	return cmocka_run_group_tests_name("rings", tests, NULL, NULL);
}
