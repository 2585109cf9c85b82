/* SPDX-License-Identifier: MIT */
/*
 * The memory of a chip's four rings for one sizing vector, laid out in one mapping.
 * Address space is reserved, pages come as they are used: building costs a system call
 * or two, whatever the sizes. A small cache keeps the arenas that were used last.
 */
#ifndef RPI_RUNTIME_ARENA_H
#define RPI_RUNTIME_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/memory.h>

#include "runtime/ring.h"
#include "runtime/sizing.h"

/* Uses that the overlap map of a chip holds; a full one presses back. */
#define RPI_USES_MAX	 65536u

#define RPI_ARENA_CACHED 16u /* at most */

struct rpi_arena {
	struct rpi_sizing sizing;
	struct rpi_ring rings[RP_RING_COUNT];
	struct rpi_uses *uses;
	/* Kernels that the one being submitted follows: as many as can be in flight. */
	struct rpi_flight **found;
	uint8_t *memory; /* the mapping; the heaps lie at its front */
	size_t bytes;
	size_t heap_bytes; /* of the four heaps, without gaps between */
	uint64_t used_seq; /* of the cache: when it was used last */
};

struct rpi_arena_cache {
	struct rpi_arena *arenas[RPI_ARENA_CACHED];
	uint32_t size; /* 1..RPI_ARENA_CACHED */
	enum rp_page_policy pages;
	uint64_t used_seq;

	/* Counted for ever. */
	uint64_t hits, misses, builds, build_ns;
	uint64_t grown_bytes; /* of heaps, used for the first time and not made ahead */
	uint64_t bytes;	      /* of the arenas there are */
};

void rpi_arena_cache_init(struct rpi_arena_cache *cache, uint32_t size,
			  enum rp_page_policy pages);
void rpi_arena_cache_fini(struct rpi_arena_cache *cache);

/* Count what a run has used of the heaps for the first time. */
void rpi_arena_count(struct rpi_arena_cache *cache, struct rpi_arena *arena);

/*
 * The arena of a vector, all sizes set: the cached one, or a new one in place of the
 * one that was used longest ago. Its rings are empty.
 *
 * Returns  0, or -ENOMEM with an error line; then the cache is as it was, or smaller
 */
int rpi_arena_get(struct rpi_arena_cache *cache, const struct rpi_sizing *sizing,
		  struct rpi_arena **arena_out);

/* The same ahead of its use, which counts neither as a hit nor as a miss, and have the
 * first part of each of its memories backed; little of those that only kernels in slots
 * use, where there are no compute threads. */
int rpi_arena_prewarm(struct rpi_arena_cache *cache, const struct rpi_sizing *sizing,
		      bool threads);

#endif
