/* SPDX-License-Identifier: MIT */
/*
 * A kernel in flight, and the edges to those that follow it.
 *
 * Memory order. Each site names the edge it is an end of.
 *   K1 submit   the submitter fills slot and arguments -> `pending` falls to 0 (acq_rel),
 *               or the ready queue (release);  a hand that takes it (acquire) -> runs it
 *   K2 met      a hand has run the producer -> closes `edges` (release) and lowers the
 *               consumers' `pending` (release);  whoever brings `pending` to 0 (acquire),
 *               or finds `edges` closed (acquire) -> the consumer sees what was written
 *   K3 done     a hand has touched the slot for the last time -> `done` (release);
 *               the submitter's `done` (acquire) -> may reuse slot, arguments, edges,
 *               heap
 * Invariant: `done` of a slot is 1 only between its kernel's end and its reuse; only
 * the submitter starts a use, only the hand that ran the kernel ends it.
 */
#ifndef RPI_RUNTIME_FLIGHT_H
#define RPI_RUNTIME_FLIGHT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/kernel.h>

#include "base/cpu.h"

struct rpi_flight;

/*
 * What a kernel waits for outside the runtime, besides its `ready`. Copied with all that
 * `bytes` says, and then its kernel's alone: asked by one hand at a time (K1, R1).
 */
struct rpi_hurdle {
	/* 1: it has come; 0: not yet; a negative errno with this thread's error line: it
	 * never will, and the run fails. Quick. */
	int (*ask)(struct rpi_hurdle *hurdle);
	size_t bytes; /* of the struct that this begins; a multiple of 8 */
};

#define RPI_HURDLE_BYTES_MAX 128u

struct rpi_edge {
	struct rpi_edge *next;
	struct rpi_flight *consumer;
};

/* `edges` of a kernel that has ended. */
#define RPI_EDGES_CLOSED ((struct rpi_edge *)1)

#define RPI_NO_USE	 UINT32_MAX

struct rpi_flight {
	/* The submitter writes this line before the kernel can be seen. */
	_Alignas(RPI_CACHE_LINE) rp_kernel_fn fn;
	rp_kernel_ready_fn ready;
	const struct rp_arg *args;
	const char *name;
	uint64_t index; /* of the kernel in its run */
	uint32_t arg_count;
	uint32_t ring;
	struct rpi_flight *next; /* in the list of one hand */
	uint64_t edge_mark;	 /* edges taken in the ring until after this kernel */

	/* Written as kernels follow and end. */
	_Alignas(RPI_CACHE_LINE) _Atomic uint32_t pending; /* K1, K2 */
	_Atomic uint32_t done;				   /* K3 */
	_Atomic(struct rpi_edge *) edges;		   /* K2 */

	/* The submitter's own. */
	uint64_t stamp;	    /* of the submit that found this kernel last */
	uint64_t arg_mark;  /* arguments taken in the ring until after this kernel */
	uint64_t heap_next; /* where the next block begins; UINT64_MAX: no later one */
	uint32_t uses;	    /* its entries in the overlap map */
	bool has_block;	    /* of the heap */

	/* As the first line: NULL, or behind the arguments. */
	struct rpi_hurdle *hurdle;

	/* Kernels of each ring that were given this one's outputs: those before. */
	_Alignas(RPI_CACHE_LINE) uint64_t hold[RP_RING_COUNT];
	/* In ticks, where that is noted. The second is written by whoever brings
	 * `pending` to 0. */
	uint64_t submitted_at, ready_at;
};

static_assert(sizeof(struct rpi_flight) == 3 * RPI_CACHE_LINE, "a slot is three lines");

#endif
