/* SPDX-License-Identifier: MIT */
/*
 * Contiguous blocks in a ring of bytes that come and go in order. Positions count for
 * ever; a block never straddles a multiple of the size. "Full" is a matter of counts:
 * all of the ring can be in use, and a position of an earlier lap is never taken for
 * one of this lap.
 *
 * Starting over at offset 0 is stepping to the next lap: whatever retires late has an
 * earlier position and frees nothing of the new lap.
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#ifndef RPI_RUNTIME_LAP_H
#define RPI_RUNTIME_LAP_H

#include <stdbool.h>
#include <stdint.h>

struct rpi_lap {
	uint64_t size; /* a power of two */
	uint64_t top;  /* where the next block may begin */
	uint64_t tail; /* where the oldest live block begins; top when there is none */
};

static inline uint64_t rpi_lap_offset(const struct rpi_lap *lap, uint64_t position)
{
	return position & (lap->size - 1);
}

/* The least lap start that is not before `position`. */
static inline uint64_t rpi_lap_next(const struct rpi_lap *lap, uint64_t position)
{
	return (position + lap->size - 1) & ~(lap->size - 1);
}

/* Where a block of `bytes` goes, at most the ring's size. */
static inline uint64_t rpi_lap_place(const struct rpi_lap *lap, uint64_t bytes)
{
	if (bytes > lap->size - rpi_lap_offset(lap, lap->top))
		return rpi_lap_next(lap, lap->top);
	return lap->top;
}

/* Whether a block at `begin` touches nothing from `tail` on. */
static inline bool rpi_lap_fits(const struct rpi_lap *lap, uint64_t tail, uint64_t begin,
				uint64_t bytes)
{
	return begin + bytes - tail <= lap->size;
}

#endif
