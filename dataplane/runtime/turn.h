/* SPDX-License-Identifier: MIT */
/*
 * What one hand is at, for the watch to read. Written only where there is a watch.
 *
 * Memory order.
 *   W1 turn   the hand stores `seq`, odd, then the fields (release each), then `seq`,
 * even (release);  the watch's `seq` (acquire), fields (acquire), `seq` again: what it
 * read belongs together if both are the same even number
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#ifndef RPI_RUNTIME_TURN_H
#define RPI_RUNTIME_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rpi_turn {
	_Atomic uint64_t seq;
	_Atomic uint64_t index; /* of the kernel in its run */
	_Atomic(const char *) name;
	_Atomic uint32_t ring;
	_Atomic uint32_t runs;	/* 1: it is being run */
	_Atomic uint64_t ended; /* kernels, ever */
};

static inline void rpi_turn_begin(struct rpi_turn *turn, const char *name, uint64_t index,
				  uint32_t ring)
{
	/* Relaxed: only this hand writes it. */
	uint64_t seq = atomic_load_explicit(&turn->seq, memory_order_relaxed);

	/* W1 */
	atomic_store_explicit(&turn->seq, seq + 1, memory_order_relaxed);
	atomic_store_explicit(&turn->index, index, memory_order_release);
	atomic_store_explicit(&turn->name, name, memory_order_release);
	atomic_store_explicit(&turn->ring, ring, memory_order_release);
	atomic_store_explicit(&turn->runs, 1, memory_order_release);
	atomic_store_explicit(&turn->seq, seq + 2, memory_order_release);
}

static inline void rpi_turn_end(struct rpi_turn *turn)
{
	/* Relaxed: only this hand writes it. */
	uint64_t ended = atomic_load_explicit(&turn->ended, memory_order_relaxed);

	/* Release: who sees it ended, but not the submit that it was, sees too few. */
	atomic_store_explicit(&turn->ended, ended + 1, memory_order_release);
	atomic_store_explicit(&turn->runs, 0, memory_order_release);
}

/* False: it runs none, or is between two. */
static inline bool rpi_turn_read(struct rpi_turn *turn, const char **name_out,
				 uint64_t *index_out, uint32_t *ring_out)
{
	/* W1 */
	uint64_t seq = atomic_load_explicit(&turn->seq, memory_order_acquire);
	bool runs;

	*index_out = atomic_load_explicit(&turn->index, memory_order_acquire);
	*name_out = atomic_load_explicit(&turn->name, memory_order_acquire);
	*ring_out = atomic_load_explicit(&turn->ring, memory_order_acquire);
	runs = atomic_load_explicit(&turn->runs, memory_order_acquire);
	return runs && !(seq & 1) &&
	       atomic_load_explicit(&turn->seq, memory_order_relaxed) == seq;
}

#endif
