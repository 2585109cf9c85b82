/* SPDX-License-Identifier: MIT */
/* The arena of small blocks: its notes alone, no memory behind them. */
#include "region/arena.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t seed;

/* splitmix64 */
static uint64_t next_random(void)
{
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void an_arena_holds_its_bytes_exactly(void **state)
{
	struct rpi_arena *arena = calloc(1, sizeof(*arena));
	size_t offset, at;

	(void)state;
	for (at = 0; at < RPI_ARENA_BYTES; at += RPI_ARENA_UNIT) {
		assert_true(rpi_arena_take(
			arena, at / RPI_ARENA_UNIT % 2 ? 1 : RPI_ARENA_UNIT, &offset));
		assert_int_equal(offset, at);
	}
	assert_false(rpi_arena_take(arena, 1, &offset));
	/* Two neighbours make room for what neither could hold. */
	assert_true(rpi_arena_give(arena, 5 * RPI_ARENA_UNIT));
	assert_true(rpi_arena_give(arena, 9 * RPI_ARENA_UNIT));
	assert_false(rpi_arena_take(arena, RPI_ARENA_UNIT + 1, &offset));
	assert_true(rpi_arena_give(arena, 4 * RPI_ARENA_UNIT));
	assert_true(rpi_arena_take(arena, RPI_ARENA_UNIT + 1, &offset));
	assert_int_equal(offset, 4 * RPI_ARENA_UNIT);
	assert_int_equal(rpi_arena_asked(arena, offset), RPI_ARENA_UNIT + 1);
	assert_int_equal(rpi_arena_asked(arena, offset + RPI_ARENA_UNIT), 0);
	assert_false(rpi_arena_give(arena, offset + RPI_ARENA_UNIT));
	assert_true(rpi_arena_take(arena, 1, &offset));
	assert_int_equal(offset, 9 * RPI_ARENA_UNIT);
	free(arena);
}

static void an_arena_can_be_one_block(void **state)
{
	struct rpi_arena *arena = calloc(1, sizeof(*arena));
	size_t offset = 1;

	(void)state;
	assert_true(rpi_arena_take(arena, RPI_ARENA_BYTES, &offset));
	assert_int_equal(offset, 0);
	assert_false(rpi_arena_take(arena, 1, &offset));
	assert_false(rpi_arena_give(arena, RPI_ARENA_BYTES));
	assert_false(rpi_arena_give(arena, 1));
	assert_true(rpi_arena_give(arena, 0));
	assert_false(rpi_arena_give(arena, 0));
	assert_int_equal(arena->used_units, 0);
	free(arena);
}

static void nothing_but_the_start_of_a_block_is_one(void **state)
{
	struct rpi_arena *arena = calloc(1, sizeof(*arena));
	size_t offset;
	static const size_t wrong[] = {
		1,
		RPI_ARENA_UNIT - 1,
		RPI_ARENA_UNIT,
		2 * RPI_ARENA_UNIT,
		4 * RPI_ARENA_UNIT,
		RPI_ARENA_BYTES - RPI_ARENA_UNIT,
		RPI_ARENA_BYTES,
		RPI_ARENA_BYTES + RPI_ARENA_UNIT,
		SIZE_MAX - RPI_ARENA_UNIT + 1,
		SIZE_MAX,
	};

	(void)state;
	assert_true(rpi_arena_take(arena, 3 * RPI_ARENA_UNIT, &offset));
	assert_int_equal(offset, 0);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		assert_int_equal(rpi_arena_asked(arena, wrong[i]), 0);
		assert_false(rpi_arena_give(arena, wrong[i]));
	}
	assert_int_equal(rpi_arena_asked(arena, 0), 3 * RPI_ARENA_UNIT);
	assert_true(rpi_arena_give(arena, 0));
	assert_false(rpi_arena_give(arena, 0));
	assert_int_equal(arena->used_units, 0);
	free(arena);
}

/* The model: the number of the block that each unit belongs to, 0 for none. */
struct model {
	uint32_t owner[RPI_ARENA_UNITS];
};

/* The lowest run of free units that is long enough; RPI_ARENA_UNITS when none is. */
static uint32_t first_fit(const struct model *model, uint32_t need)
{
	for (uint32_t at = 0; at + need <= RPI_ARENA_UNITS; at++) {
		uint32_t run = 0;

		while (run < need && !model->owner[at + run])
			run++;
		if (run == need)
			return at;
		at += run;
	}
	return RPI_ARENA_UNITS;
}

#define LIVE_MAX 400

static void random_life_takes_the_first_fit_each_time(void **state)
{
	struct rpi_arena *arena = calloc(1, sizeof(*arena));
	struct model *model = calloc(1, sizeof(*model));
	struct {
		size_t offset, bytes;
	} blocks[LIVE_MAX];
	uint32_t used = 0;
	size_t count = 0;

	(void)state;
	for (uint32_t step = 1; step <= 20000; step++) {
		/* Mostly full, then mostly empty. */
		bool grow = next_random() % 100 < (step / 4000 % 2 ? 35 : 70);

		if (count < LIVE_MAX && (grow || !count)) {
			size_t bytes = 1 + next_random() % (step % 50 ? 16384 : 524288);
			uint32_t need =
				(uint32_t)((bytes + RPI_ARENA_UNIT - 1) / RPI_ARENA_UNIT);
			uint32_t want = first_fit(model, need);
			size_t offset = SIZE_MAX;

			assert_int_equal(rpi_arena_take(arena, bytes, &offset),
					 want < RPI_ARENA_UNITS);
			if (want == RPI_ARENA_UNITS) {
				assert_int_equal(offset, SIZE_MAX);
				continue;
			}
			assert_int_equal(offset, want * RPI_ARENA_UNIT);
			for (uint32_t i = want; i < want + need; i++)
				model->owner[i] = step;
			used += need;
			blocks[count].offset = offset;
			blocks[count++].bytes = bytes;
		} else {
			size_t i = next_random() % count;
			size_t first = blocks[i].offset / RPI_ARENA_UNIT;
			uint32_t owner = model->owner[first];

			assert_int_equal(rpi_arena_asked(arena, blocks[i].offset),
					 blocks[i].bytes);
			assert_true(rpi_arena_give(arena, blocks[i].offset));
			for (; first < RPI_ARENA_UNITS && model->owner[first] == owner;
			     first++, used--)
				model->owner[first] = 0;
			blocks[i] = blocks[--count];
		}
		assert_int_equal(arena->used_units, used);
	}
	for (size_t i = 0; i < RPI_ARENA_UNITS; i++)
		assert_int_equal(arena->used[i], model->owner[i] != 0);
	free(model);
	free(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_arena_holds_its_bytes_exactly),
		cmocka_unit_test(an_arena_can_be_one_block),
		cmocka_unit_test(nothing_but_the_start_of_a_block_is_one),
		cmocka_unit_test(random_life_takes_the_first_fit_each_time),
	};
	const char *given = getenv("RINGPLANE_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : 42;
	print_message("seed %" PRIu64 " (RINGPLANE_TEST_SEED)\n", seed);
	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
