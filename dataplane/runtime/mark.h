/* SPDX-License-Identifier: MIT */
/*
 * How full a scope's ring has been while the scope was open. The peaks of the ring are
 * set back when a scope begins and made whole when it ends, so that nothing is counted
 * where nobody wants to know. Used by the submitter.
 */
#ifndef RPI_RUNTIME_MARK_H
#define RPI_RUNTIME_MARK_H

#include <stdint.h>

#include <ringplane/kernel.h>

struct rpi_runtime;

/* What a ring's submits waited for. */
struct rpi_waits {
	uint32_t window; /* a slot, or memory for arguments */
	uint32_t heap;
	uint32_t edges; /* of the dependency pool */
	uint32_t uses;	/* of the overlap map */
};

struct rpi_mark {
	uint64_t number;	/* among the scopes of its run, from 0 */
	uint64_t began;		/* in ticks */
	uint64_t head;		/* of the ring */
	struct rpi_waits waits; /* likewise */
	/* The peaks until then. */
	uint64_t window, heap, edges, uses;
};

/*
 * A scope is told in parts, each a record: `value` says which scope and part, `begin`
 * and `end` are the part's two words.
 */
enum rpi_mark_part {
	RPI_MARK_TIME = 0,   /* begin, end in ticks */
	RPI_MARK_WHAT = 1,   /* rpi_mark_what(), kernels */
	RPI_MARK_WINDOW = 2, /* capacity, peak; so are the next three */
	RPI_MARK_HEAP = 3,
	RPI_MARK_EDGES = 4,
	RPI_MARK_USES = 5,
	RPI_MARK_WAITS = 6, /* window | heap << 32, edges | uses << 32 */
	RPI_MARK_PARTS
};

static inline uint64_t rpi_mark_value(uint64_t number, uint32_t part)
{
	return (number & (UINT64_MAX >> 8)) | (uint64_t)part << 56;
}

#define RPI_MARK_NUMBER(value) ((value) & (UINT64_MAX >> 8))
#define RPI_MARK_PART(value)   ((uint32_t)((value) >> 56))

static inline uint64_t rpi_mark_what(uint32_t depth, uint32_t ring, uint32_t kind)
{
	return (uint64_t)depth | (uint64_t)ring << 16 | (uint64_t)kind << 24;
}

#define RPI_MARK_DEPTH(what) ((uint32_t)(what)&0xffff)
#define RPI_MARK_RING(what)  ((uint32_t)((what) >> 16) & 0xff)
#define RPI_MARK_KIND(what)  ((uint32_t)((what) >> 24) & 0xff)

/* The innermost scope has begun; is about to end. */
void rpi_mark_begin(struct rpi_runtime *runtime);
void rpi_mark_end(struct rpi_runtime *runtime);

/* Peaks that open scopes have set back. */
void rpi_mark_unite(const struct rpi_runtime *runtime, uint32_t ring,
		    struct rp_ring_state *state);

#endif
