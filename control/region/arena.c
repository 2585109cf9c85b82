/* SPDX-License-Identifier: MIT */
#include "region/arena.h"

#include <string.h>

static uint32_t units_of(size_t bytes)
{
	return (uint32_t)((bytes + RPI_ARENA_UNIT - 1) / RPI_ARENA_UNIT);
}

bool rpi_arena_take(struct rpi_arena *arena, size_t bytes, size_t *offset_out)
{
	uint32_t need = units_of(bytes);
	uint32_t run = 0;
	uint32_t i;

	if (need > RPI_ARENA_UNITS - arena->used_units)
		return false;
	/* First fit: blocks gather at the low end. */
	for (i = arena->lowest_free; i < RPI_ARENA_UNITS; i++) {
		uint32_t first = i + 1 - need;

		run = arena->used[i] ? 0 : run + 1;
		if (run < need)
			continue;
		memset(&arena->used[first], true, need);
		arena->asked[first] = (uint32_t)bytes;
		arena->used_units += need;
		if (first == arena->lowest_free)
			arena->lowest_free = first + need;
		*offset_out = first * RPI_ARENA_UNIT;
		return true;
	}
	return false;
}

size_t rpi_arena_asked(const struct rpi_arena *arena, size_t offset)
{
	if (offset % RPI_ARENA_UNIT || offset >= RPI_ARENA_BYTES)
		return 0;
	return arena->asked[offset / RPI_ARENA_UNIT];
}

bool rpi_arena_give(struct rpi_arena *arena, size_t offset)
{
	uint32_t first = (uint32_t)(offset / RPI_ARENA_UNIT);
	uint32_t units = units_of(rpi_arena_asked(arena, offset));

	if (!units)
		return false;
	memset(&arena->used[first], false, units);
	arena->asked[first] = 0;
	arena->used_units -= units;
	if (first < arena->lowest_free)
		arena->lowest_free = first;
	return true;
}
