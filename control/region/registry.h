/* SPDX-License-Identifier: MIT */
/*
 * The shared memory of this process: its regions, and who else has them. One lock for
 * all of it, taken on slow paths only: allocating, freeing, and the first time that a
 * worker is given a region. No worker process takes it, so it does not matter to one
 * that another thread may have held it at the fork.
 */
#ifndef RPI_REGION_REGISTRY_H
#define RPI_REGION_REGISTRY_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "region/arena.h"
#include "region/region.h"
#include "region/shared.h"

struct rpi_shared_region {
	struct rpi_region region;
	uint64_t serial;	 /* an address may be used again, this is not */
	size_t asked;		 /* of a region that is one block */
	struct rpi_arena *arena; /* NULL: one block */
	pid_t pid;		 /* of the process that created it */
	struct rpi_shared_region *next;
};

extern struct rpi_registry {
	pthread_mutex_t lock;
	struct rpi_shared_region *regions;
	_Atomic uint64_t next_serial; /* taken before the region is mapped */
} rpi_registry;

/* That the processes of a worker may still have what was freed. */
struct rpi_claim {
	struct rpi_shared_map *map;
	uint64_t ticket; /* of the request to unmap; 0: it could not be sent yet */
	struct rpi_claim *next;
};

/* All below: the lock is held, but for rpi_condemned_await(). */

/* The region that holds ptr, and where in it; NULL for none. */
struct rpi_shared_region *rpi_registry_find(const void *ptr, size_t *offset_out);

/* shared_map.c: no worker believes in the region any more. Lists those whose processes
 * may have it mapped. */
struct rpi_claim *rpi_shared_maps_forget(const struct rpi_shared_region *shared);

/* condemned.c: end a region. Its memory goes from this process at once; its addresses
 * are given out again when no claim is left. NULL: at once. Takes the claims over. */
void rpi_condemn(struct rpi_shared_region *shared, struct rpi_claim *claims);

/* End what nobody claims any more; never waits. */
void rpi_condemned_settle(void);

/* The worker's processes are gone: its claims are void. */
void rpi_condemned_drop(const struct rpi_shared_map *map);

/* Wait, while it can't take long, until nobody has the region any more; then, or after
 * that, the pages are the system's again. Takes the lock itself. */
void rpi_condemned_await(uint64_t serial);

#endif
