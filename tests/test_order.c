/* SPDX-License-Identifier: MIT */
/*
 * The order of a run's tasks on several chips. It is shown by gates: a task that must
 * wait is given every chance to come too early.
 */
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define WORDS 32

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
		bed_open_unified(&bed, chips, k & 1);
		for (int round = 0; round < 10; round++) {
			atomic_store(&board->gates[0], round > 1);
			assert_ok(bed_submit(&bed, enqueue_chain, &chain, &handle));
			if (round < 2) {
				/* Asleep by now, those that may. */
				bed_give_a_chance();
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
		bed_open_unified(&bed, 2, k & 1);
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

		bed_open_unified(&bed, 2, unified);
		for (int round = 0; round < 3; round++) {
			board->gates[0] = board->entered[0] = 0;
			for (int i = 0; i < WORDS; i++)
				reader.x[i] = 500 + i;
			assert_ok(bed_submit(&bed, overwrite_what_is_read, &reader,
					     &handle));
			gate_await_entered(0, 1);
			bed_give_a_chance();
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
		bed_give_a_chance();
		gate_open(0);
		assert_int_equal(rp_handle_wait(handle, PATIENCE_NS), 0);
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(pinned_tasks_do_not_turn_the_rotation),
		PROCESS_TEST(unpinned_tasks_go_round_and_each_chip_keeps_their_order),
		PROCESS_TEST(a_consumer_follows_its_producer_over_any_number_of_chips),
		PROCESS_TEST(tasks_on_disjoint_parts_of_one_tensor_are_independent),
		PROCESS_TEST(a_writer_waits_until_a_slow_reader_has_its_inputs),
		PROCESS_TEST(a_writer_that_sleeps_hears_that_the_inputs_are_taken),
	};

	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
