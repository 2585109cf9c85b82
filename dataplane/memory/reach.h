/* SPDX-License-Identifier: MIT */
/*
 * Which shared memory the processes of a worker have: one word for each granule of the
 * range of addresses that all shared memory lies in. A region begins in a granule of
 * its own, so one load tells. Two tables of the kind exist: the parent's, of what it
 * has passed to all processes of a worker; and, copied by the fork, each process's own,
 * of what it has mapped.
 *
 * Memory order.
 *   R1 known   who passed a region to the processes (M1 in staging/mapping.h) -> word
 *              release;  word acquire -> a task or a copy that names it is published
 * Words are written by one thread at a time: in the parent under the lock of shared
 * memory, in a worker process by its only thread. Any number look. An answer about a
 * region that is freed meanwhile may be either; that use of it is the caller's error,
 * and the processes look again (chip/mapping.c).
 *
 * Looking: no system call, no lock, no allocation.
 */
#ifndef RPI_MEMORY_REACH_H
#define RPI_MEMORY_REACH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPI_REACH_GRANULE ((size_t)2 << 20)

/* Words count in these, from the start of the range. */
#define RPI_REACH_PAGE ((size_t)4096)

struct rpi_reach {
	uintptr_t low; /* of the range, at a granule's start */
	size_t bytes;  /* of the range; 0: nothing is reached */
	size_t top;    /* no word at or above this offset was ever set */
	/* First page << 32 | the page after the last; or one of these below. */
	_Atomic uint64_t *words;
};

/* Half way. In the parent: some processes may have the region, not all. In a process: it
 * is mapped, and was never touched. As high a first page as never is. */
#define RPI_REACH_PENDING (UINT64_C(1) << 63)
/* It was unmapped, and nothing is there since. */
#define RPI_REACH_LEFT UINT64_MAX

/* A table for the range, with nothing in it; backed where it is written. 0, or -ENOMEM
 * with an error line. */
int rpi_reach_init(struct rpi_reach *reach, uintptr_t low, size_t bytes);
void rpi_reach_fini(struct rpi_reach *reach);

/* Note the region [low, low + bytes), which begins in a granule of its own. */
void rpi_reach_set(struct rpi_reach *reach, uintptr_t low, size_t bytes);
void rpi_reach_pend(struct rpi_reach *reach, uintptr_t low, size_t bytes);
void rpi_reach_clear(struct rpi_reach *reach, uintptr_t low, size_t bytes);
void rpi_reach_leave(struct rpi_reach *reach, uintptr_t low, size_t bytes);

static inline bool rpi_reach_is_pending(uint64_t word)
{
	return word & RPI_REACH_PENDING && word != RPI_REACH_LEFT;
}

/* The region that a word which is set or pending tells of. */
static inline uintptr_t rpi_reach_low(const struct rpi_reach *reach, uint64_t word)
{
	return reach->low + (size_t)((word & ~RPI_REACH_PENDING) >> 32) * RPI_REACH_PAGE;
}

static inline size_t rpi_reach_bytes(uint64_t word)
{
	return ((uint32_t)word - (size_t)((word & ~RPI_REACH_PENDING) >> 32)) *
	       RPI_REACH_PAGE;
}

/* The next region that is reached at or after *offset, which moves behind it. */
bool rpi_reach_next(const struct rpi_reach *reach, size_t *offset, uintptr_t *low_out,
		    size_t *bytes_out);

/* The word of addr's granule; 0 outside the range. */
static inline uint64_t rpi_reach_word(const struct rpi_reach *reach, uintptr_t addr)
{
	size_t offset = addr - reach->low; /* below the range it wraps */

	if (offset >= reach->bytes)
		return 0;
	return atomic_load_explicit(&reach->words[offset / RPI_REACH_GRANULE],
				    memory_order_acquire); /* R1 */
}

/* Whether [addr, addr + bytes) lies in one region that is reached. */
static inline bool rpi_reach_covers(const struct rpi_reach *reach, const void *addr,
				    size_t bytes)
{
	uint64_t word = rpi_reach_word(reach, (uintptr_t)addr);
	size_t offset = (uintptr_t)addr - reach->low;
	size_t low = (size_t)(word >> 32) * RPI_REACH_PAGE;
	size_t high = (size_t)(uint32_t)word * RPI_REACH_PAGE;

	return offset >= low && offset < high && bytes <= high - offset;
}

#endif
