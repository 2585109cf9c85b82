/* SPDX-License-Identifier: MIT */
/*
 * The lane, both ends in one thread, so that every interleaving is chosen here: what
 * was sent arrives once, in order, with its arguments whole; a full lane says so, and
 * one whose tasks have all ended has room for anything that fits at all.
 */
#include "dispatch/lane.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

#define ARG_BYTES 4096
#define ARG_UNIT  16

struct pair {
	struct rpi_peer *peer;
	void *memory;
	struct rpi_peer *peers;
	struct rpi_rouser rouser;
	struct rpi_lane lane;
	struct rpi_lane_rx rx;
	uint64_t received; /* tasks taken and ended */
	uint64_t sent;
};

static void *aligned(size_t bytes)
{
	void *memory =
		aligned_alloc(RPI_SHARE_ALIGN, (bytes + RPI_SHARE_ALIGN - 1) /
						       RPI_SHARE_ALIGN * RPI_SHARE_ALIGN);

	assert_non_null(memory);
	memset(memory, 0, bytes);
	return memory;
}

static void pair_open(struct pair *pair, uint32_t capacity, size_t arg_bytes)
{
	struct rpi_lane_memory at;

	memset(pair, 0, sizeof(*pair));
	pair->peers = aligned(sizeof(*pair->peers));
	pair->memory = aligned(rpi_lane_bytes(capacity, arg_bytes));
	pair->rouser.peers = pair->peers;
	pair->rouser.peer_count = 1;
	assert_ok(rpi_lane_carve(pair->memory, pair->peers, capacity, arg_bytes, &at));
	assert_ok(rpi_lane_init(&pair->lane, &at, &pair->rouser, 0));
	rpi_lane_rx_init(&pair->rx, &at);
}

static void pair_close(struct pair *pair)
{
	rpi_lane_fini(&pair->lane);
	free(pair->memory);
	free(pair->peers);
}

/* Send task number `sent + 1`, whose arguments repeat its number. */
static void pair_send(struct pair *pair, size_t arg_bytes, bool first_of_run)
{
	uint64_t number = ++pair->sent;
	struct rpi_task_body body = { .op = RPI_OP_RUN,
				      .arg_count = (uint16_t)(arg_bytes / ARG_UNIT),
				      .run_seq = number };

	assert_true(rpi_lane_has_room(&pair->lane, arg_bytes));
	if (arg_bytes) {
		uint64_t *at = rpi_lane_args(&pair->lane, arg_bytes, &body.args_at);

		assert_true(body.args_at % ARG_UNIT == 0);
		assert_true(body.args_at + arg_bytes <= pair->lane.at.arg_bytes);
		for (size_t i = 0; i < arg_bytes / sizeof(*at); i++)
			at[i] = number * 1000003 + i;
	}
	if (first_of_run) {
		rpi_lane_flush(&pair->lane);
		pair->lane.lone_next = true;
	}
	assert_int_equal(rpi_lane_send(&pair->lane, &body), number);
}

/* Take one task, if there is one, look at it, and say that it has ended. */
static bool pair_take(struct pair *pair)
{
	const struct rpi_task_body *body = rpi_lane_rx_poll(&pair->rx);
	const uint64_t *at;
	uint64_t number;

	if (!body)
		return false;
	number = pair->received + 1;
	assert_int_equal(body->run_seq, number);
	at = (const uint64_t *)(const void *)(pair->rx.at.args + body->args_at);
	for (size_t i = 0; i < body->arg_count * (size_t)ARG_UNIT / sizeof(*at); i++)
		assert_int_equal(at[i], number * 1000003 + i);
	rpi_lane_rx_next(&pair->rx, body);
	pair->received = number;
	atomic_store(&pair->peers->done_seq, number);
	return true;
}

static void pair_drain(struct pair *pair)
{
	rpi_lane_flush(&pair->lane);
	while (pair_take(pair))
		;
	assert_int_equal(pair->received, pair->sent);
}

static void the_first_task_of_a_run_is_seen_at_once(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 4, ARG_BYTES);
	assert_null(rpi_lane_rx_poll(&pair.rx));
	pair_send(&pair, 32, true);
	assert_true(pair_take(&pair));
	assert_false(pair_take(&pair));
	pair_close(&pair);
}

static void later_tasks_of_a_run_are_seen_after_a_flush_or_a_full_group(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 64, ARG_BYTES);
	pair_send(&pair, 0, true);
	assert_true(pair_take(&pair));
	for (int i = 0; i < RPI_LANE_GROUP - 1; i++)
		pair_send(&pair, 16, false);
	assert_false(pair_take(&pair));
	pair_send(&pair, 16, false);
	assert_true(pair_take(&pair));
	pair_drain(&pair);
	pair_send(&pair, 16, false);
	assert_false(pair_take(&pair));
	rpi_lane_flush(&pair.lane);
	assert_true(pair_take(&pair));
	assert_int_equal(atomic_load(&pair.lane.published_seq), pair.sent);
	pair_close(&pair);
}

/* Send tasks of one run until the process sees some; how many it sees. */
static uint32_t next_group(struct pair *pair)
{
	uint32_t count = 0;

	do
		pair_send(pair, 16, false);
	while (!rpi_lane_rx_poll(&pair->rx));
	while (pair_take(pair))
		count++;
	return count;
}

static void groups_follow_how_fast_tasks_come(void **state)
{
	static const uint32_t quick[] = { 8, 8, 16, 32, 32, 32 };
	static const uint32_t slow[] = { 8, 8, 4, 2, 1, 1, 1 };
	struct pair pair;

	(void)state;
	pair_open(&pair, 64, ARG_BYTES);
	for (int run = 0; run < 3; run++) {
		pair_send(&pair, 0, true);
		assert_true(pair_take(&pair));
		pair.lane.group_patience = UINT64_MAX;
		for (size_t i = 0; i < COUNT(quick); i++)
			assert_int_equal(next_group(&pair), quick[i]);
		/* And each run begins anew. */
		pair_send(&pair, 0, true);
		assert_true(pair_take(&pair));
		pair.lane.group_patience = 0;
		for (size_t i = 0; i < COUNT(slow); i++)
			assert_int_equal(next_group(&pair), slow[i]);
	}
	/* Slow ones that become quick. */
	pair.lane.group_patience = UINT64_MAX;
	assert_int_equal(next_group(&pair), 1);
	assert_int_equal(next_group(&pair), 2);
	assert_int_equal(next_group(&pair), 4);
	pair_close(&pair);
}

static void it_holds_exactly_its_capacity(void **state)
{
	static const uint32_t capacities[] = { 4, 8, 16, 64 };

	(void)state;
	for (size_t k = 0; k < COUNT(capacities); k++) {
		struct pair pair;

		pair_open(&pair, capacities[k], ARG_BYTES);
		for (uint32_t round = 0; round < 5; round++) {
			for (uint32_t i = 0; i < capacities[k]; i++)
				pair_send(&pair, 0, i == round);
			assert_false(rpi_lane_has_room(&pair.lane, 0));
			rpi_lane_flush(&pair.lane);
			assert_true(pair_take(&pair));
			assert_true(rpi_lane_has_room(&pair.lane, 0));
			pair_send(&pair, 0, false);
			assert_false(rpi_lane_has_room(&pair.lane, 0));
			pair_drain(&pair);
		}
		pair_close(&pair);
	}
}

static void arguments_may_take_the_whole_ring_and_not_one_unit_more(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 8, ARG_BYTES);
	assert_false(rpi_lane_has_room(&pair.lane, ARG_BYTES + ARG_UNIT));
	for (int i = 0; i < 3; i++) {
		/* From wherever the one before left the ring. */
		pair_send(&pair, (size_t)ARG_UNIT * (size_t)(i + 1), i == 1);
		assert_false(rpi_lane_has_room(&pair.lane, ARG_BYTES));
		pair_drain(&pair);
		pair_send(&pair, ARG_BYTES, false);
		assert_false(rpi_lane_has_room(&pair.lane, ARG_UNIT));
		assert_true(rpi_lane_has_room(&pair.lane, 0));
		pair_drain(&pair);
	}
	pair_close(&pair);
}

/* The state in which room by slots and room by bytes come apart: the bytes are all
 * free while tasks without arguments are not. */
static void bytes_come_back_when_only_tasks_without_arguments_are_left(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 2 * RPI_LANE_SLOTS, ARG_BYTES);
	/* Use each slot once, so that the next lone task looks at what has ended. */
	for (uint32_t i = 0; i < RPI_LANE_SLOTS; i++) {
		pair_send(&pair, 0, true);
		pair_drain(&pair);
	}
	pair_send(&pair, 112, false);
	pair_drain(&pair);
	for (uint32_t i = 0; i < 2 * RPI_LANE_SLOTS; i++)
		pair_send(&pair, 0, i == 0);
	assert_false(rpi_lane_has_room(&pair.lane, ARG_BYTES));
	rpi_lane_flush(&pair.lane);
	assert_true(pair_take(&pair));
	assert_true(rpi_lane_has_room(&pair.lane, ARG_BYTES));
	pair_drain(&pair);
	assert_true(rpi_lane_has_room(&pair.lane, ARG_BYTES));
	pair_close(&pair);
}

static void a_done_word_past_what_was_sent_is_not_believed(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 4, ARG_BYTES);
	for (int i = 0; i < 4; i++)
		pair_send(&pair, ARG_BYTES / 4, i == 0);
	atomic_store(&pair.peers->done_seq, UINT64_MAX);
	assert_false(rpi_lane_has_room(&pair.lane, 0));
	atomic_store(&pair.peers->done_seq, 5);
	assert_false(rpi_lane_has_room(&pair.lane, 0));
	/* Back, as no honest process goes. */
	atomic_store(&pair.peers->done_seq, 2);
	assert_true(rpi_lane_has_room(&pair.lane, ARG_BYTES / 4));
	atomic_store(&pair.peers->done_seq, 1);
	assert_true(rpi_lane_has_room(&pair.lane, ARG_BYTES / 4));
	pair_close(&pair);
}

/* A lone task that waits behind grouped ones, and the other way round. */
static void slots_and_groups_are_merged_in_order(void **state)
{
	struct pair pair;
	uint32_t pattern;

	(void)state;
	/* Bit i: task i is the first of its run. */
	for (pattern = 0; pattern < 1u << 10; pattern++) {
		pair_open(&pair, 16, ARG_BYTES);
		for (uint32_t i = 0; i < 10; i++)
			pair_send(&pair, 16 * (i % 3), pattern >> i & 1);
		pair_drain(&pair);
		pair_close(&pair);
	}
}

static size_t random_bytes(uint64_t *seed, size_t arg_bytes, int step)
{
	uint64_t kind = bed_random(seed) % 8;

	/* Long stretches without any arguments. */
	if (kind < 3 || step / 200 % 2)
		return kind == 7 && !(bed_random(seed) % 16) ? arg_bytes : 0;
	if (kind == 7)
		return bed_random(seed) % (arg_bytes / ARG_UNIT + 1) * ARG_UNIT;
	return bed_random(seed) % 12 * ARG_UNIT;
}

static void any_mix_arrives_once_in_order_and_whole(void **state)
{
	static const struct {
		uint32_t capacity;
		size_t arg_bytes;
	} cases[] = {
		{ 4, 4096 }, { 4, 4224 }, { 16, 4096 }, { 64, 8192 }, { 256, 4096 }
	};
	uint64_t seed = 20;

	(void)state;
	for (size_t k = 0; k < COUNT(cases) * 40; k++) {
		size_t arg_bytes = cases[k % COUNT(cases)].arg_bytes;
		/* Mostly full, then mostly empty. */
		uint64_t eager = k & 1 ? 2 : 6;
		struct pair pair;

		pair_open(&pair, cases[k % COUNT(cases)].capacity, arg_bytes);
		for (int step = 0; step < 2000; step++) {
			size_t bytes;

			if (bed_random(&seed) % 8 >= eager) {
				pair_take(&pair);
				continue;
			}
			bytes = random_bytes(&seed, arg_bytes, step);
			if (rpi_lane_has_room(&pair.lane, bytes)) {
				pair_send(&pair, bytes, bed_random(&seed) % 3 == 0);
				continue;
			}
			/* As the submitter does: what is held back goes out first. */
			rpi_lane_flush(&pair.lane);
			while (!rpi_lane_has_room(&pair.lane, bytes))
				assert_true(pair_take(&pair));
		}
		pair_drain(&pair);
		assert_true(rpi_lane_has_room(&pair.lane, arg_bytes));
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_task_of_a_run_is_seen_at_once),
		cmocka_unit_test(
			later_tasks_of_a_run_are_seen_after_a_flush_or_a_full_group),
		cmocka_unit_test(groups_follow_how_fast_tasks_come),
		cmocka_unit_test(it_holds_exactly_its_capacity),
		cmocka_unit_test(arguments_may_take_the_whole_ring_and_not_one_unit_more),
		cmocka_unit_test(
			bytes_come_back_when_only_tasks_without_arguments_are_left),
		cmocka_unit_test(a_done_word_past_what_was_sent_is_not_believed),
		cmocka_unit_test(slots_and_groups_are_merged_in_order),
		cmocka_unit_test(any_mix_arrives_once_in_order_and_whole),
	};

	return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
