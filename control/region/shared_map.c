/* SPDX-License-Identifier: MIT */
/* What the processes of each worker have of the shared memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "region/registry.h"
#include "region/span.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct rpi_shared_map *maps; /* under the registry's lock */

/* The granule that the range begins in may begin before it: only the first is cut. */
static int init_reach(struct rpi_reach *reach)
{
	uintptr_t low;
	size_t bytes;
	int err = rpi_span_bounds(&low, &bytes);
	size_t lead = low % RPI_REACH_GRANULE;

	return err ? err : rpi_reach_init(reach, low - lead, bytes + lead);
}

int rpi_shared_snapshot(struct rpi_shared_map *map_out)
{
	struct rpi_shared_region *shared;
	int err;

	memset(map_out, 0, sizeof(*map_out));
	err = init_reach(&map_out->reach);
	if (err)
		return err;
	map_out->pid = getpid();
	map_out->inherits_below = UINT64_MAX;
	pthread_mutex_lock(&rpi_registry.lock);
	for (shared = rpi_registry.regions; shared; shared = shared->next)
		rpi_reach_set(&map_out->reach, (uintptr_t)shared->region.base,
			      shared->region.bytes);
	map_out->next = maps;
	maps = map_out;
	pthread_mutex_unlock(&rpi_registry.lock);
	return 0;
}

void rpi_shared_map_release(struct rpi_shared_map *map)
{
	struct rpi_shared_map **link = &maps;

	rpi_shared_map_retire(map);
	pthread_mutex_lock(&rpi_registry.lock);
	while (*link && *link != map)
		link = &(*link)->next;
	if (*link)
		*link = map->next;
	pthread_mutex_unlock(&rpi_registry.lock);
	rpi_reach_fini(&map->reach);
}

void rpi_shared_map_attach(struct rpi_shared_map *map, const struct rpi_audience_ops *ops,
			   void *context)
{
	pthread_mutex_lock(&rpi_registry.lock);
	map->ops = ops;
	map->context = context;
	pthread_mutex_unlock(&rpi_registry.lock);
}

void rpi_shared_map_forked(struct rpi_shared_map *map)
{
	pthread_mutex_lock(&rpi_registry.lock);
	/* Relaxed: a region that a process has inherited was numbered before the fork. */
	map->inherits_below =
		atomic_load_explicit(&rpi_registry.next_serial, memory_order_relaxed);
	pthread_mutex_unlock(&rpi_registry.lock);
}

void rpi_shared_map_retire(struct rpi_shared_map *map)
{
	pthread_mutex_lock(&rpi_registry.lock);
	map->ops = NULL;
	rpi_condemned_drop(map);
	pthread_mutex_unlock(&rpi_registry.lock);
}

bool rpi_shared_holds(const void *addr, size_t bytes)
{
	const struct rpi_shared_region *shared;
	size_t offset = 0;
	bool holds;

	pthread_mutex_lock(&rpi_registry.lock);
	shared = rpi_registry_find(addr, &offset);
	holds = shared && bytes <= shared->region.bytes - offset;
	pthread_mutex_unlock(&rpi_registry.lock);
	return holds;
}

/* The lock is held. */
static int pass(struct rpi_shared_map *map, const void *addr, size_t bytes)
{
	struct rpi_shared_region *shared;
	const struct rpi_region *region;
	size_t offset = 0;
	int err;

	shared = rpi_registry_find(addr, &offset);
	/* A child that the application forked has its parent's workers' notes, and no
	 * business with their processes. */
	if (!shared || bytes > shared->region.bytes - offset || !map->ops ||
	    map->pid != getpid())
		return -EFAULT;
	region = &shared->region;
	if (rpi_shared_map_covers(map, addr, bytes))
		return 0; /* another thread was first */
	/* From here on some process may have it, also if not all can be told. */
	rpi_reach_pend(&map->reach, (uintptr_t)region->base, region->bytes);
	err = map->ops->map(map->context, region);
	if (!err)
		/* R1 */
		rpi_reach_set(&map->reach, (uintptr_t)region->base, region->bytes);
	return err;
}

int rpi_shared_map_learn(struct rpi_shared_map *map, const void *addr, size_t bytes)
{
	/* Nowhere near: the caller's own memory is not worth a lock. */
	if ((uintptr_t)addr - map->reach.low >= map->reach.bytes)
		return -EFAULT;
	for (;;) {
		const struct rpi_audience_ops *ops;
		int err;

		pthread_mutex_lock(&rpi_registry.lock);
		ops = map->ops;
		err = pass(map, addr, bytes);
		pthread_mutex_unlock(&rpi_registry.lock);
		if (err != -EAGAIN)
			return err;
		err = ops->await_room(map->context);
		if (err)
			return err;
	}
}

/* Whether processes of the worker may have the region mapped. */
static bool may_have(const struct rpi_shared_map *map,
		     const struct rpi_shared_region *shared)
{
	return shared->serial < map->inherits_below ||
	       rpi_reach_word(&map->reach, (uintptr_t)shared->region.base);
}

struct rpi_claim *rpi_shared_maps_forget(const struct rpi_shared_region *shared)
{
	const uintptr_t low = (uintptr_t)shared->region.base;
	const pid_t pid = getpid();
	struct rpi_claim *claims = NULL;
	struct rpi_shared_map *map;

	for (map = maps; map; map = map->next) {
		bool had = map->ops && map->pid == pid && may_have(map, shared);
		struct rpi_claim *claim;

		rpi_reach_clear(&map->reach, low, shared->region.bytes);
		/* Without memory to note it the processes keep the pages until something
		 * else is mapped there: no task gets to name them. */
		claim = had ? calloc(1, sizeof(*claim)) : NULL;
		if (!claim)
			continue;
		claim->map = map;
		claim->next = claims;
		claims = claim;
	}
	return claims;
}

int rpi_shared_map_populate(const struct rpi_shared_map *map, size_t bytes_max)
{
	size_t offset = 0;
	uintptr_t low;
	size_t bytes;

	while (bytes_max && rpi_reach_next(&map->reach, &offset, &low, &bytes)) {
		/* Huge pages and kernels before 5.14 may refuse a part, or the call:
		 * the first use then touches. */
		bytes = bytes < bytes_max ? bytes : bytes_max;
		if (madvise((void *)low, bytes, MADV_POPULATE_WRITE) && errno == ENOMEM)
			return rpi_fail(
				-ENOMEM,
				"prepare: no memory to map %zu bytes of shared memory",
				bytes);
		bytes_max -= bytes;
	}
	return 0;
}

size_t rpi_shared_map_info(const struct rpi_shared_map *map,
			   struct rp_region_info *info_out, size_t max)
{
	struct rpi_shared_region *shared;
	size_t count = 0;

	pthread_mutex_lock(&rpi_registry.lock);
	for (shared = rpi_registry.regions; shared; shared = shared->next) {
		if (!rpi_shared_map_covers(map, shared->region.base, 1))
			continue;
		if (count < max)
			rpi_region_info(&shared->region, &info_out[count]);
		count++;
	}
	pthread_mutex_unlock(&rpi_registry.lock);
	return count;
}
