/* SPDX-License-Identifier: MIT */
/*
 * The dependency pool of a ring: edges are taken by kernels in the order of their
 * submission and given back in the same order, so that two counts and one index are all
 * there is to it. Used by the submitter only.
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#ifndef RPI_RUNTIME_EDGES_H
#define RPI_RUNTIME_EDGES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/flight.h"

struct rpi_edges {
	struct rpi_edge *edge; /* [size] */
	uint64_t size;
	uint64_t taken; /* ever */
	uint64_t freed; /* ever; the tail */
	uint64_t next;	/* index of the next one */
	uint64_t peak;
};

static inline uint64_t rpi_edges_used(const struct rpi_edges *pool)
{
	return pool->taken - pool->freed;
}

/* NULL: all are in use. */
static inline struct rpi_edge *rpi_edges_take(struct rpi_edges *pool)
{
	uint64_t used = rpi_edges_used(pool) + 1;
	struct rpi_edge *edge;

	if (used > pool->size)
		return NULL;
	edge = &pool->edge[pool->next];
	pool->next = pool->next + 1 < pool->size ? pool->next + 1 : 0;
	pool->taken++;
	if (used > pool->peak)
		pool->peak = used;
	return edge;
}

/* Give back all that were taken until `mark`. From the start when none is left, so that
 * a small set of edges stays in the cache. */
static inline void rpi_edges_free(struct rpi_edges *pool, uint64_t mark)
{
	pool->freed = mark;
	if (pool->freed == pool->taken)
		pool->next = 0;
}

#endif
