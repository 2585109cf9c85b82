/* SPDX-License-Identifier: MIT */
/*
 * Small blocks of one shared region. What is taken is noted outside the region, so
 * that nobody who writes past a block can harm the allocator. Not thread-safe.
 */
#ifndef RPI_REGION_ARENA_H
#define RPI_REGION_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPI_ARENA_BYTES ((size_t)2 << 20)
#define RPI_ARENA_UNIT	((size_t)128)
#define RPI_ARENA_UNITS (RPI_ARENA_BYTES / RPI_ARENA_UNIT)

struct rpi_arena {
	uint32_t used_units;
	uint32_t lowest_free; /* no free unit below it */
	/* At a block's first unit the bytes it was asked for; elsewhere 0. */
	uint32_t asked[RPI_ARENA_UNITS];
	bool used[RPI_ARENA_UNITS];
};

/* Offset of a block for `bytes` (1..RPI_ARENA_BYTES); false when none fits. */
bool rpi_arena_take(struct rpi_arena *arena, size_t bytes, size_t *offset_out);

/* Give the block at `offset` back; false when none starts there. */
bool rpi_arena_give(struct rpi_arena *arena, size_t offset);

/* Bytes that the block at `offset` was asked for; 0 when none starts there. */
size_t rpi_arena_asked(const struct rpi_arena *arena, size_t offset);

#endif
