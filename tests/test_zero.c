/* SPDX-License-Identifier: MIT */
/* Zeroing: every engine, whatever the place and the length, and not a byte more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/zero.h"

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define GUARD_BYTES ((size_t)4096)
#define DIRT	    0xa5

static const enum rp_reset_engine engines[] = { RP_RESET_AUTO, RP_RESET_MEMSET,
						RP_RESET_STREAM, RP_RESET_CHUNK,
						RP_RESET_AHEAD };

static uint8_t *arena, *chunk;
static size_t arena_bytes;

static size_t count_wrong(const uint8_t *at, size_t bytes, uint8_t want)
{
	size_t wrong = 0;

	for (size_t i = 0; i < bytes; i++)
		wrong += at[i] != want;
	return wrong;
}

static void check(enum rp_reset_engine engine, size_t offset, size_t bytes)
{
	uint8_t *at = arena + GUARD_BYTES + offset;

	memset(at - GUARD_BYTES, DIRT, bytes + 2 * GUARD_BYTES);
	rpi_zero(at, bytes, engine, chunk);
	assert_int_equal(count_wrong(at - GUARD_BYTES, GUARD_BYTES, DIRT), 0);
	assert_int_equal(count_wrong(at, bytes, 0), 0);
	assert_int_equal(count_wrong(at + bytes, GUARD_BYTES, DIRT), 0);
}

static void each_engine_zeroes_its_range_and_nothing_else(void **state)
{
	static const size_t offsets[] = { 0, 1, 31, 63, 64, 65 };
	static const size_t sizes[] = { 0,    1,    63,	  64,	 65,	127,  128,
					1000, 2047, 2048, 2049,	 2111,	2112, 2113,
					4096, 4097, 8191, 65536, 100003 };

	(void)state;
	for (size_t e = 0; e < COUNT(engines); e++)
		for (size_t o = 0; o < COUNT(offsets); o++)
			for (size_t s = 0; s < COUNT(sizes); s++)
				check(engines[e], offsets[o], sizes[s]);
}

static void large_ranges_change_their_loop_and_stay_whole(void **state)
{
	static const size_t sizes[] = { RPI_ZERO_CHUNK_BYTES - 1,
					RPI_ZERO_CHUNK_BYTES + 1,
					RPI_ZERO_AROUND_BYTES - 1, RPI_ZERO_AROUND_BYTES,
					RPI_ZERO_AROUND_BYTES + 65 };

	(void)state;
	for (size_t e = 0; e < COUNT(engines); e++)
		for (size_t s = 0; s < COUNT(sizes); s++)
			check(engines[e], 17, sizes[s]);
}

/* Whatever the processor: these two bounds are promised. */
static void the_default_goes_around_the_cache_from_its_bound_on(void **state)
{
	(void)state;
	assert_int_equal(rpi_zero_engine(1), RP_RESET_MEMSET);
	assert_int_not_equal(rpi_zero_engine(RPI_ZERO_AROUND_BYTES - 1), RP_RESET_STREAM);
	assert_int_equal(rpi_zero_engine(RPI_ZERO_AROUND_BYTES), RP_RESET_STREAM);
}

static int set_up(void **state)
{
	(void)state;
	arena_bytes = RPI_ZERO_AROUND_BYTES + 4 * GUARD_BYTES;
	arena = aligned_alloc(64, arena_bytes);
	chunk = calloc(1, RPI_ZERO_CHUNK_BYTES);
	return arena && chunk ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	free(arena);
	free(chunk);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_engine_zeroes_its_range_and_nothing_else),
		cmocka_unit_test(large_ranges_change_their_loop_and_stay_whole),
		cmocka_unit_test(the_default_goes_around_the_cache_from_its_bound_on),
	};

	return cmocka_run_group_tests_name("zero", tests, set_up, tear_down);
}
