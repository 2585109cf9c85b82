/* SPDX-License-Identifier: MIT */
/*
 * Memory order. Looks take no lock.
 *   N1 name   an entry's fields -> word store-release
 *             word load-acquire -> a look reads the fields
 *   N2 reuse  word without a kind -> each field's store-release
 *             a look's field load-acquire -> it reads the word again
 * Invariant: a look that has read one field of a newer entry finds the word changed,
 * and is stale. Generations of an index only grow; when they are used up, so is the
 * index.
 */
#include "tensor/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/testing.h"
#include "memory/view.h"

/* The bits of rp_tensor.resident: index, generation, the worker's stamp. */
#define INDEX_BITS	20
#define GENERATION_BITS 20
#define GENERATION_MASK ((UINT64_C(1) << GENERATION_BITS) - 1)
#define STAMP_SHIFT	(INDEX_BITS + GENERATION_BITS)

#define KIND_BITS	2
#define KIND_MASK	((UINT64_C(1) << KIND_BITS) - 1)

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
	/* A chip's words: what is handed out must be aligned and must not wrap. */
	if (base % RP_DEVICE_ALIGN || bytes > UINT64_MAX - base)
		return rpi_fail(-EPROTO,
				"rp_worker_prepare: chip %u says its memory is %" PRIu64
				" bytes at %#" PRIx64,
				chip, bytes, base);
	return rpi_heap_init(&store->heaps[chip], "device_memory_bytes", chip, base,
			     bytes);
}

void rpi_store_fini(struct rpi_store *store)
{
	uint32_t i;
	uint32_t segment;

	for (segment = 0; segment < RPI_SEGMENTS; segment++) {
		struct rpi_entry *entries = atomic_load_explicit(
			&store->segments[segment], memory_order_relaxed);

		for (i = 0; entries && i < RPI_SEGMENT_ENTRIES; i++)
			free(entries[i].several);
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

static uint32_t index_of(uint64_t name)
{
	return (uint32_t)name & ((1u << INDEX_BITS) - 1);
}

static uint64_t generation_of(uint64_t name)
{
	return name >> INDEX_BITS & GENERATION_MASK;
}

static void *new_memory(size_t count, size_t bytes)
{
	return rpi_test_point("store.memory") ? NULL : calloc(count, bytes);
}

static int fail_memory(const char *call)
{
	return rpi_fail(-ENOMEM, "%s: no memory", call);
}

static int grow(struct rpi_store *store, const char *call)
{
	uint32_t segment = store->entry_count / RPI_SEGMENT_ENTRIES;
	struct rpi_entry *entries;

	if (segment == RPI_SEGMENTS)
		return rpi_fail(-ENOMEM,
				"%s: all %u names of tensors are in use or used up", call,
				store->entry_count);
	entries = new_memory(RPI_SEGMENT_ENTRIES, sizeof(*entries));
	if (!entries)
		return fail_memory(call);
	atomic_store_explicit(&store->segments[segment], entries, memory_order_release);
	return 0;
}

/* An unused entry, taken only once nothing can fail any more; NULL for no memory. */
static struct rpi_entry *next_entry(struct rpi_store *store, const char *call,
				    uint32_t *idx_out)
{
	struct rpi_entry *entry;

	*idx_out = store->first_free ? store->first_free - 1 : store->entry_count;
	entry = entry_at(store, *idx_out);
	/* The segment of one that an earlier failure left is there. */
	if (!entry && !grow(store, call))
		entry = entry_at(store, *idx_out);
	return entry;
}

static void take_entry(struct rpi_store *store, const struct rpi_entry *entry)
{
	if (store->first_free)
		store->first_free = entry->next_free;
	else
		store->entry_count++;
}

static struct rpi_shard *shards_of(struct rpi_entry *entry, bool stack)
{
	return stack ? entry->several : &entry->one;
}

/* Relaxed from here on where no edge is named: under the lock. */
static void free_shards(struct rpi_store *store, struct rpi_shard *shards, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		uint32_t chip =
			atomic_load_explicit(&shards[i].chip, memory_order_relaxed);

		rpi_heap_free(&store->heaps[chip], shards[i].block);
		shards[i].block = NULL;
	}
}

/* All shards or none. */
static int alloc_shards(struct rpi_store *store, const char *call, uint64_t bytes,
			const uint32_t *chips, struct rpi_shard *shards, uint32_t count)
{
	struct rpi_block *blocks[RP_MAX_PEERS];
	uint32_t i;
	int err;

	for (i = 0; i < count; i++) {
		err = rpi_heap_alloc(&store->heaps[chips[i]], call, bytes, 0, &blocks[i]);
		if (!err)
			continue;
		while (i-- > 0)
			rpi_heap_free(&store->heaps[chips[i]], blocks[i]);
		return err;
	}
	for (i = 0; i < count; i++) {
		shards[i].block = blocks[i];
		/* N2 */
		atomic_store_explicit(&shards[i].chip, chips[i], memory_order_release);
		atomic_store_explicit(&shards[i].address, blocks[i]->address,
				      memory_order_release);
	}
	return 0;
}

static void fill(struct rpi_entry *entry, const struct rp_tensor *like,
		 uint64_t shard_bytes, uint32_t count)
{
	/* N2 */
	atomic_store_explicit(&entry->dtype, like->dtype, memory_order_release);
	atomic_store_explicit(&entry->shard_count, count, memory_order_release);
	atomic_store_explicit(&entry->bytes, shard_bytes, memory_order_release);
	entry->rank = like->rank;
	memcpy(entry->shape, like->shape, sizeof(entry->shape));
}

static uint64_t publish(struct rpi_store *store, struct rpi_entry *entry, uint32_t idx)
{
	uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);
	uint64_t generation = (word >> KIND_BITS) + 1;
	uint64_t kind = entry->stack ? RPI_ENTRY_STACK : RPI_ENTRY_TENSOR;

	/* N1 */
	atomic_store_explicit(&entry->word, generation << KIND_BITS | kind,
			      memory_order_release);
	return (uint64_t)store->stamp << STAMP_SHIFT | generation << INDEX_BITS | idx;
}

int rpi_store_add(struct rpi_store *store, const char *call, const struct rp_tensor *like,
		  uint64_t shard_bytes, uint32_t chip, const uint32_t *chips,
		  uint64_t *name_out)
{
	uint32_t count = chips ? (uint32_t)like->shape[0] : 1;
	struct rpi_entry *entry;
	uint32_t idx;
	int err;

	entry = next_entry(store, call, &idx);
	if (!entry)
		return -ENOMEM;
	if (chips && !entry->several)
		entry->several = new_memory(store->chip_count, sizeof(*entry->several));
	if (chips && !entry->several)
		return fail_memory(call);
	err = alloc_shards(store, call, shard_bytes, chips ? chips : &chip,
			   shards_of(entry, chips), count);
	if (err)
		return err;
	take_entry(store, entry);
	entry->stack = chips;
	fill(entry, like, shard_bytes, count);
	*name_out = publish(store, entry, idx);
	return 0;
}

void rpi_store_drop(struct rpi_store *store, uint64_t name)
{
	struct rpi_entry *entry = entry_at(store, index_of(name));

	if (!entry)
		return;
	/* First the name: a dispatch that comes now is refused. The generation stays, so
	 * that a free of the same name again is seen as such. */
	atomic_store_explicit(&entry->word, generation_of(name) << KIND_BITS,
			      memory_order_release);
	free_shards(store, shards_of(entry, entry->stack),
		    atomic_load_explicit(&entry->shard_count, memory_order_relaxed));
	if (generation_of(name) == GENERATION_MASK)
		return; /* used up */
	entry->next_free = store->first_free;
	store->first_free = index_of(name) + 1;
}

bool rpi_store_freed_before(struct rpi_store *store, uint64_t name)
{
	struct rpi_entry *entry = entry_at(store, index_of(name));
	struct rpi_shard *shards;
	uint32_t count;
	uint32_t i;

	if (!entry || !generation_of(name) || name >> STAMP_SHIFT != store->stamp ||
	    atomic_load_explicit(&entry->word, memory_order_relaxed) !=
		    generation_of(name) << KIND_BITS)
		return false;
	shards = shards_of(entry, entry->stack);
	count = atomic_load_explicit(&entry->shard_count, memory_order_relaxed);
	for (i = 0; i < count; i++) {
		uint32_t chip =
			atomic_load_explicit(&shards[i].chip, memory_order_relaxed);
		uint64_t address =
			atomic_load_explicit(&shards[i].address, memory_order_relaxed);

		if (rpi_heap_find(&store->heaps[chip], address))
			return false;
	}
	return true;
}

static int fail_stale(const char *call)
{
	return rpi_fail(
		-ESTALE,
		"%s: a resident tensor that was freed, expected one that is alive", call);
}

/* The live entry that a tensor names, and the word that says so. */
static int look_up(struct rpi_store *store, const char *call,
		   const struct rp_tensor *tensor, struct rpi_entry **entry_out,
		   uint64_t *word_out)
{
	uint64_t name = tensor->resident;
	struct rpi_entry *entry;
	uint64_t word;

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
	entry = entry_at(store, index_of(name));
	if (!entry)
		return fail_stale(call);
	/* N1 */
	word = atomic_load_explicit(&entry->word, memory_order_acquire);
	/* A free leaves the generation without a kind. */
	if (word >> KIND_BITS != generation_of(name) || !(word & KIND_MASK))
		return fail_stale(call);
	*entry_out = entry;
	*word_out = word;
	return 0;
}

int rpi_store_find(struct rpi_store *store, const char *call,
		   const struct rp_tensor *tensor, enum rpi_entry_kind kind,
		   struct rpi_entry **entry_out)
{
	struct rpi_entry *entry = NULL;
	struct rpi_view view;
	uint64_t total;
	uint64_t word = 0;
	int err;

	err = look_up(store, call, tensor, &entry, &word);
	if (!err && (word & KIND_MASK) != (uint64_t)kind)
		err = rpi_fail(-EINVAL, "%s: a %s tensor, expected a %s one", call,
			       entry->stack ? "stacked" : "plain resident",
			       entry->stack ? "plain resident" : "stacked");
	if (!err)
		err = rpi_view_from_tensor(call, tensor, &view);
	if (err)
		return err;
	total = atomic_load_explicit(&entry->bytes, memory_order_relaxed) *
		atomic_load_explicit(&entry->shard_count, memory_order_relaxed);
	if (tensor->data || (uint64_t)view.span_bytes != total ||
	    !rpi_tensor_row_major(tensor))
		return rpi_fail(-EINVAL, "%s: a part of a tensor, expected the whole",
				call);
	*entry_out = entry;
	return 0;
}

/* Where [offset, offset + bytes) lies; several shards have no one address. N2. */
static void place(struct rpi_entry *entry, bool stack, uint64_t shard_bytes,
		  uint64_t offset, uint64_t bytes, struct rpi_resident *out)
{
	struct rpi_shard *shard = shards_of(entry, stack) + offset / shard_bytes;
	uint64_t inside = offset % shard_bytes;

	if (bytes > shard_bytes - inside) {
		out->chip = RPI_CHIP_SEVERAL;
		out->address = 0;
		return;
	}
	out->chip = atomic_load_explicit(&shard->chip, memory_order_acquire);
	out->address =
		atomic_load_explicit(&shard->address, memory_order_acquire) + inside;
}

int rpi_store_locate(void *context, const char *call, const struct rp_tensor *tensor,
		     uint64_t bytes, struct rpi_resident *out)
{
	uint64_t offset = (uint64_t)(uintptr_t)tensor->data;
	struct rpi_resident found = { 0 };
	struct rpi_entry *entry = NULL;
	uint64_t shard_bytes;
	uint64_t total;
	uint64_t word = 0;
	int err;

	err = look_up(context, call, tensor, &entry, &word);
	if (err)
		return err;
	/* N2 */
	found.dtype = atomic_load_explicit(&entry->dtype, memory_order_acquire);
	shard_bytes = atomic_load_explicit(&entry->bytes, memory_order_acquire);
	total = shard_bytes *
		atomic_load_explicit(&entry->shard_count, memory_order_acquire);
	if (atomic_load_explicit(&entry->word, memory_order_relaxed) != word)
		return fail_stale(call);
	if (tensor->dtype != found.dtype)
		return rpi_fail(-EINVAL, "%s: a resident tensor is named as %s, it is %s",
				call, rp_dtype_name((enum rp_dtype)tensor->dtype),
				rp_dtype_name((enum rp_dtype)found.dtype));
	if (offset >= total || bytes > total - offset)
		return rpi_fail(-ERANGE,
				"%s: %" PRIu64 " bytes from %" PRIu64
				" on of a resident tensor that has %" PRIu64,
				call, bytes, offset, total);
	rpi_test_point("store.look");
	place(entry, (word & KIND_MASK) == RPI_ENTRY_STACK, shard_bytes, offset, bytes,
	      &found);
	if (atomic_load_explicit(&entry->word, memory_order_relaxed) != word)
		return fail_stale(call);
	*out = found;
	return 0;
}

int rpi_store_resolve(struct rpi_store *store, const char *call,
		      const struct rp_tensor *tensor, struct rpi_resident *out)
{
	struct rpi_view view;
	int err = rpi_view_from_tensor(call, tensor, &view);

	return err ? err
		   : rpi_store_locate(store, call, tensor, (uint64_t)view.span_bytes,
				      out);
}

uint32_t rpi_store_chip_of(const struct rpi_store *store, uint64_t address)
{
	uint32_t chip;

	for (chip = 0; chip < store->chip_count; chip++)
		if (address >= store->heaps[chip].base &&
		    address - store->heaps[chip].base < store->heaps[chip].bytes)
			return chip;
	return RP_MAX_PEERS;
}

bool rpi_store_is_device_address(void *context, uint64_t address)
{
	return rpi_store_chip_of(context, address) != RP_MAX_PEERS;
}
