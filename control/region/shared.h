/* SPDX-License-Identifier: MIT */
/*
 * Shared memory that callers allocate, and what a worker saw of it when it was
 * prepared.
 */
#ifndef RPI_REGION_SHARED_H
#define RPI_REGION_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/memory.h>

/* One region as a worker's processes have it mapped. */
struct rpi_shared_entry {
	uintptr_t low, high;	/* [low, high) */
	uint64_t serial;	/* of the region: an address may be used again */
	_Atomic uint32_t alive; /* 0 once it was freed here */
};

/* A worker's list, sorted by address; it never shrinks. */
struct rpi_shared_map {
	struct rpi_shared_entry *entries;
	uint32_t count;
	struct rpi_shared_map *next; /* all maps of this process */
};

/* List all live regions. 0, or -ENOMEM with an error line. */
int rpi_shared_snapshot(struct rpi_shared_map *map_out);
void rpi_shared_map_release(struct rpi_shared_map *map);

/* Whether [addr, addr + bytes) lies in one region that the worker's processes see.
 * On the dispatch path: no lock, no system call. */
bool rpi_shared_map_covers(const struct rpi_shared_map *map, const void *addr,
			   size_t bytes);

/* In a worker process: build page tables for the listed regions, in order, until
 * `bytes_max` bytes are done. */
int rpi_shared_map_populate(const struct rpi_shared_map *map, size_t bytes_max);

/* Report the listed regions that are alive: fills up to `max`, returns how many. */
size_t rpi_shared_map_info(const struct rpi_shared_map *map,
			   struct rp_region_info *info_out, size_t max);

#endif
