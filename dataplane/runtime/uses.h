/* SPDX-License-Identifier: MIT */
/*
 * The overlap map: which kernels in flight read or write which bytes. Kept and asked by
 * the submitter only.
 *
 * A use is filed under its level, the least power of two that its extent fits in, and
 * the granule of that size that its first byte lies in. Whatever overlaps an extent has
 * its first byte in one of the granules that the extent touches, or in the one before;
 * each level in use is looked at there, or as a whole where that is less. So the cost
 * follows the uses nearby, not the size of buffers or how many there are.
 *
 * Reads and writes are filed apart: a read looks at writes only, however many read the
 * same.
 *
 * A use goes when its kernel has ended; before that it is passed over from the moment
 * of the end on. A write that covers an older use takes its place at once: whoever
 * follows the write follows what the write had to follow.
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#ifndef RPI_RUNTIME_USES_H
#define RPI_RUNTIME_USES_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/view.h"
#include "runtime/flight.h"

#define RPI_USE_LEVELS	48u
#define RPI_USE_BUCKETS 4096u

struct rpi_use {
	/* All that a look at a view without gaps needs: one line. */
	_Alignas(RPI_CACHE_LINE) struct rpi_flight *slot;
	uint32_t next, prev;		 /* in its bucket */
	uint32_t level_next, level_prev; /* in its level */
	uint32_t slot_next; /* of the same kernel; in the list of free ones */
	uint32_t bucket;
	uint8_t level;
	bool write;
	bool filed; /* in bucket and level */
	struct rpi_view view;
};

/* The uses of one kind: reads or writes. */
struct rpi_use_index {
	uint64_t levels; /* bit set: the level has uses */
	uint32_t level_count[RPI_USE_LEVELS];
	uint32_t level_first[RPI_USE_LEVELS];
	uint32_t bucket[RPI_USE_BUCKETS];
};

struct rpi_uses {
	struct rpi_use *use; /* [size] */
	uint32_t size;
	uint32_t fresh; /* from here on they were never taken */
	uint32_t free;	/* list of those that were; RPI_NO_USE: none */
	uint32_t count; /* taken */
	uint32_t peak;
	struct rpi_use_index reads, writes;
};

void rpi_uses_init(struct rpi_uses *uses, struct rpi_use *memory, uint32_t size);

/* Whether `count` more find room. */
static inline bool rpi_uses_room(const struct rpi_uses *uses, uint32_t count)
{
	return uses->size - uses->count >= count;
}

/*
 * The kernels that an access of `view` must follow: for a read the writers, for a write
 * the readers too. Each is appended to `found` once per stamp and gets the stamp; uses
 * that a write covers are taken out of the map. Returns the new count.
 */
uint32_t rpi_uses_find(struct rpi_uses *uses, const struct rpi_view *view, bool write,
		       uint64_t stamp, struct rpi_flight **found, uint32_t count);

/* Enter a use of a kernel; there is room. */
void rpi_uses_add(struct rpi_uses *uses, const struct rpi_view *view, bool write,
		  struct rpi_flight *slot);

/* Drop all uses of a kernel that has ended. */
void rpi_uses_drop(struct rpi_uses *uses, struct rpi_flight *slot);

#endif
