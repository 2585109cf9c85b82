/* SPDX-License-Identifier: MIT */
/*
 * Device memory of one chip, managed in the parent: no round trip. Constant time, but
 * for the last look before -ENOMEM. Blocks start on RP_DEVICE_ALIGN and join their free
 * neighbours when given back. Not thread-safe; its owner has a lock.
 */
#ifndef RPI_TENSOR_HEAP_H
#define RPI_TENSOR_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpi_block {
	uint64_t address;
	uint64_t bytes;		 /* a multiple of RP_DEVICE_ALIGN */
	uint64_t asked;		 /* what a live block was asked for: its user's bounds */
	struct rpi_block *below; /* neighbours by address */
	struct rpi_block *above;
	struct rpi_block *before; /* in its free list */
	struct rpi_block *after;  /* or in the hash chain of live blocks */
	uint32_t owner;		  /* the owner's mark on a live block */
	bool free;
};

/* Free blocks by size: four lists for each power of two. */
#define RPI_HEAP_BINS (64 * 4)

struct rpi_heap {
	uint64_t base;
	uint64_t bytes;
	uint64_t committed; /* live blocks */
	struct rpi_block *bins[RPI_HEAP_BINS];
	uint64_t occupied[RPI_HEAP_BINS / 64]; /* bit set: the bin has blocks */
	struct rpi_block **live;	       /* hash by address */
	uint32_t live_slots;		       /* power of two */
	uint32_t live_count;
	uint32_t chip;		 /* for error lines */
	const char *option;	 /* and which option would give more */
	struct rpi_block *spare; /* records of blocks that have joined others */
#ifdef RPI_TESTING
	uint64_t looks; /* blocks looked at so far */
#endif
};

/* Manage [base, base + bytes) of a chip; base aligned to RP_DEVICE_ALIGN. `option` is the
 * worker's that sizes it, a literal. 0 or -ENOMEM. */
int rpi_heap_init(struct rpi_heap *heap, const char *option, uint32_t chip, uint64_t base,
		  uint64_t bytes);
void rpi_heap_fini(struct rpi_heap *heap);

/* Make records for so many blocks ahead: until there are more, no call allocates any.
 * 0 or -ENOMEM. */
int rpi_heap_reserve(struct rpi_heap *heap, uint32_t blocks);

/* A block that fits closely, or else the smallest list's first that is large enough. 0;
 * -ENOMEM with an error line that says what was asked, what is free, and the largest
 * free block; -EINVAL for 0 bytes. */
int rpi_heap_alloc(struct rpi_heap *heap, const char *call, uint64_t bytes,
		   uint32_t owner, struct rpi_block **block_out);
void rpi_heap_free(struct rpi_heap *heap, struct rpi_block *block);

/* The live block that starts at `address`, or NULL. */
struct rpi_block *rpi_heap_find(struct rpi_heap *heap, uint64_t address);

/* The live block that holds `address`, for error lines; slow. */
struct rpi_block *rpi_heap_holding(const struct rpi_heap *heap, uint64_t address);

#endif
