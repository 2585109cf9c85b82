/* SPDX-License-Identifier: MIT */
#include "runtime/uses.h"

#include <string.h>

#include "runtime/footprint.h"

/* Extents up to this are of one level: finer granules would only be more of them. */
#define LEVEL_MIN 6u

/* Looking at this many granules is always cheap. */
#define FEW_GRANULES 8u

static uint32_t level_of(const struct rpi_view *view)
{
	uint64_t last = (uint64_t)view->span_bytes - 1;
	uint32_t level = last ? 64u - (uint32_t)__builtin_clzll(last) : 0;

	if (level < LEVEL_MIN)
		return LEVEL_MIN;
	/* The last level is for all that is larger: there granules don't hold. */
	return level < RPI_USE_LEVELS - 1 ? level : RPI_USE_LEVELS - 1;
}

static uint32_t bucket_of(uint32_t level, uint64_t granule)
{
	uint64_t key = (granule + ((uint64_t)level << 56)) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(key >> 52) & (RPI_USE_BUCKETS - 1);
}

static void index_init(struct rpi_use_index *index)
{
	memset(index->level_first, 0xff, sizeof(index->level_first));
	memset(index->bucket, 0xff, sizeof(index->bucket));
}

void rpi_uses_init(struct rpi_uses *uses, struct rpi_use *memory, uint32_t size)
{
	memset(uses, 0, sizeof(*uses));
	uses->use = memory;
	uses->size = size;
	uses->free = RPI_NO_USE;
	index_init(&uses->reads);
	index_init(&uses->writes);
}

static struct rpi_use_index *index_of(struct rpi_uses *uses, const struct rpi_use *use)
{
	return use->write ? &uses->writes : &uses->reads;
}

static void file(struct rpi_uses *uses, uint32_t idx, uint32_t level)
{
	struct rpi_use *use = &uses->use[idx];
	struct rpi_use_index *index = index_of(uses, use);
	uint32_t *bucket, *first = &index->level_first[level];

	use->level = (uint8_t)level;
	use->bucket = bucket_of(level, use->view.base >> level);
	bucket = &index->bucket[use->bucket];
	use->prev = RPI_NO_USE;
	use->next = *bucket;
	if (*bucket != RPI_NO_USE)
		uses->use[*bucket].prev = idx;
	*bucket = idx;
	use->level_prev = RPI_NO_USE;
	use->level_next = *first;
	if (*first != RPI_NO_USE)
		uses->use[*first].level_prev = idx;
	*first = idx;
	use->filed = true;
	if (!index->level_count[level]++)
		index->levels |= UINT64_C(1) << level;
}

static void unfile(struct rpi_uses *uses, struct rpi_use *use)
{
	struct rpi_use_index *index = index_of(uses, use);
	uint32_t level = use->level;

	if (use->prev != RPI_NO_USE)
		uses->use[use->prev].next = use->next;
	else
		index->bucket[use->bucket] = use->next;
	if (use->next != RPI_NO_USE)
		uses->use[use->next].prev = use->prev;
	if (use->level_prev != RPI_NO_USE)
		uses->use[use->level_prev].level_next = use->level_next;
	else
		index->level_first[level] = use->level_next;
	if (use->level_next != RPI_NO_USE)
		uses->use[use->level_next].level_prev = use->level_prev;
	use->filed = false;
	if (!--index->level_count[level])
		index->levels &= ~(UINT64_C(1) << level);
}

void rpi_uses_add(struct rpi_uses *uses, const struct rpi_view *view, bool write,
		  struct rpi_flight *slot)
{
	uint32_t idx = uses->free;
	struct rpi_use *use;

	if (idx != RPI_NO_USE)
		uses->free = uses->use[idx].slot_next;
	else
		idx = uses->fresh++;
	use = &uses->use[idx];
	use->slot = slot;
	use->write = write;
	use->view.base = view->base;
	use->view.span_bytes = view->span_bytes;
	use->view.run_bytes = view->run_bytes;
	use->view.rank = view->rank;
	for (uint32_t k = 0; k < view->rank; k++) {
		use->view.shape[k] = view->shape[k];
		use->view.stride_bytes[k] = view->stride_bytes[k];
	}
	use->slot_next = slot->uses;
	slot->uses = idx;
	if (++uses->count > uses->peak)
		uses->peak = uses->count;
	file(uses, idx, level_of(view));
}

void rpi_uses_drop(struct rpi_uses *uses, struct rpi_flight *slot)
{
	uint32_t idx = slot->uses;

	while (idx != RPI_NO_USE) {
		struct rpi_use *use = &uses->use[idx];
		uint32_t next = use->slot_next;

		if (use->filed)
			unfile(uses, use);
		use->slot_next = uses->free;
		uses->free = idx;
		uses->count--;
		idx = next;
	}
	slot->uses = RPI_NO_USE;
}

/* What is being looked for. */
struct look {
	struct rpi_uses *uses;
	const struct rpi_view *view;
	bool write;
	uint64_t stamp;
	struct rpi_flight **found;
	uint32_t count;
};

static inline void judge(struct look *look, struct rpi_use *use)
{
	struct rpi_flight *slot = use->slot;

	if (!rpi_footprint_meet(look->view, &use->view))
		return;
	if (look->write && rpi_footprint_covers(look->view, &use->view))
		unfile(look->uses, use);
	if (slot->stamp == look->stamp)
		return;
	slot->stamp = look->stamp;
	/* K3, or K2 later: without it an edge is wired, which looks again. */
	if (!atomic_load_explicit(&slot->done, memory_order_acquire))
		look->found[look->count++] = slot;
}

static void look_in_bucket(struct look *look, const struct rpi_use_index *index,
			   uint32_t bucket)
{
	uint32_t idx = index->bucket[bucket];

	while (idx != RPI_NO_USE) {
		struct rpi_use *use = &look->uses->use[idx];

		/* Before it may be taken out. */
		idx = use->next;
		judge(look, use);
	}
}

static void look_in_level(struct look *look, const struct rpi_use_index *index,
			  uint32_t level)
{
	uint32_t idx = index->level_first[level];

	while (idx != RPI_NO_USE) {
		struct rpi_use *use = &look->uses->use[idx];

		idx = use->level_next;
		judge(look, use);
	}
}

static void look_in(struct look *look, const struct rpi_use_index *index)
{
	uint64_t low = look->view->base;
	uint64_t high = low + (uint64_t)look->view->span_bytes - 1;
	uint64_t levels = index->levels;

	while (levels) {
		uint32_t level = (uint32_t)__builtin_ctzll(levels);
		uint64_t first = low >> level, last = high >> level;

		levels &= levels - 1;
		first -= first > 0;
		if (level == RPI_USE_LEVELS - 1 ||
		    (last - first >= FEW_GRANULES &&
		     last - first >= index->level_count[level])) {
			look_in_level(look, index, level);
			continue;
		}
		for (; first <= last; first++)
			look_in_bucket(look, index, bucket_of(level, first));
	}
}

uint32_t rpi_uses_find(struct rpi_uses *uses, const struct rpi_view *view, bool write,
		       uint64_t stamp, struct rpi_flight **found, uint32_t count)
{
	struct look look = { .uses = uses,
			     .view = view,
			     .write = write,
			     .stamp = stamp,
			     .found = found,
			     .count = count };

	look_in(&look, &uses->writes);
	if (write)
		look_in(&look, &uses->reads);
	return look.count;
}
