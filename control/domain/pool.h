/* SPDX-License-Identifier: MIT */
/*
 * Memory of the windows: one region for the worker's life, a slice of it for each chip,
 * and before them what all processes know of each domain. Slices are managed in the
 * parent, which never touches them: their pages come to the chips that use them, once.
 */
#ifndef RPI_DOMAIN_POOL_H
#define RPI_DOMAIN_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "region/region.h"
#include "tensor/heap.h"
#include "window/slot.h"

struct rpi_pool {
	struct rpi_region region;
	uint32_t chip_count;
	struct rpi_domain_slot *slots; /* shared, [RP_MAX_DOMAINS] */
	struct rpi_comm_line *lines;   /* shared, [RP_MAX_DOMAINS][chips][chips] */
	uint8_t *slices;	       /* shared */
	size_t slice_bytes;
	struct rpi_heap *heaps; /* [chip_count] */
	/* Addresses at and past this have never been handed out: they read zero. */
	uint64_t fresh[RP_MAX_PEERS];
};

int rpi_pool_init(struct rpi_pool *pool, uint32_t chip_count, size_t window_memory_bytes,
		  enum rp_page_policy pages);
void rpi_pool_fini(struct rpi_pool *pool);

/* A window on `chip`; *dirty_out when it may hold an earlier one's bytes. 0, or -ENOMEM
 * with an error line. */
int rpi_pool_alloc(struct rpi_pool *pool, const char *name, uint32_t chip, uint64_t bytes,
		   struct rpi_block **block_out, bool *dirty_out);
void rpi_pool_free(struct rpi_pool *pool, uint32_t chip, struct rpi_block *block);

/* Bytes of windows that are allocated, over all chips. */
uint64_t rpi_pool_committed(const struct rpi_pool *pool);

#endif
