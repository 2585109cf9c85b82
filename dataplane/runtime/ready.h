/* SPDX-License-Identifier: MIT */
/*
 * Kernels that may start: a bounded queue, any number of producers and consumers, first
 * in first out, so that the oldest, which hold up a ring, come first.
 *
 * Memory order.
 *   R1 put    a producer stores the slot -> the cell's `turn` (release);  a consumer's
 *             `turn` (acquire) -> reads the slot. This carries K1 and K2.
 *   R2 taken  a consumer has read the cell -> `turn` (release);  a producer of the next
 *             lap, `turn` (acquire) -> writes the cell
 *   R3 idle   see crew.c: `put_at` is moved by a seq_cst compare-and-swap, before the
 *             producer looks for sleepers.
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#ifndef RPI_RUNTIME_READY_H
#define RPI_RUNTIME_READY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

struct rpi_flight;

#define RPI_READY_CELLS 4096u

struct rpi_ready_cell {
	_Atomic uint64_t
		turn; /* R1, R2: position + 1 when full, of the next lap when free */
	struct rpi_flight *slot;
};

struct rpi_ready {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t put_at;
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t take_at;
	_Alignas(RPI_SHARE_ALIGN) struct rpi_ready_cell cells[RPI_READY_CELLS];
};

void rpi_ready_init(struct rpi_ready *ready);

/* False: it is full. */
bool rpi_ready_put(struct rpi_ready *ready, struct rpi_flight *slot);

/* NULL: there is none, or the first is still being put. */
struct rpi_flight *rpi_ready_take(struct rpi_ready *ready);

/* How many there are, more or less. */
static inline uint64_t rpi_ready_count(struct rpi_ready *ready)
{
	/* Relaxed: others move both meanwhile. */
	return atomic_load_explicit(&ready->put_at, memory_order_relaxed) -
	       atomic_load_explicit(&ready->take_at, memory_order_relaxed);
}

/* Whether some have been put, or are about to be, and not been taken. */
static inline bool rpi_ready_any(struct rpi_ready *ready)
{
	uint64_t take_at = atomic_load_explicit(&ready->take_at, memory_order_relaxed);

	return atomic_load_explicit(&ready->put_at, memory_order_seq_cst) != take_at;
}

#endif
