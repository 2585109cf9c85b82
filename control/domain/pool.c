/* SPDX-License-Identifier: MIT */
#include "domain/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/testing.h"

/* A slice starts on a huge page, so that no two chips share one. */
#define SLICE_ALIGN ((size_t)2 << 20)

static size_t round_up(size_t bytes, size_t align)
{
	return (bytes + align - 1) & ~(align - 1);
}

/* Slots are initialised when they are used: an unused one costs no page. */
static void lay_out(struct rpi_pool *pool)
{
	const size_t pairs = (size_t)pool->chip_count * pool->chip_count;
	uint8_t *at = pool->region.base;

	pool->slots = (struct rpi_domain_slot *)at;
	at += RP_MAX_DOMAINS * sizeof(*pool->slots);
	pool->lines = (struct rpi_comm_line *)at;
	at += RP_MAX_DOMAINS * pairs * sizeof(*pool->lines);
	pool->slices = (uint8_t *)pool->region.base +
		       round_up((size_t)(at - (uint8_t *)pool->region.base), SLICE_ALIGN);
}

static int open_heaps(struct rpi_pool *pool)
{
	uint32_t chip;
	int err = 0;

	pool->heaps = calloc(pool->chip_count, sizeof(*pool->heaps));
	if (!pool->heaps)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	for (chip = 0; !err && chip < pool->chip_count; chip++) {
		uint64_t base = (uint64_t)(uintptr_t)pool->slices +
				chip * (uint64_t)pool->slice_bytes;

		pool->fresh[chip] = base;
		err = rpi_heap_init(&pool->heaps[chip], "window_memory_bytes", chip, base,
				    pool->slice_bytes);
		/* Each domain's, and the room behind it: a dispatch allocates none. */
		if (!err)
			err = rpi_heap_reserve(&pool->heaps[chip], 2 * RP_MAX_DOMAINS);
	}
	return err;
}

int rpi_pool_init(struct rpi_pool *pool, uint32_t chip_count, size_t window_memory_bytes,
		  enum rp_page_policy pages)
{
	const size_t pairs = (size_t)chip_count * chip_count;
	size_t bytes = RP_MAX_DOMAINS * (sizeof(struct rpi_domain_slot) +
					 pairs * sizeof(struct rpi_comm_line));
	int err;

	memset(pool, 0, sizeof(*pool));
	pool->chip_count = chip_count;
	pool->slice_bytes = round_up(window_memory_bytes, SLICE_ALIGN);
	bytes = round_up(bytes, SLICE_ALIGN) + chip_count * pool->slice_bytes;
	err = rpi_region_create_lazy(&pool->region, "rp-windows", bytes, pages);
	if (err)
		return err;
	lay_out(pool);
	return open_heaps(pool);
}

void rpi_pool_fini(struct rpi_pool *pool)
{
	uint32_t chip;

	for (chip = 0; pool->heaps && chip < pool->chip_count; chip++)
		rpi_heap_fini(&pool->heaps[chip]);
	free(pool->heaps);
	pool->heaps = NULL;
	if (pool->region.base)
		rpi_region_destroy(&pool->region);
}

int rpi_pool_alloc(struct rpi_pool *pool, const char *name, uint32_t chip, uint64_t bytes,
		   struct rpi_block **block_out, bool *dirty_out)
{
	char call[RP_MAX_DOMAIN_NAME + 64];
	int err;

	rpi_format(call, sizeof(call), "rp_run_domain: a window of '%s'", name);
	err = rpi_heap_alloc(&pool->heaps[chip], call, bytes, 0, block_out);
	if (err)
		return err;
	*dirty_out |= (*block_out)->address < pool->fresh[chip];
	if ((*block_out)->address + (*block_out)->bytes > pool->fresh[chip])
		pool->fresh[chip] = (*block_out)->address + (*block_out)->bytes;
	return 0;
}

void rpi_pool_free(struct rpi_pool *pool, uint32_t chip, struct rpi_block *block)
{
	/* A test sees to it that a window which does not come free is noticed. */
	if (!rpi_test_point("domain.free"))
		rpi_heap_free(&pool->heaps[chip], block);
}

uint64_t rpi_pool_committed(const struct rpi_pool *pool)
{
	uint64_t bytes = 0;
	uint32_t chip;

	for (chip = 0; pool->heaps && chip < pool->chip_count; chip++)
		bytes += pool->heaps[chip].committed;
	return bytes;
}
