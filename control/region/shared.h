/* SPDX-License-Identifier: MIT */
/*
 * Shared memory that callers allocate, and which of it a worker's processes have.
 *
 * A worker starts with the regions that exist when it is prepared; its processes
 * inherit them. Any other is passed to them once, when a dispatch or a copy first names
 * it (rpi_shared_map_learn()), and from then on costs what the others cost. Freed, it
 * is refused from then on, and unmapped by each process after the tasks that were
 * published before; nobody waits for those.
 */
#ifndef RPI_REGION_SHARED_H
#define RPI_REGION_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ringplane/memory.h>

#include "memory/reach.h"
#include "region/region.h"

/* How far a request to unmap has come. */
enum rpi_leaving {
	RPI_LEFT,    /* no process has the memory any more */
	RPI_LEAVING, /* idle processes are about to */
	RPI_BUSY,    /* one is in a task, and unmaps after it */
};

/* The way to a worker's processes. Called with the lock of shared memory held, but for
 * await_room. */
struct rpi_audience_ops {
	/* Have all processes map the region before what is published next. 0; -EAGAIN
	 * while one has too much unread; other errors with a line. */
	int (*map)(void *context, const struct rpi_region *region);
	/* Have all unmap what stands there, after what was published. Likewise. */
	int (*unmap)(void *context, uintptr_t low, size_t bytes, uint64_t *ticket_out);
	enum rpi_leaving (*leaving)(void *context, uint64_t ticket);
	/* After -EAGAIN. 0, or -EOWNERDEAD with a line. */
	int (*await_room)(void *context);
};

struct rpi_shared_map {
	struct rpi_reach reach;
	const struct rpi_audience_ops *ops; /* NULL: no processes, or no more */
	void *context;
	/* Processes may have inherited regions of lower serials, known or not. */
	uint64_t inherits_below;
	pid_t pid;		     /* of the process whose worker it is */
	struct rpi_shared_map *next; /* all maps of this process */
};

/* List all live regions, for processes that are forked from now on. 0, or -ENOMEM with
 * an error line. */
int rpi_shared_snapshot(struct rpi_shared_map *map_out);
void rpi_shared_map_release(struct rpi_shared_map *map);

/* Before the fork: the way to the processes. After it: they inherit nothing more. Once
 * they are gone: there is nobody to tell. */
void rpi_shared_map_attach(struct rpi_shared_map *map, const struct rpi_audience_ops *ops,
			   void *context);
void rpi_shared_map_forked(struct rpi_shared_map *map);
void rpi_shared_map_retire(struct rpi_shared_map *map);

/* Whether [addr, addr + bytes) lies in one region that the worker's processes have.
 * On the dispatch path: no lock, no system call. */
static inline bool rpi_shared_map_covers(const struct rpi_shared_map *map,
					 const void *addr, size_t bytes)
{
	return rpi_reach_covers(&map->reach, addr, bytes);
}

/* Whether they lie in one live block's region, of this process. Takes a lock. */
bool rpi_shared_holds(const void *addr, size_t bytes);

/* Pass the region that holds [addr, addr + bytes) to the processes, which then have it
 * before they see what the caller publishes next. 0; -EFAULT with no error line when
 * there is no such region; -EMFILE, -ENOMEM, -EOWNERDEAD with one. */
int rpi_shared_map_learn(struct rpi_shared_map *map, const void *addr, size_t bytes);

/* In a worker process: build page tables for the listed regions, in order, until
 * `bytes_max` bytes are done. */
int rpi_shared_map_populate(const struct rpi_shared_map *map, size_t bytes_max);

/* Report the listed regions that are alive: fills up to `max`, returns how many. */
size_t rpi_shared_map_info(const struct rpi_shared_map *map,
			   struct rp_region_info *info_out, size_t max);

#endif
