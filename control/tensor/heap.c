/* SPDX-License-Identifier: MIT */
/*
 * Two-level segregated fit. Invariant: the blocks of a heap, followed by `above`,
 * cover it without a gap, and no two neighbours are free.
 */
#include "tensor/heap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/device.h>

#include "base/error.h"
#include "base/testing.h"

#define FIRST_SLOTS 256u

/* So many blocks of the request's own list are tried first: freed blocks are mostly
 * asked for again in their size, and a hole that fits beats a cut. */
#define CLOSE_TRIES 4u

static void count_look(struct rpi_heap *heap)
{
#ifdef RPI_TESTING
	heap->looks++;
#else
	(void)heap;
#endif
}

static int no_memory(uint32_t chip)
{
	return rpi_fail(-ENOMEM, "prepare: no memory for the heap of chip %u", chip);
}

static struct rpi_block *make_block(void)
{
	return rpi_test_point("heap.block") ? NULL : calloc(1, sizeof(struct rpi_block));
}

static struct rpi_block *new_block(struct rpi_heap *heap)
{
	struct rpi_block *block = heap->spare;

	if (!block)
		return make_block();
	heap->spare = block->after;
	return block;
}

/* Kept: whoever gives memory back mostly asks for some again. */
static void put_aside(struct rpi_heap *heap, struct rpi_block *block)
{
	block->after = heap->spare;
	heap->spare = block;
}

int rpi_heap_reserve(struct rpi_heap *heap, uint32_t blocks)
{
	while (blocks--) {
		struct rpi_block *block = make_block();

		if (!block)
			return no_memory(heap->chip);
		put_aside(heap, block);
	}
	return 0;
}

static struct rpi_block **new_table(uint32_t slots)
{
	return rpi_test_point("heap.table") ? NULL
					    : calloc(slots, sizeof(struct rpi_block *));
}

static uint32_t log2_of(uint64_t bytes)
{
	return 63u - (uint32_t)__builtin_clzll(bytes);
}

/* The list that a free block of this size belongs to. */
static uint32_t bin_of(uint64_t bytes)
{
	uint32_t log = log2_of(bytes);

	return log * 4 + ((uint32_t)(bytes >> (log - 2)) & 3);
}

/* The first list all of whose blocks have at least this size. */
static uint32_t bin_above(uint64_t bytes)
{
	uint64_t step = UINT64_C(1) << (log2_of(bytes) - 2);

	return bin_of(bytes + step - 1);
}

static void list_free(struct rpi_heap *heap, struct rpi_block *block)
{
	uint32_t bin = bin_of(block->bytes);

	block->free = true;
	block->before = NULL;
	block->after = heap->bins[bin];
	if (block->after)
		block->after->before = block;
	heap->bins[bin] = block;
	heap->occupied[bin / 64] |= UINT64_C(1) << (bin % 64);
}

static void unlist_free(struct rpi_heap *heap, struct rpi_block *block)
{
	uint32_t bin = bin_of(block->bytes);

	if (block->before)
		block->before->after = block->after;
	else
		heap->bins[bin] = block->after;
	if (block->after)
		block->after->before = block->before;
	if (!heap->bins[bin])
		heap->occupied[bin / 64] &= ~(UINT64_C(1) << (bin % 64));
	block->free = false;
}

static uint32_t slot_of(const struct rpi_heap *heap, uint64_t address)
{
	uint64_t mixed = address / RP_DEVICE_ALIGN * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(mixed >> 32) & (heap->live_slots - 1);
}

static void hash_in(struct rpi_heap *heap, struct rpi_block *block)
{
	struct rpi_block **slot = &heap->live[slot_of(heap, block->address)];

	block->before = NULL;
	block->after = *slot;
	*slot = block;
}

static void hash_out(struct rpi_heap *heap, const struct rpi_block *block)
{
	struct rpi_block **link = &heap->live[slot_of(heap, block->address)];

	while (*link != block) {
		count_look(heap);
		link = &(*link)->after;
	}
	*link = block->after;
}

/* Keep chains short; without memory they only get longer. */
static void grow_hash(struct rpi_heap *heap)
{
	uint32_t old_slots = heap->live_slots;
	struct rpi_block **old = heap->live;
	struct rpi_block **live = new_table(2 * old_slots);
	uint32_t i;

	if (!live)
		return;
	heap->live = live;
	heap->live_slots = 2 * old_slots;
	for (i = 0; i < old_slots; i++) {
		while (old[i]) {
			struct rpi_block *block = old[i];

			old[i] = block->after;
			hash_in(heap, block);
		}
	}
	free(old);
}

int rpi_heap_init(struct rpi_heap *heap, const char *option, uint32_t chip, uint64_t base,
		  uint64_t bytes)
{
	struct rpi_block *all = make_block();

	memset(heap, 0, sizeof(*heap));
	heap->chip = chip;
	heap->option = option;
	heap->live = new_table(FIRST_SLOTS);
	if (!all || !heap->live) {
		free(all);
		free(heap->live);
		heap->live = NULL;
		return no_memory(chip);
	}
	heap->live_slots = FIRST_SLOTS;
	heap->base = base;
	heap->bytes = bytes / RP_DEVICE_ALIGN * RP_DEVICE_ALIGN;
	all->address = base;
	all->bytes = heap->bytes;
	if (heap->bytes)
		list_free(heap, all);
	else
		free(all);
	return 0;
}

void rpi_heap_fini(struct rpi_heap *heap)
{
	struct rpi_block *block = NULL;
	uint32_t i;

	/* Any block leads to all of them. */
	for (i = 0; heap->live && i < heap->live_slots && !block; i++)
		block = heap->live[i];
	for (i = 0; i < RPI_HEAP_BINS && !block; i++)
		block = heap->bins[i];
	while (block && block->below)
		block = block->below;
	while (block) {
		struct rpi_block *above = block->above;

		free(block);
		block = above;
	}
	while ((block = heap->spare)) {
		heap->spare = block->after;
		free(block);
	}
	free(heap->live);
	memset(heap, 0, sizeof(*heap));
}

static struct rpi_block *first_from(const struct rpi_heap *heap, uint32_t bin)
{
	uint32_t word = bin / 64;
	uint64_t bits;

	if (bin >= RPI_HEAP_BINS)
		return NULL;
	bits = heap->occupied[word] & (~UINT64_C(0) << (bin % 64));
	while (!bits) {
		if (++word == RPI_HEAP_BINS / 64)
			return NULL;
		bits = heap->occupied[word];
	}
	return heap->bins[word * 64 + (uint32_t)__builtin_ctzll(bits)];
}

static struct rpi_block *first_that_fits(struct rpi_heap *heap, uint64_t bytes,
					 uint32_t tries)
{
	struct rpi_block *block = heap->bins[bin_of(bytes)];

	while (block && tries--) {
		count_look(heap);
		if (block->bytes >= bytes)
			return block;
		block = block->after;
	}
	return NULL;
}

/* The request's own list holds blocks that fit and others that don't. It is looked
 * through to its end only when nothing larger is left, so that memory is never refused
 * that is there. */
static struct rpi_block *find_fit(struct rpi_heap *heap, uint64_t bytes)
{
	struct rpi_block *block = first_that_fits(heap, bytes, CLOSE_TRIES);

	if (!block)
		block = first_from(heap, bin_above(bytes));
	return block ? block : first_that_fits(heap, bytes, UINT32_MAX);
}

static uint64_t largest_free(const struct rpi_heap *heap)
{
	const struct rpi_block *block;
	uint64_t largest = 0;
	uint32_t bin;

	for (bin = RPI_HEAP_BINS; bin-- > 0 && !largest;)
		for (block = heap->bins[bin]; block; block = block->after)
			if (block->bytes > largest)
				largest = block->bytes;
	return largest;
}

static void split(struct rpi_heap *heap, struct rpi_block *block, uint64_t bytes)
{
	struct rpi_block *rest;

	if (block->bytes == bytes)
		return;
	rest = new_block(heap);
	if (!rest)
		return; /* the block keeps the rest */
	rest->address = block->address + bytes;
	rest->bytes = block->bytes - bytes;
	rest->below = block;
	rest->above = block->above;
	if (rest->above)
		rest->above->below = rest;
	block->above = rest;
	block->bytes = bytes;
	list_free(heap, rest);
}

int rpi_heap_alloc(struct rpi_heap *heap, const char *call, uint64_t bytes,
		   uint32_t owner, struct rpi_block **block_out)
{
	uint64_t rounded = (bytes + RP_DEVICE_ALIGN - 1) &
			   ~(uint64_t)(RP_DEVICE_ALIGN - 1);
	struct rpi_block *block;

	if (!bytes)
		return rpi_fail(-EINVAL, "%s: 0 bytes, expected at least 1", call);
	/* Two comparisons, because the rounding may wrap. */
	block = bytes <= heap->bytes && rounded <= heap->bytes ? find_fit(heap, rounded)
							       : NULL;
	if (!block)
		return rpi_fail(-ENOMEM,
				"%s: %" PRIu64
				" bytes of chip %u's memory, free are %" PRIu64
				", the largest block has %" PRIu64 " (%s)",
				call, bytes, heap->chip, heap->bytes - heap->committed,
				largest_free(heap), heap->option);
	unlist_free(heap, block);
	split(heap, block, rounded);
	block->owner = owner;
	block->asked = bytes;
	hash_in(heap, block);
	heap->committed += block->bytes;
	if (++heap->live_count > 2 * heap->live_slots)
		grow_hash(heap);
	*block_out = block;
	return 0;
}

/* `above` joins `block`. */
static void join(struct rpi_heap *heap, struct rpi_block *block, struct rpi_block *above)
{
	block->bytes += above->bytes;
	block->above = above->above;
	if (block->above)
		block->above->below = block;
	put_aside(heap, above);
}

void rpi_heap_free(struct rpi_heap *heap, struct rpi_block *block)
{
	hash_out(heap, block);
	heap->committed -= block->bytes;
	heap->live_count--;
	if (block->above && block->above->free) {
		unlist_free(heap, block->above);
		join(heap, block, block->above);
	}
	if (block->below && block->below->free) {
		struct rpi_block *below = block->below;

		unlist_free(heap, below);
		join(heap, below, block);
		block = below;
	}
	list_free(heap, block);
}

struct rpi_block *rpi_heap_find(struct rpi_heap *heap, uint64_t address)
{
	struct rpi_block *block = heap->live[slot_of(heap, address)];

	while (block && block->address != address) {
		count_look(heap);
		block = block->after;
	}
	return block;
}

struct rpi_block *rpi_heap_holding(const struct rpi_heap *heap, uint64_t address)
{
	struct rpi_block *block;
	uint32_t i;

	for (i = 0; i < heap->live_slots; i++)
		for (block = heap->live[i]; block; block = block->after)
			if (address >= block->address &&
			    address - block->address < block->bytes)
				return block;
	return NULL;
}
