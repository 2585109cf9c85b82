/* SPDX-License-Identifier: MIT */
/* rp_shared_alloc(): regions of their own for large blocks, arenas for small. */
#include "region/shared.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "region/arena.h"
#include "region/region.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* From here on a block is a region of its own. */
#define OWN_REGION_BYTES ((size_t)1 << 20)

struct shared_region {
	struct rpi_region region;
	uint64_t serial;
	size_t asked;		 /* of a region that is one block */
	struct rpi_arena *arena; /* NULL: one block */
	pid_t pid;		 /* of the process that created it */
	struct shared_region *next;
};

/* Slow paths only. A forked child that inherits the lock taken allocates no shared
 * memory: worker processes never do, and other children of the host own nothing. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared_region *regions;
static struct rpi_shared_map *maps;
static uint64_t next_serial = 1;

static int create(size_t bytes, enum rp_page_policy pages, bool arena,
		  struct shared_region **out)
{
	struct shared_region *shared = calloc(1, sizeof(*shared));
	int err;

	if (shared && arena)
		shared->arena = calloc(1, sizeof(*shared->arena));
	if (!shared || (arena && !shared->arena)) {
		free(shared);
		return rpi_fail(-ENOMEM, "rp_shared_alloc: no memory");
	}
	err = rpi_region_create(&shared->region, arena ? "rp-arena" : "rp-shared", bytes,
				pages);
	if (err) {
		free(shared->arena);
		free(shared);
		return err;
	}
	shared->asked = bytes;
	shared->pid = getpid();
	shared->serial = next_serial++;
	shared->next = regions;
	regions = shared;
	*out = shared;
	return 0;
}

/* No worker believes in this region any more. Relaxed: a dispatch that races with
 * the free of its own memory is the caller's error; others look at other entries. */
static void forget_everywhere(uint64_t serial)
{
	struct rpi_shared_map *map;
	uint32_t i;

	for (map = maps; map; map = map->next)
		for (i = 0; i < map->count; i++)
			if (map->entries[i].serial == serial)
				atomic_store_explicit(&map->entries[i].alive, 0,
						      memory_order_relaxed);
}

static void destroy(struct shared_region *shared)
{
	struct shared_region **link = &regions;

	while (*link != shared)
		link = &(*link)->next;
	*link = shared->next;
	forget_everywhere(shared->serial);
	rpi_region_destroy(&shared->region);
	free(shared->arena);
	free(shared);
}

/* After a fork both processes have an arena's memory, each with notes of its own:
 * what looks free to the child may be in use by its parent. */
static bool has_own_arena(const struct shared_region *shared)
{
	return shared->arena && shared->pid == getpid();
}

static int alloc_small(size_t bytes, void **ptr_out)
{
	struct shared_region *shared;
	size_t offset;
	int err;

	for (shared = regions; shared; shared = shared->next)
		if (has_own_arena(shared) &&
		    rpi_arena_take(shared->arena, bytes, &offset))
			break;
	if (!shared) {
		err = create(RPI_ARENA_BYTES, RP_PAGES_AUTO, true, &shared);
		if (err)
			return err;
		rpi_arena_take(shared->arena, bytes, &offset);
	}
	*ptr_out = (uint8_t *)shared->region.base + offset;
	/* It may have been somebody's before. */
	memset(*ptr_out, 0, bytes);
	return 0;
}

static int alloc(size_t bytes, enum rp_page_policy pages, bool own, void **ptr_out)
{
	struct shared_region *shared;
	int err;

	if (!ptr_out)
		return rpi_fail(-EINVAL, "rp_shared_alloc: ptr_out NULL");
	if (!bytes)
		return rpi_fail(-EINVAL, "rp_shared_alloc: bytes 0, expected at least 1");
	if ((unsigned int)pages > RP_PAGES_NEVER)
		return rpi_fail(-EINVAL, "rp_shared_alloc: pages %u, expected 0..%u",
				(unsigned int)pages, RP_PAGES_NEVER);
	pthread_mutex_lock(&lock);
	if (own || bytes >= OWN_REGION_BYTES) {
		err = create(bytes, pages, false, &shared);
		if (!err)
			*ptr_out = shared->region.base;
	} else {
		err = alloc_small(bytes, ptr_out);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

int rp_shared_alloc(size_t bytes, void **ptr_out)
{
	return alloc(bytes, RP_PAGES_AUTO, false, ptr_out);
}

int rp_shared_alloc_pages(size_t bytes, enum rp_page_policy pages, void **ptr_out)
{
	return alloc(bytes, pages, true, ptr_out);
}

/* The region that holds ptr, and where in it. */
static struct shared_region *find(const void *ptr, size_t *offset_out)
{
	struct shared_region *shared;

	for (shared = regions; shared; shared = shared->next) {
		uintptr_t base = (uintptr_t)shared->region.base;

		if ((uintptr_t)ptr < base ||
		    (uintptr_t)ptr - base >= shared->region.bytes)
			continue;
		*offset_out = (uintptr_t)ptr - base;
		return shared;
	}
	return NULL;
}

static bool other_empty_arena(const struct shared_region *except)
{
	const struct shared_region *shared;

	for (shared = regions; shared; shared = shared->next)
		if (shared != except && has_own_arena(shared) &&
		    !shared->arena->used_units)
			return true;
	return false;
}

int rp_shared_free(void *ptr)
{
	struct shared_region *shared;
	size_t offset = 0;
	int err = 0;

	if (!ptr)
		return 0;
	pthread_mutex_lock(&lock);
	shared = find(ptr, &offset);
	if (shared && !shared->arena && !offset) {
		destroy(shared);
	} else if (shared && shared->arena && rpi_arena_give(shared->arena, offset)) {
		/* One empty arena stays, for the next small block. */
		if (!shared->arena->used_units &&
		    (!has_own_arena(shared) || other_empty_arena(shared)))
			destroy(shared);
	} else {
		err = rpi_fail(
			-EINVAL,
			"rp_shared_free: %p, expected the start of a live block of "
			"rp_shared_alloc()",
			ptr);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

size_t rp_shared_size(const void *ptr)
{
	struct shared_region *shared;
	size_t offset = 0;
	size_t bytes = 0;

	pthread_mutex_lock(&lock);
	shared = find(ptr, &offset);
	if (shared && shared->arena)
		bytes = rpi_arena_asked(shared->arena, offset);
	else if (shared && !offset)
		bytes = shared->asked;
	pthread_mutex_unlock(&lock);
	return bytes;
}

static int by_address(const void *a, const void *b)
{
	const struct rpi_shared_entry *left = a;
	const struct rpi_shared_entry *right = b;

	return (left->low > right->low) - (left->low < right->low);
}

int rpi_shared_snapshot(struct rpi_shared_map *map_out)
{
	struct shared_region *shared;
	uint32_t count = 0;

	memset(map_out, 0, sizeof(*map_out));
	pthread_mutex_lock(&lock);
	for (shared = regions; shared; shared = shared->next)
		count++;
	map_out->entries = calloc(count ? count : 1, sizeof(*map_out->entries));
	if (!map_out->entries) {
		pthread_mutex_unlock(&lock);
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory for %u regions",
				count);
	}
	for (shared = regions; shared; shared = shared->next) {
		struct rpi_shared_entry *entry = &map_out->entries[map_out->count++];

		entry->low = (uintptr_t)shared->region.base;
		entry->high = entry->low + shared->region.bytes;
		entry->serial = shared->serial;
		atomic_init(&entry->alive, 1);
	}
	qsort(map_out->entries, count, sizeof(*map_out->entries), by_address);
	map_out->next = maps;
	maps = map_out;
	pthread_mutex_unlock(&lock);
	return 0;
}

void rpi_shared_map_release(struct rpi_shared_map *map)
{
	struct rpi_shared_map **link = &maps;

	pthread_mutex_lock(&lock);
	while (*link && *link != map)
		link = &(*link)->next;
	if (*link)
		*link = map->next;
	pthread_mutex_unlock(&lock);
	free(map->entries);
	map->entries = NULL;
	map->count = 0;
}

bool rpi_shared_map_covers(const struct rpi_shared_map *map, const void *addr,
			   size_t bytes)
{
	uintptr_t low = (uintptr_t)addr;
	uint32_t first = 0;
	uint32_t count = map->count;
	const struct rpi_shared_entry *entry;

	/* The last entry that begins at or below addr. */
	while (count > 1) {
		uint32_t half = count / 2;

		if (map->entries[first + half].low <= low)
			first += half;
		count -= half;
	}
	if (!count)
		return false;
	entry = &map->entries[first];
	return entry->low <= low && low < entry->high && bytes <= entry->high - low &&
	       atomic_load_explicit(&entry->alive, memory_order_relaxed);
}

int rpi_shared_map_populate(const struct rpi_shared_map *map, size_t bytes_max)
{
	uint32_t i;

	for (i = 0; i < map->count && bytes_max; i++) {
		const struct rpi_shared_entry *entry = &map->entries[i];
		size_t bytes = entry->high - entry->low;

		/* Relaxed: as in forget_everywhere(). */
		if (!atomic_load_explicit(&entry->alive, memory_order_relaxed))
			continue;
		/* Huge pages and kernels before 5.14 may refuse a part, or the call:
		 * the first use then touches. */
		bytes = bytes < bytes_max ? bytes : bytes_max;
		if (madvise((void *)entry->low, bytes, MADV_POPULATE_WRITE) &&
		    errno == ENOMEM)
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
	struct shared_region *shared;
	size_t count = 0;
	uint32_t i;

	pthread_mutex_lock(&lock);
	for (shared = regions; shared; shared = shared->next) {
		for (i = 0; i < map->count; i++)
			if (map->entries[i].serial == shared->serial)
				break;
		if (i == map->count)
			continue;
		if (count < max)
			rpi_region_info(&shared->region, &info_out[count]);
		count++;
	}
	pthread_mutex_unlock(&lock);
	return count;
}
