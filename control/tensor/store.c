/* SPDX-License-Identifier: MIT */
#include "tensor/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "memory/view.h"

/* The bits of rp_tensor.resident: index, generation, the worker's stamp. */
#define INDEX_BITS	20
#define GENERATION_BITS 20
#define GENERATION_MASK ((UINT64_C(1) << GENERATION_BITS) - 1)
#define STAMP_SHIFT	(INDEX_BITS + GENERATION_BITS)

#define KIND_BITS	2

int rpi_store_init(struct rpi_store *store, uint64_t worker_id, uint32_t chip_count)
{
	memset(store, 0, sizeof(*store));
	pthread_mutex_init(&store->lock, NULL);
	/* Slot (10 bits) and generation of the table of workers; the generation starts
	 * at 1, so the stamp is never 0 before 16384 workers have used one slot. */
	store->stamp = (uint32_t)(worker_id & 0x3ff) |
		       ((uint32_t)(worker_id >> 32) & 0x3fff) << 10;
	if (!store->stamp)
		store->stamp = 1;
	store->chip_count = chip_count;
	return 0;
}

int rpi_store_open_heap(struct rpi_store *store, uint32_t chip, uint64_t base,
			uint64_t bytes)
{
	return rpi_heap_init(&store->heaps[chip], base, bytes);
}

void rpi_store_fini(struct rpi_store *store)
{
	uint32_t i;
	uint32_t segment;

	for (segment = 0; segment < RPI_SEGMENTS; segment++) {
		struct rpi_entry *entries = atomic_load_explicit(
			&store->segments[segment], memory_order_relaxed);

		for (i = 0; entries && i < RPI_SEGMENT_ENTRIES; i++)
			free(entries[i].shards);
		free(entries);
	}
	for (i = 0; i < store->chip_count; i++)
		rpi_heap_fini(&store->heaps[i]);
	pthread_mutex_destroy(&store->lock);
	memset(store, 0, sizeof(*store));
}

static struct rpi_entry *entry_at(struct rpi_store *store, uint32_t idx)
{
	struct rpi_entry *entries;

	if (idx / RPI_SEGMENT_ENTRIES >= RPI_SEGMENTS)
		return NULL;
	/* Acquire: the segment was zeroed before it was published. */
	entries = atomic_load_explicit(&store->segments[idx / RPI_SEGMENT_ENTRIES],
				       memory_order_acquire);
	return entries ? &entries[idx % RPI_SEGMENT_ENTRIES] : NULL;
}

static int grow(struct rpi_store *store, const char *call)
{
	uint32_t segment = store->entry_count / RPI_SEGMENT_ENTRIES;
	struct rpi_entry *entries;

	if (segment == RPI_SEGMENTS)
		return rpi_fail(-ENOMEM, "%s: %u tensors are alive, expected fewer", call,
				store->entry_count);
	entries = calloc(RPI_SEGMENT_ENTRIES, sizeof(*entries));
	if (!entries)
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	atomic_store_explicit(&store->segments[segment], entries, memory_order_release);
	return 0;
}

struct rpi_entry *rpi_store_new(struct rpi_store *store, const char *call,
				uint32_t *idx_out)
{
	uint32_t idx = store->first_free;

	if (idx) {
		struct rpi_entry *entry = entry_at(store, --idx);

		store->first_free = entry->next_free;
		*idx_out = idx;
		return entry;
	}
	if (!(store->entry_count % RPI_SEGMENT_ENTRIES) && grow(store, call))
		return NULL;
	*idx_out = store->entry_count++;
	return entry_at(store, *idx_out);
}

uint64_t rpi_store_publish(struct rpi_store *store, uint32_t idx,
			   enum rpi_entry_kind kind)
{
	struct rpi_entry *entry = entry_at(store, idx);
	uint64_t old = atomic_load_explicit(&entry->word, memory_order_relaxed);
	uint64_t generation = ((old >> KIND_BITS) + 1) & GENERATION_MASK;

	if (!generation)
		generation = 1;
	atomic_store_explicit(&entry->word, generation << KIND_BITS | (uint64_t)kind,
			      memory_order_release);
	return (uint64_t)store->stamp << STAMP_SHIFT | generation << INDEX_BITS | idx;
}

void rpi_store_drop(struct rpi_store *store, uint32_t idx)
{
	struct rpi_entry *entry = entry_at(store, idx);
	uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);

	/* The generation stays: a free of the same name again is seen as such. */
	atomic_store_explicit(&entry->word, word >> KIND_BITS << KIND_BITS,
			      memory_order_release);
	free(entry->shards);
	entry->shards = NULL;
	entry->next_free = store->first_free;
	store->first_free = idx + 1;
}

uint32_t rpi_store_index(const struct rp_tensor *tensor)
{
	return (uint32_t)tensor->resident & ((1u << INDEX_BITS) - 1);
}

bool rpi_store_freed_before(const struct rpi_entry *entry, const struct rp_tensor *tensor)
{
	uint64_t generation = tensor->resident >> INDEX_BITS & GENERATION_MASK;

	return atomic_load_explicit(&entry->word, memory_order_acquire) ==
	       (generation << KIND_BITS | RPI_ENTRY_NONE);
}

static int fail_stale(const char *call)
{
	return rpi_fail(
		-ESTALE,
		"%s: a resident tensor that was freed, expected one that is alive", call);
}

int rpi_store_find(struct rpi_store *store, const char *call,
		   const struct rp_tensor *tensor, struct rpi_entry **entry_out,
		   enum rpi_entry_kind *kind_out)
{
	uint64_t name = tensor->resident;
	uint64_t generation = name >> INDEX_BITS & GENERATION_MASK;
	struct rpi_entry *entry;
	uint64_t word;

	*entry_out = NULL;
	*kind_out = RPI_ENTRY_NONE;
	if (!name)
		return rpi_fail(-EINVAL,
				"%s: host memory at %p, expected a tensor from "
				"rp_worker_alloc_tensor() or rp_worker_alloc_stacked()",
				call, tensor->data);
	if (name >> STAMP_SHIFT != store->stamp)
		return rpi_fail(
			-EXDEV,
			"%s: a resident tensor of another worker, expected one of "
			"this worker's",
			call);
	entry = entry_at(store, rpi_store_index(tensor));
	if (!entry)
		return fail_stale(call);
	word = atomic_load_explicit(&entry->word, memory_order_acquire);
	*entry_out = entry;
	*kind_out = (enum rpi_entry_kind)(word & ((1u << KIND_BITS) - 1));
	/* A free leaves the kind NONE under the same generation. */
	if (word >> KIND_BITS != generation || *kind_out == RPI_ENTRY_NONE)
		return fail_stale(call);
	return 0;
}

int rpi_store_resolve(void *context, const char *call, const struct rp_tensor *tensor,
		      struct rpi_resident *out)
{
	struct rpi_entry *entry;
	enum rpi_entry_kind kind;
	struct rpi_view view;
	uint64_t offset = (uint64_t)(uintptr_t)tensor->data;
	uint64_t total;
	uint64_t shard;
	uint64_t end;
	int err;

	err = rpi_store_find(context, call, tensor, &entry, &kind);
	if (!err)
		err = rpi_view_from_tensor(call, tensor, &view);
	if (err)
		return err;
	total = kind == RPI_ENTRY_STACK ? entry->bytes * (uint64_t)entry->shape[0]
					: entry->bytes;
	end = offset + (uint64_t)view.span_bytes;
	if (tensor->dtype != entry->dtype)
		return rpi_fail(-EINVAL, "%s: a resident tensor is named as %s, it is %s",
				call, rp_dtype_name((enum rp_dtype)tensor->dtype),
				rp_dtype_name((enum rp_dtype)entry->dtype));
	if (offset > total || (uint64_t)view.span_bytes > total - offset)
		return rpi_fail(-ERANGE,
				"%s: bytes %" PRIu64 "..%" PRIu64
				" of a resident tensor that has %" PRIu64,
				call, offset, end, total);
	out->dtype = entry->dtype;
	if (kind == RPI_ENTRY_TENSOR) {
		out->chip = entry->one.chip;
		out->address = entry->one.block->address + offset;
		return 0;
	}
	shard = offset / entry->bytes;
	if (end > (shard + 1) * entry->bytes) {
		out->chip = RPI_CHIP_SEVERAL;
		out->address = 0;
		return 0;
	}
	out->chip = entry->shards[shard].chip;
	out->address = entry->shards[shard].block->address + offset % entry->bytes;
	return 0;
}

bool rpi_store_is_device_address(void *context, uint64_t address)
{
	const struct rpi_store *store = context;
	uint32_t chip;

	for (chip = 0; chip < store->chip_count; chip++)
		if (address >= store->heaps[chip].base &&
		    address - store->heaps[chip].base < store->heaps[chip].bytes)
			return true;
	return false;
}
