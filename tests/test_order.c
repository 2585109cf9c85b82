/* SPDX-License-Identifier: MIT */
/*
 * The order of a run's tasks on several chips and callback workers, and rings that are
 * smaller than what goes through them. Order is shown by gates: a task that must wait is
 * given every chance to come too early.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#define WORDS 32

static void open_unified(struct bed *bed, uint32_t chips, bool unified)
{
	struct rp_worker_options options;

	bed_options(&options, chips);
	options.unified_memory = unified;
	bed_open_with(bed, &options);
}

/* A task that should be waiting gets this long to show that it is not. */
static void give_a_chance(void)
{
	for (int i = 0; i < 100; i++)
		bed_breathe();
}

/* --- Which chip -------------------------------------------------------------- */

static int pinned_and_free(struct rp_run *run, void *arg)
{
	static const int32_t chips[] = { 1, RP_CHIP_ANY, 1, RP_CHIP_ANY, RP_CHIP_ANY, 0 };

	(void)arg;
	for (uint32_t i = 0; i < COUNT(chips); i++) {
		int err = TASK(run, chips[i], ENTRY_NOTE, rp_arg_u64(i));

		if (err)
			return err;
	}
	return 0;
}

static void pinned_tasks_do_not_turn_the_rotation(void **state)
{
	static const uint32_t want[] = { 1, 0, 1, 1, 0, 0 };
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	/* From chip 0 in each run. */
	for (int round = 0; round < 3; round++) {
		atomic_store(&board->note_count, 0);
		assert_ok(bed_run(&bed, pinned_and_free, NULL));
		assert_int_equal(board->note_count, COUNT(want));
		for (uint32_t i = 0; i < COUNT(want); i++)
			assert_int_equal(board->notes[i].chip,
					 want[board->notes[i].word]);
	}
	bed_close(&bed);
}

static int round_and_round(struct rp_run *run, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < 24; i++) {
		int err = TASK(run, RP_CHIP_ANY, ENTRY_NOTE, rp_arg_u64(i));

		if (err)
			return err;
	}
	return 0;
}

static void unpinned_tasks_go_round_and_each_chip_keeps_their_order(void **state)
{
	(void)state;
	for (uint32_t chips = 1; chips <= 5; chips++) {
		uint32_t last[5] = { 0 };
		struct bed bed;

		atomic_store(&board->note_count, 0);
		bed_open(&bed, chips);
		assert_ok(bed_run(&bed, round_and_round, NULL));
		assert_int_equal(board->note_count, 24);
		for (uint32_t i = 0; i < 24; i++) {
			const struct note *note = &board->notes[i];

			assert_int_equal(note->chip, note->word % chips);
			assert_true(last[note->chip] <= note->word);
			last[note->chip] = note->word;
		}
		bed_close(&bed);
	}
}

/* --- What a task may be -------------------------------------------------------- */

struct wrong {
	int err;
	char line[512];
};

static void keep(struct wrong *wrong, int err)
{
	wrong->err = err;
	snprintf(wrong->line, sizeof(wrong->line), "%s", rp_last_error());
}

#define WRONGS 13

static int64_t *wrong_memory;

/* Every broken rule in one run, which goes on and succeeds. */
static int try_wrong_tasks(struct rp_run *run, void *arg)
{
	struct rp_tensor z = TENSOR(wrong_memory, RP_INT64, 8);
	struct rp_tensor head = TENSOR(wrong_memory, RP_INT64, 5);
	struct rp_tensor tail = TENSOR(wrong_memory + 4, RP_INT64, 4);
	struct rp_tensor heap = TENSOR(arg, RP_INT64, 1);
	struct rp_task flagged = { .entry = 0, .flags = 1 };
	struct rp_tensor bent = z;
	struct wrong *wrong = arg;
	struct rp_arg odd = rp_in(z);

	keep(wrong++, rp_run_task(run, NULL));
	keep(wrong++, bed_task(run, 0, ENTRY_COUNT, NULL, 0));
	keep(wrong++, bed_task(run, 2, 0, NULL, 0));
	keep(wrong++, bed_task(run, -2, 0, NULL, 0));
	keep(wrong++, rp_run_task(run, &flagged));
	keep(wrong++, bed_task(run, 0, 0, NULL, 1));
	odd.access = 4;
	keep(wrong++, TASK(run, 0, ENTRY_ADD, rp_arg_i64(1), odd));
	odd = rp_in(z);
	odd.kind = 7;
	keep(wrong++, TASK(run, 0, ENTRY_ADD, odd));
	bent.strides[0] = 0;
	keep(wrong++, TASK(run, 0, ENTRY_ADD, rp_arg_i64(1), rp_in(bent)));
	keep(wrong++, TASK(run, 0, ENTRY_COPY, rp_out(head), rp_inout(tail)));
	keep(wrong++, TASK(run, 0, ENTRY_ADD, rp_in(heap)));
	keep(wrong++, rp_run_callback(run, CALLBACK_COUNT, NULL, 0));
	keep(wrong++, CALL(run, CALLBACK_COPY, rp_out(head), rp_out(tail)));
	/* Overlapping where one is only read is fine. */
	return TASK(run, 0, ENTRY_EMPTY, rp_in(head), rp_inout(tail));
}

static void every_broken_rule_of_a_task_is_named(void **state)
{
	static const struct {
		int err;
		const char *needles[3];
	} want[WRONGS] = {
		{ -EINVAL, { "task NULL" } },
		{ -EINVAL, { "entry 10", "'support'", "10 entries" } },
		{ -EINVAL, { "chip 2", "expected 0..1", "RP_CHIP_ANY" } },
		{ -EINVAL, { "chip -2", "expected 0..1" } },
		{ -EINVAL, { "flags 0x1", "expected 0" } },
		{ -EINVAL, { "args NULL", "expected 1" } },
		{ -EINVAL, { "argument 1", "access 4", "expected RP_IN" } },
		{ -EINVAL, { "argument 0", "kind 7", "expected a tensor" } },
		{ -EINVAL, { "argument 1", "strides[0] 0", "expected 1 or more" } },
		{ -EINVAL, { "argument 1", "another argument" } },
		{ -EFAULT, { "argument 0", "not memory that the chips see" } },
		{ -EINVAL, { "callback 4", "'support'", "4 callbacks" } },
		{ -EINVAL, { "argument 1", "another argument" } },
	};
	static struct wrong wrong[WRONGS];
	struct bed bed;

	(void)state;
	wrong_memory = bed_shared(8 * 8, 0);
	bed_open(&bed, 2);
	assert_ok(bed_run(&bed, try_wrong_tasks, wrong));
	for (size_t k = 0; k < WRONGS; k++) {
		if (wrong[k].err != want[k].err)
			fail_msg("case %zu returned %d: \"%s\"", k, wrong[k].err,
				 wrong[k].line);
		check_line(
			__FILE__, __LINE__, wrong[k].line,
			(const char *[]){ k < 11 ? "rp_run_task: " : "rp_run_callback: ",
					  want[k].needles[0], want[k].needles[1],
					  want[k].needles[2], NULL });
	}
	assert_int_equal(bed_stats(&bed).tasks, 1);
	bed_close(&bed);
	rp_shared_free(wrong_memory);
}

static const struct rp_param grant_params[] = {
	{ .name = "weights",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_IN,
	  .rank = 1,
	  .shape = { 8 } },
	{ .name = "result",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_OUT,
	  .rank = 1,
	  .shape = { 8 } },
};

static struct wrong grants[3];

static int overstep(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		    void *user)
{
	struct rp_tensor corner = args[0].u.tensor;
	int err;

	(void)nargs;
	(void)user;
	if (args[0].access != RP_IN || args[1].access != RP_OUT)
		return -EPROTO;
	keep(&grants[0],
	     TASK(run, 0, ENTRY_ADD, rp_inout(args[0].u.tensor), rp_arg_i64(1)));
	err = rp_tensor_slice(&corner, 0, 7, 1, 1, &corner);
	keep(&grants[1], TASK(run, 0, ENTRY_ADD, rp_out(corner), rp_arg_i64(1)));
	/* What is written may be read back. */
	keep(&grants[2],
	     TASK(run, 0, ENTRY_COPY, rp_in(args[0].u.tensor), rp_out(args[1].u.tensor)));
	if (err || grants[2].err)
		return -EPROTO;
	return TASK(run, 0, ENTRY_ADD, rp_inout(args[1].u.tensor), rp_arg_i64(1));
}

static void a_task_may_do_no_more_than_the_parameter_grants(void **state)
{
	int64_t *weights = bed_shared(64, 0);
	int64_t *result = bed_shared(64, 0);
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	weights[7] = 77;
	bed_options(&options, 1);
	bed_describe(&desc, "grants", grant_params, COUNT(grant_params));
	desc.orchestrate = overstep;
	bed_prepare(&bed, &desc, &options);
	assert_ok(RUN(&bed, rp_arg_tensor(TENSOR(weights, RP_INT64, 8)),
		      rp_arg_tensor(TENSOR(result, RP_INT64, 8))));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(grants[i].err, -EACCES);
		assert_non_null(strstr(grants[i].line, "argument 0"));
		assert_non_null(strstr(grants[i].line, "'weights'"));
	}
	assert_int_equal(weights[7], 77);
	assert_int_equal(result[7], 78);
	bed_close(&bed);
	rp_shared_free(weights);
	rp_shared_free(result);
}

struct many {
	uint32_t tensors, scalars;
	int64_t *memory;
};

static int many_arguments(struct rp_run *run, void *arg)
{
	static struct rp_arg args[RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS + 2];
	struct many *many = arg;
	uint32_t count = 0;

	for (uint32_t i = 0; i < many->scalars; i++)
		args[count++] = rp_arg_u64(i ? i : 1000);
	for (uint32_t i = 0; i < many->tensors; i++)
		args[count++] = rp_inout(TENSOR(many->memory + i, RP_INT64, 1));
	return bed_task(run, 0, ENTRY_ADD, args, count);
}

static void a_task_takes_256_tensors_and_128_scalars_and_not_one_more(void **state)
{
	struct many many = { RP_MAX_TASK_TENSORS, RP_MAX_TASK_SCALARS, NULL };
	struct bed bed;

	(void)state;
	many.memory = bed_shared((RP_MAX_TASK_TENSORS + 1) * 8, 0);
	for (int unified = 0; unified < 2; unified++) {
		open_unified(&bed, 2, unified);
		memset(many.memory, 0, RP_MAX_TASK_TENSORS * 8);
		for (int round = 1; round < 4; round++) {
			assert_ok(bed_run(&bed, many_arguments, &many));
			for (int i = 0; i < RP_MAX_TASK_TENSORS; i++)
				assert_int_equal(many.memory[i], 1000 * round);
		}
		many.tensors++;
		assert_int_equal(bed_run(&bed, many_arguments, &many), -EINVAL);
		assert_says("rp_run_task", "385", "384");
		many.scalars--;
		assert_int_equal(bed_run(&bed, many_arguments, &many), -EINVAL);
		assert_says("257 tensors", "256");
		many.tensors = 1;
		many.scalars = RP_MAX_TASK_SCALARS + 1;
		assert_int_equal(bed_run(&bed, many_arguments, &many), -EINVAL);
		assert_says("129 scalars", "128");
		many = (struct many){ RP_MAX_TASK_TENSORS, RP_MAX_TASK_SCALARS,
				      many.memory };
		bed_close(&bed);
	}
	rp_shared_free(many.memory);
}

/* --- Small rings ------------------------------------------------------------ */

struct heap_of_tasks {
	int64_t *memory; /* one word for each chip */
	uint32_t tasks;
	uint32_t scalars; /* to fill the argument ring with */
};

static int enqueue_heap(struct rp_run *run, void *arg)
{
	struct heap_of_tasks *heap = arg;
	uint32_t chips = rp_run_chip_count(run);

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
					      .scalars = cases[k / 2].scalars };
		struct rp_worker_options options;
		struct rp_worker_stats stats;
		struct bed bed;

		memset(memory, 0, 2 * 8);
		bed_options(&options, chips);
		options.task_ring_slots = cases[k / 2].slots;
		options.arg_ring_bytes = cases[k / 2].arg_bytes;
		bed_open_with(&bed, &options);
		for (int round = 0; round < 2; round++)
			assert_ok(bed_run(&bed, enqueue_heap, &heap));
		assert_int_equal(memory[0] + (chips > 1 ? memory[1] : 0),
				 2 * heap.tasks / 5 * 4);
		stats = bed_stats(&bed);
		assert_int_equal(stats.tasks, 2 * heap.tasks);
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
	give_a_chance();
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
	struct wrong *wrong = arg;
	struct rp_arg args[65];
	int err;

	for (uint32_t i = 0; i < COUNT(args); i++)
		args[i] = rp_out(TENSOR(large_memory + i, RP_INT64, 1));
	/* 65 records of 64 bytes. */
	keep(wrong, bed_task(run, 0, ENTRY_EMPTY, args, COUNT(args)));
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
	keep(arg, bed_task(run, 0, ENTRY_EMPTY, args, COUNT(args)));
	/* Must come after chip 1 all the same. */
	return TASK(run, 0, ENTRY_ADD, rp_inout(TENSOR(large_memory, RP_INT64, 1)),
		    rp_arg_i64(1));
}

static void arguments_beyond_the_ring_are_refused_and_leave_no_trace(void **state)
{
	struct rp_worker_options options;
	struct rp_handle handle;
	struct wrong wrong;
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
	give_a_chance();
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

/* --- Order between chips ------------------------------------------------------ */

struct chain {
	int64_t *memory;
	uint32_t length;
};

/* Each task adds to what the one before wrote, on another chip, the first behind a
 * gate: whoever comes early adds to zeros. */
static int enqueue_chain(struct rp_run *run, void *arg)
{
	struct chain *chain = arg;
	uint32_t chips = rp_run_chip_count(run);
	int err = TASK(run, 0, ENTRY_GATE, rp_out(TENSOR(chain->memory, RP_INT64, WORDS)),
		       rp_arg_u64(0), rp_arg_i64(1));

	for (uint32_t i = 1; i < chain->length && !err; i++) {
		struct rp_tensor from =
			TENSOR(chain->memory + (i - 1) * WORDS, RP_INT64, WORDS);
		struct rp_tensor to = TENSOR(chain->memory + i * WORDS, RP_INT64, WORDS);

		err = TASK(run, (int32_t)(i % chips), ENTRY_COPY, rp_in(from),
			   rp_out(to));
		if (!err)
			err = TASK(run, (int32_t)((i + 1) % chips), ENTRY_ADD,
				   rp_inout(to), rp_arg_i64(1));
	}
	return err;
}

static void a_consumer_follows_its_producer_over_any_number_of_chips(void **state)
{
	enum {
		LENGTH = 12
	};
	struct chain chain = { .length = LENGTH };

	(void)state;
	chain.memory = bed_shared(LENGTH * WORDS * 8, 0);
	for (uint32_t k = 0; k < 8; k++) {
		uint32_t chips = 1 + k / 2;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		memset(chain.memory, 0, LENGTH * WORDS * 8);
		open_unified(&bed, chips, k & 1);
		for (int round = 0; round < 10; round++) {
			atomic_store(&board->gates[0], round > 1);
			assert_ok(bed_submit(&bed, enqueue_chain, &chain, &handle));
			if (round < 2) {
				/* Asleep by now, those that may. */
				give_a_chance();
				gate_open(0);
			}
			assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
			assert_ok(rp_handle_release(handle));
			for (int i = 0; i < LENGTH * WORDS; i++)
				assert_int_equal(chain.memory[i], 1 + i / WORDS);
		}
		bed_close(&bed);
	}
	rp_shared_free(chain.memory);
}

static int one_row_each(struct rp_run *run, void *arg)
{
	struct rp_tensor rows[2];
	int err;

	for (int64_t i = 0; i < 2; i++) {
		rows[i] = TENSOR(arg, RP_INT64, 2, WORDS);
		err = rp_tensor_slice(&rows[i], 0, i, 1, 1, &rows[i]);
		if (err)
			return err;
	}
	/* Chip 0 waits for chip 1, then chip 1 for chip 0. */
	err = TASK(run, 0, ENTRY_GATE, rp_inout(rows[0]), rp_arg_u64(0), rp_arg_i64(1));
	if (!err)
		err = TASK(run, 1, ENTRY_OPEN, rp_inout(rows[1]), rp_arg_u64(0));
	if (!err)
		err = TASK(run, 1, ENTRY_GATE, rp_inout(rows[1]), rp_arg_u64(1),
			   rp_arg_i64(2));
	if (!err)
		err = TASK(run, 0, ENTRY_OPEN, rp_inout(rows[0]), rp_arg_u64(1));
	return err;
}

static int one_column_each(struct rp_run *run, void *arg)
{
	struct rp_tensor columns[2];
	int err;

	for (int64_t i = 0; i < 2; i++) {
		columns[i] = TENSOR(arg, RP_INT64, 2, WORDS);
		err = rp_tensor_slice(&columns[i], 1, i, WORDS / 2, 2, &columns[i]);
		if (err)
			return err;
	}
	err = TASK(run, 0, ENTRY_GATE, rp_inout(columns[0]), rp_arg_u64(0),
		   rp_arg_i64(1));
	if (!err)
		err = TASK(run, 1, ENTRY_OPEN, rp_inout(columns[1]), rp_arg_u64(0));
	return err;
}

static void tasks_on_disjoint_parts_of_one_tensor_are_independent(void **state)
{
	int64_t *memory = bed_shared(2 * WORDS * 8, 0);

	(void)state;
	for (int k = 0; k < 4; k++) {
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		memset(memory, 0, 2 * WORDS * 8);
		open_unified(&bed, 2, k & 1);
		assert_ok(bed_submit(&bed, k & 2 ? one_column_each : one_row_each, memory,
				     &handle));
		assert_int_equal(rp_handle_wait(handle, PATIENCE_NS), 0);
		for (int i = 0; i < 2 * WORDS; i++)
			assert_int_equal(memory[i], k & 2 ? 1 - i % 2 : 1 + i / WORDS);
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

/* x is read behind a gate on chip 0, then overwritten on chip 1. */
struct reader {
	int64_t *x, *y;
	bool gate_first;
};

static int overwrite_what_is_read(struct rp_run *run, void *arg)
{
	struct reader *reader = arg;
	struct rp_tensor x = TENSOR(reader->x, RP_INT64, WORDS);
	struct rp_tensor y = TENSOR(reader->y, RP_INT64, WORDS);
	int err;

	/* Not before this gate does chip 0 take x. */
	err = TASK(run, 0, ENTRY_GATE, rp_arg_u64(0));
	if (!err)
		err = TASK(run, 0, ENTRY_COPY, rp_in(x), rp_out(y));
	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_out(x), rp_arg_i64(-1));
	return err;
}

static void a_writer_waits_until_a_slow_reader_has_its_inputs(void **state)
{
	struct reader reader = { .x = bed_shared(WORDS * 8, 0),
				 .y = bed_shared(WORDS * 8, 0) };

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_handle handle;
		struct bed bed;

		open_unified(&bed, 2, unified);
		for (int round = 0; round < 3; round++) {
			board->gates[0] = board->entered[0] = 0;
			for (int i = 0; i < WORDS; i++)
				reader.x[i] = 500 + i;
			assert_ok(bed_submit(&bed, overwrite_what_is_read, &reader,
					     &handle));
			gate_await_entered(0, 1);
			give_a_chance();
			assert_int_equal(reader.x[0], 500);
			gate_open(0);
			assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
			assert_ok(rp_handle_release(handle));
			for (int i = 0; i < WORDS; i++) {
				assert_int_equal(reader.y[i], 500 + i);
				assert_int_equal(reader.x[i], -1);
			}
		}
		bed_close(&bed);
	}
	rp_shared_free(reader.x);
	rp_shared_free(reader.y);
}

/*
 * Chip 0 takes x, but only after it has waited for chip 2; then it waits for what chip 1
 * does once it has overwritten x. Nothing of chip 0 ends meanwhile: chip 1 must hear of
 * the inputs alone.
 */
static int reader_waits_for_the_writer(struct rp_run *run, void *arg)
{
	int64_t *memory = arg;
	struct rp_tensor x = TENSOR(memory, RP_INT64, WORDS);
	struct rp_tensor w = TENSOR(memory + WORDS, RP_INT64, WORDS);
	int err;

	err = TASK(run, 2, ENTRY_GATE, rp_out(w), rp_arg_u64(0));
	if (!err)
		err = TASK(run, 0, ENTRY_GATE, rp_in(x), rp_in(w), rp_arg_u64(1));
	if (!err)
		err = TASK(run, 1, ENTRY_OPEN, rp_out(x), rp_arg_u64(1));
	return err;
}

static void a_writer_that_sleeps_hears_that_the_inputs_are_taken(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_SPIN, RP_WAIT_HYBRID,
							RP_WAIT_BLOCK };
	int64_t *memory = bed_shared(2 * WORDS * 8, 0);

	(void)state;
	for (size_t k = 0; k < COUNT(policies); k++) {
		struct rp_worker_options options;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		bed_options(&options, 3);
		options.worker_wait = policies[k];
		bed_open_with(&bed, &options);
		assert_ok(bed_submit(&bed, reader_waits_for_the_writer, memory, &handle));
		gate_await_entered(0, 1);
		/* Chip 1 goes to sleep over chip 0's inputs. */
		give_a_chance();
		gate_open(0);
		assert_int_equal(rp_handle_wait(handle, PATIENCE_NS), 0);
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

/* --- Callbacks --------------------------------------------------------------- */

static int produce_then_call(struct rp_run *run, void *arg)
{
	int64_t *memory = arg;
	struct rp_tensor x = TENSOR(memory, RP_INT64, WORDS);
	struct rp_tensor y = TENSOR(memory + WORDS, RP_INT64, WORDS);
	int err;

	err = TASK(run, 0, ENTRY_GATE, rp_out(x), rp_arg_u64(0), rp_arg_i64(7));
	if (!err)
		err = CALL(run, CALLBACK_COPY, rp_in(x), rp_out(y));
	/* And a chip after the callback. */
	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(y), rp_arg_i64(1));
	return err;
}

static void a_callback_follows_its_producers_and_is_followed(void **state)
{
	int64_t *memory = bed_shared(2 * WORDS * 8, 0);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_stats stats;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		memset(memory, 0x55, 2 * WORDS * 8);
		open_unified(&bed, 2, unified);
		assert_ok(bed_submit(&bed, produce_then_call, memory, &handle));
		gate_await_entered(0, 1);
		give_a_chance();
		assert_int_equal(memory[WORDS], 0x5555555555555555);
		gate_open(0);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		for (int i = 0; i < WORDS; i++) {
			assert_int_equal(memory[i], 7);
			assert_int_equal(memory[WORDS + i], 8);
		}
		/* In place: of the callback's arguments nothing crossed. */
		stats = bed_stats(&bed);
		assert_int_equal(stats.bytes_to_device, unified ? 0 : WORDS * 8);
		assert_int_equal(stats.bytes_from_device, unified ? 0 : 2 * WORDS * 8);
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

/* The callback reads x in place, at its leisure; chip 0 writes x after it. */
static int overwrite_under_a_callback(struct rp_run *run, void *arg)
{
	int64_t *memory = arg;
	struct rp_tensor x = TENSOR(memory, RP_INT64, WORDS);
	struct rp_tensor early = TENSOR(memory + WORDS, RP_INT64, WORDS);
	struct rp_tensor late = TENSOR(memory + 2 * WORDS, RP_INT64, WORDS);
	int err;

	err = CALL(run, CALLBACK_GATE_COPY, rp_in(x), rp_out(early), rp_out(late),
		   rp_arg_u64(0));
	if (!err)
		err = TASK(run, 0, ENTRY_ADD, rp_out(x), rp_arg_i64(-1));
	return err;
}

static void a_writer_waits_until_a_callback_that_reads_has_ended(void **state)
{
	int64_t *memory = bed_shared(3 * WORDS * 8, 0);

	(void)state;
	for (int k = 0; k < 4; k++) {
		struct rp_worker_options options;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		for (int i = 0; i < WORDS; i++)
			memory[i] = 40 + i;
		bed_options(&options, 1);
		options.unified_memory = k & 1;
		/* Awake it looks for itself, asleep it has to be told. */
		options.worker_wait = k & 2 ? RP_WAIT_BLOCK : RP_WAIT_SPIN;
		bed_open_with(&bed, &options);
		assert_ok(bed_submit(&bed, overwrite_under_a_callback, memory, &handle));
		gate_await_entered(0, 1);
		give_a_chance();
		gate_open(0);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		for (int i = 0; i < WORDS; i++) {
			assert_int_equal(memory[WORDS + i], 40 + i);
			assert_int_equal(memory[2 * WORDS + i], 40 + i);
			assert_int_equal(memory[i], -1);
		}
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

static int fail_in_a_callback(struct rp_run *run, void *arg)
{
	int err;

	(void)arg;
	err = CALL(run, CALLBACK_FAIL, rp_arg_i64(-ENOLINK));
	return err ? err : CALL(run, CALLBACK_NOTE, rp_arg_i64(3));
}

static int call_twice(struct rp_run *run, void *arg)
{
	int err;

	(void)arg;
	err = CALL(run, CALLBACK_NOTE, rp_arg_i64(1));
	return err ? err : CALL(run, CALLBACK_NOTE, rp_arg_i64(2));
}

static void a_callback_that_fails_ends_its_run_by_name(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	for (int round = 0; round < 3; round++) {
		atomic_store(&board->note_count, 0);
		assert_int_equal(bed_run(&bed, fail_in_a_callback, NULL), -ENOLINK);
		assert_says("callback 'fail-back' of 'support'", "callback worker 0",
			    "the callback was told to fail with -67");
		assert_int_equal(board->note_count, 0);
		assert_ok(bed_run(&bed, call_twice, NULL));
		assert_int_equal(board->note_count, 2);
		assert_int_equal(board->notes[0].word, 1);
		assert_int_equal(board->notes[1].word, 2);
		assert_int_equal(board->notes[1].chip, NOTE_CALLBACK);
	}
	bed_close(&bed);
}

static pid_t whoever;
static int64_t *pids;

static int tell_pid(struct rp_callback_context *context, const struct rp_arg *args,
		    size_t nargs, void *user)
{
	(void)context;
	(void)args;
	(void)nargs;
	*(int64_t *)user = getpid();
	return 0;
}

static int call_each(struct rp_run *run, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < 3; i++) {
		int err = rp_run_callback(run, i, NULL, 0);

		if (err)
			return err;
	}
	return 0;
}

static void callbacks_run_in_processes_of_their_own(void **state)
{
	struct rp_callback callbacks[3];
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	whoever = getpid();
	pids = bed_shared(3 * 8, 0);
	for (int i = 0; i < 3; i++)
		callbacks[i] = (struct rp_callback){ "tell", tell_pid, &pids[i] };
	for (uint32_t workers = 0; workers <= 3; workers++) {
		uint32_t processes = workers ? workers : 3;

		memset(pids, 0, 3 * 8);
		bed_options(&options, 2);
		bed_describe(&desc, "pids", NULL, 0);
		desc.callbacks = callbacks;
		desc.callback_count = 3;
		desc.callback_workers = workers;
		bed_prepare(&bed, &desc, &options);
		assert_ok(bed_run(&bed, call_each, NULL));
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_not_equal(pids[i], whoever);
			assert_int_equal(pids[i],
					 rp_worker_pid(bed.worker, 2 + i % processes));
		}
		assert_int_equal(rp_worker_pid(bed.worker, 2 + processes), 0);
		bed_close(&bed);
	}
	rp_shared_free(pids);
}

#define PROCESS_TEST(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(pinned_tasks_do_not_turn_the_rotation),
		PROCESS_TEST(unpinned_tasks_go_round_and_each_chip_keeps_their_order),
		PROCESS_TEST(every_broken_rule_of_a_task_is_named),
		PROCESS_TEST(a_task_may_do_no_more_than_the_parameter_grants),
		PROCESS_TEST(a_task_takes_256_tensors_and_128_scalars_and_not_one_more),
		PROCESS_TEST(more_tasks_than_the_rings_hold_press_back_and_all_run),
		PROCESS_TEST(room_for_arguments_comes_back_whatever_ran_between),
		PROCESS_TEST(arguments_beyond_the_ring_are_refused_and_leave_no_trace),
		PROCESS_TEST(a_consumer_follows_its_producer_over_any_number_of_chips),
		PROCESS_TEST(tasks_on_disjoint_parts_of_one_tensor_are_independent),
		PROCESS_TEST(a_writer_waits_until_a_slow_reader_has_its_inputs),
		PROCESS_TEST(a_writer_that_sleeps_hears_that_the_inputs_are_taken),
		PROCESS_TEST(a_callback_follows_its_producers_and_is_followed),
		PROCESS_TEST(a_writer_waits_until_a_callback_that_reads_has_ended),
		PROCESS_TEST(a_callback_that_fails_ends_its_run_by_name),
		PROCESS_TEST(callbacks_run_in_processes_of_their_own),
	};

	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
