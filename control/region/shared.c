/* SPDX-License-Identifier: MIT */
/* rp_shared_alloc(): regions of their own for large blocks, arenas for small. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "region/registry.h"

/* From here on a block is a region of its own. */
#define OWN_REGION_BYTES ((size_t)1 << 20)

struct rpi_registry rpi_registry = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.next_serial = 1,
};

/* A region that nobody else knows of yet. Large ones take the kernel a while, so the
 * lock is not asked for. */
static int create(size_t bytes, enum rp_page_policy pages, bool arena,
		  struct rpi_shared_region **out)
{
	struct rpi_shared_region *shared = calloc(1, sizeof(*shared));
	int err;

	if (shared && arena)
		shared->arena = calloc(1, sizeof(*shared->arena));
	if (!shared || (arena && !shared->arena)) {
		free(shared);
		return rpi_fail(-ENOMEM, "rp_shared_alloc: no memory");
	}
	/* Relaxed: compared by those who fork, who have passed the lock since. */
	shared->serial = atomic_fetch_add_explicit(&rpi_registry.next_serial, 1,
						   memory_order_relaxed);
	err = rpi_region_create(&shared->region, arena ? "rp-arena" : "rp-shared", bytes,
				pages);
	if (err) {
		free(shared->arena);
		free(shared);
		return err;
	}
	shared->asked = bytes;
	shared->pid = getpid();
	*out = shared;
	return 0;
}

static void enter(struct rpi_shared_region *shared)
{
	shared->next = rpi_registry.regions;
	rpi_registry.regions = shared;
}

/* Returns the serial if processes of workers still have the region, else 0. */
static uint64_t destroy(struct rpi_shared_region *shared)
{
	struct rpi_shared_region **link = &rpi_registry.regions;
	struct rpi_claim *claims;
	uint64_t serial;

	while (*link != shared)
		link = &(*link)->next;
	*link = shared->next;
	claims = rpi_shared_maps_forget(shared);
	serial = claims ? shared->serial : 0;
	rpi_condemn(shared, claims);
	free(shared->arena);
	free(shared);
	return serial;
}

/* After a fork both processes have an arena's memory, each with notes of its own:
 * what looks free to the child may be in use by its parent. */
static bool has_own_arena(const struct rpi_shared_region *shared)
{
	return shared->arena && shared->pid == getpid();
}

static int alloc_small(size_t bytes, void **ptr_out)
{
	struct rpi_shared_region *shared;
	size_t offset;
	int err;

	for (shared = rpi_registry.regions; shared; shared = shared->next)
		if (has_own_arena(shared) &&
		    rpi_arena_take(shared->arena, bytes, &offset))
			break;
	if (!shared) {
		err = create(RPI_ARENA_BYTES, RP_PAGES_AUTO, true, &shared);
		if (err)
			return err;
		enter(shared);
		rpi_arena_take(shared->arena, bytes, &offset);
	}
	*ptr_out = (uint8_t *)shared->region.base + offset;
	/* It may have been somebody's before. */
	memset(*ptr_out, 0, bytes);
	return 0;
}

static int alloc(size_t bytes, enum rp_page_policy pages, bool own, void **ptr_out)
{
	struct rpi_shared_region *shared;
	int err;

	if (!ptr_out)
		return rpi_fail(-EINVAL, "rp_shared_alloc: ptr_out NULL");
	if (!bytes)
		return rpi_fail(-EINVAL, "rp_shared_alloc: bytes 0, expected at least 1");
	if ((unsigned int)pages > RP_PAGES_NEVER)
		return rpi_fail(-EINVAL, "rp_shared_alloc: pages %u, expected 0..%u",
				(unsigned int)pages, RP_PAGES_NEVER);
	own = own || bytes >= OWN_REGION_BYTES;
	/* Addresses that are free again by now. */
	pthread_mutex_lock(&rpi_registry.lock);
	rpi_condemned_settle();
	err = own ? 0 : alloc_small(bytes, ptr_out);
	pthread_mutex_unlock(&rpi_registry.lock);
	if (err || !own)
		return err;
	err = create(bytes, pages, false, &shared);
	if (err)
		return err;
	pthread_mutex_lock(&rpi_registry.lock);
	enter(shared);
	pthread_mutex_unlock(&rpi_registry.lock);
	*ptr_out = shared->region.base;
	return 0;
}

int rp_shared_alloc(size_t bytes, void **ptr_out)
{
	return alloc(bytes, RP_PAGES_AUTO, false, ptr_out);
}

int rp_shared_alloc_pages(size_t bytes, enum rp_page_policy pages, void **ptr_out)
{
	return alloc(bytes, pages, true, ptr_out);
}

struct rpi_shared_region *rpi_registry_find(const void *ptr, size_t *offset_out)
{
	struct rpi_shared_region *shared;

	for (shared = rpi_registry.regions; shared; shared = shared->next) {
		uintptr_t base = (uintptr_t)shared->region.base;

		if ((uintptr_t)ptr < base ||
		    (uintptr_t)ptr - base >= shared->region.bytes)
			continue;
		*offset_out = (uintptr_t)ptr - base;
		return shared;
	}
	return NULL;
}

static bool other_empty_arena(const struct rpi_shared_region *except)
{
	const struct rpi_shared_region *shared;

	for (shared = rpi_registry.regions; shared; shared = shared->next)
		if (shared != except && has_own_arena(shared) &&
		    !shared->arena->used_units)
			return true;
	return false;
}

int rp_shared_free(void *ptr)
{
	struct rpi_shared_region *shared;
	uint64_t condemned = 0;
	size_t offset = 0;
	int err = 0;

	if (!ptr)
		return 0;
	pthread_mutex_lock(&rpi_registry.lock);
	shared = rpi_registry_find(ptr, &offset);
	if (shared && !shared->arena && !offset) {
		condemned = destroy(shared);
	} else if (shared && shared->arena && rpi_arena_give(shared->arena, offset)) {
		/* One empty arena stays, for the next small block. */
		if (!shared->arena->used_units &&
		    (!has_own_arena(shared) || other_empty_arena(shared)))
			condemned = destroy(shared);
	} else {
		err = rpi_fail(
			-EINVAL,
			"rp_shared_free: %p, expected the start of a live block of "
			"rp_shared_alloc()",
			ptr);
	}
	pthread_mutex_unlock(&rpi_registry.lock);
	if (condemned)
		rpi_condemned_await(condemned);
	return err;
}

size_t rp_shared_size(const void *ptr)
{
	struct rpi_shared_region *shared;
	size_t offset = 0;
	size_t bytes = 0;

	pthread_mutex_lock(&rpi_registry.lock);
	shared = rpi_registry_find(ptr, &offset);
	if (shared && shared->arena)
		bytes = rpi_arena_asked(shared->arena, offset);
	else if (shared && !offset)
		bytes = shared->asked;
	pthread_mutex_unlock(&rpi_registry.lock);
	return bytes;
}
