/* SPDX-License-Identifier: MIT */
/*
 * One ring: the kernels of one depth of scope in flight, with the heap for their
 * outputs, their edges and their arguments. Kernels are numbered from 0 for ever in the
 * order of their submission; they end in any order and retire in that one.
 *
 *	tail <= done <= head, head - tail <= window
 *	  [tail, done)   have ended; kept for an open scope, or for kernels that were
 *	                 given their outputs
 *	  [done, head)   the first of them has not been seen to end
 *
 * Kernels that run as they are submitted never come into the slots ("plain" ones): done
 * is head then, and what is kept is what open scopes pin. Plain kernels are taken only
 * while all that stand in slots have retired, so that the plain ones come first in
 * [tail, head).
 *
 * Used by the submitter only; of a slot, see flight.h.
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#ifndef RPI_RUNTIME_RING_H
#define RPI_RUNTIME_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/edges.h"
#include "runtime/lap.h"
#include "runtime/mark.h"
#include "runtime/uses.h"

/* Each heap output takes a multiple of this. */
#define RPI_OUTPUT_ALIGN 1024u

#define RPI_UNPINNED	 UINT64_MAX

struct rpi_ring {
	struct rpi_flight *slots; /* [window] */
	uint64_t window;	  /* a power of two */
	uint64_t head, done, tail;
	uint64_t base; /* the kernel in slot 0; stepped to head when the ring is empty */
	uint64_t plain_end; /* kernels from tail to here have no slot */

	/* What open scopes keep: from this kernel, and from this byte of the heap, on. */
	uint64_t pinned_seq;  /* or RPI_UNPINNED */
	uint64_t pinned_heap; /* likewise; unset while they have no outputs */

	struct rpi_lap heap;
	uint8_t *heap_memory;
	/* Per RPI_OUTPUT_ALIGN bytes of the heap: the slot of the kernel they belong to.
	 */
	uint32_t *owners;
	struct rpi_flight
		*last_block;  /* of the kernels in slots with outputs, the newest */
	uint64_t first_block; /* where the outputs of kernels in slots begin */
	bool small_pool;      /* so that owners matter to plain kernels too */

	struct rpi_lap args;
	uint8_t *args_memory;
	struct rpi_edges edges;

	uint64_t window_peak;
	uint64_t heap_peak;
	struct rpi_waits waits;
	/* How far into the heap's memory a block has reached, and how much of that was
	 * backed ahead or is counted as growth. */
	uint64_t heap_reach;
	uint64_t heap_known;
};

static inline struct rpi_flight *rpi_ring_slot(const struct rpi_ring *ring, uint64_t seq)
{
	return &ring->slots[(seq - ring->base) & (ring->window - 1)];
}

/* Kernels that will be left when all that has no open scope has retired. */
static inline uint64_t rpi_ring_pinned(const struct rpi_ring *ring)
{
	return ring->pinned_seq == RPI_UNPINNED ? 0 : ring->head - ring->pinned_seq;
}

static inline uint64_t rpi_ring_heap_pinned(const struct rpi_ring *ring)
{
	return ring->pinned_heap == RPI_UNPINNED ? 0 : ring->heap.top - ring->pinned_heap;
}

/* Bytes from the oldest live output to the newest. */
static inline uint64_t rpi_ring_heap_used(const struct rpi_ring *ring)
{
	return ring->pinned_heap == RPI_UNPINNED && !ring->last_block
		       ? 0
		       : ring->heap.top - ring->heap.tail;
}

/* Where the live part of the heap begins, for a block that would go to `begin`. */
static inline uint64_t rpi_ring_heap_tail(const struct rpi_ring *ring, uint64_t begin)
{
	if (ring->last_block)
		return ring->heap.tail;
	return ring->pinned_heap == RPI_UNPINNED ? begin : ring->pinned_heap;
}

/* Where a block of `bytes` will begin; see ring.c. */
uint64_t rpi_ring_place(const struct rpi_ring *ring, uint64_t bytes, bool serial);

/* Take a block that fits for the kernel that is about to be `head`; `slot` is its, NULL
 * for a plain one. */
void *rpi_ring_take_block(struct rpi_ring *ring, uint64_t begin, uint64_t bytes,
			  struct rpi_flight *slot);

/* Take note of kernels that have ended, in order: their uses, edges and arguments are
 * free. True when there were some. */
bool rpi_ring_pass(struct rpi_ring *ring, struct rpi_uses *uses);

/* Retire, in order, what has ended and is kept by nobody. `rings` are all four. */
void rpi_ring_retire(struct rpi_ring *ring, const struct rpi_ring *rings);

/* Let an empty ring start over at the front of its memory. */
static inline void rpi_ring_rewind(struct rpi_ring *ring)
{
	if (ring->done == ring->head)
		ring->args.top = ring->args.tail =
			rpi_lap_next(&ring->args, ring->args.top);
	if (ring->tail == ring->head)
		ring->base = ring->head;
}

/* Whether a kernel may be taken that never stands in a slot. */
static inline bool rpi_ring_plain(const struct rpi_ring *ring)
{
	return ring->plain_end == ring->head || ring->tail == ring->head;
}

#endif
