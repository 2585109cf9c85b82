/* SPDX-License-Identifier: MIT */
#include "runtime/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/testing.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define PAGE_BYTES ((size_t)4096)

/* Arguments in flight: this much a slot, and room for one kernel with all that it may
 * have three times over. */
#define ARG_BYTES_PER_SLOT 512u
#define ARG_BYTES_MIN	   ((uint64_t)128 << 10)

static_assert(ARG_BYTES_MIN >= 2 * ((RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS) *
					    sizeof(struct rp_arg) +
				    RPI_HURDLE_BYTES_MAX),
	      "the arguments of any kernel fit the ring, wherever its top is");

/*
 * What a prewarmed arena has backed of each ring: of its heap, and of each memory that
 * only kernels in slots use. Programs use the rings of outer scopes first and most.
 */
static const size_t warm_heap_bytes[RP_RING_COUNT] = {
	(size_t)512 << 10, (size_t)512 << 10, (size_t)128 << 10, (size_t)128 << 10
};
#define WARM_SLOT_BYTES ((size_t)128 << 10)
#define WARM_FEW_BYTES	((size_t)16 << 10)

/* A heap's front is on small pages: a huge one is cleared as a whole by whoever touches
 * it first, which is most of what a prepare would take. */
#define SMALL_PAGED_BYTES HUGE_BYTES

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Offsets into the mapping, laid out one after the other. */
struct plan {
	size_t heap[RP_RING_COUNT];
	size_t owners[RP_RING_COUNT];
	size_t slots[RP_RING_COUNT];
	size_t edges[RP_RING_COUNT];
	size_t args[RP_RING_COUNT];
	size_t uses, use_memory, found;
	size_t bytes;
	bool overflow;
};

static uint64_t arg_bytes(const struct rpi_sizing *sizing, uint32_t ring)
{
	uint64_t bytes = sizing->size[RPI_TASK_WINDOW][ring] * ARG_BYTES_PER_SLOT;

	return bytes > ARG_BYTES_MIN ? bytes : ARG_BYTES_MIN;
}

static size_t lay(struct plan *plan, uint64_t count, uint64_t each, size_t align)
{
	size_t at = (plan->bytes + align - 1) & ~(align - 1);
	uint64_t bytes;

	if (__builtin_mul_overflow(count, each, &bytes) ||
	    __builtin_add_overflow(at, bytes, &plan->bytes))
		plan->overflow = true;
	return at;
}

static void make_plan(const struct rpi_sizing *sizing, struct plan *plan)
{
	uint64_t windows = 0;
	uint32_t ring;

	memset(plan, 0, sizeof(*plan));
	for (ring = 0; ring < RP_RING_COUNT; ring++)
		plan->heap[ring] =
			lay(plan, sizing->size[RPI_HEAP][ring], 1, RPI_OUTPUT_ALIGN);
	/* Behind the heaps on pages of its own. */
	for (ring = 0; ring < RP_RING_COUNT; ring++) {
		uint64_t window = sizing->size[RPI_TASK_WINDOW][ring];

		windows += window;
		plan->slots[ring] =
			lay(plan, window, sizeof(struct rpi_flight), PAGE_BYTES);
		plan->edges[ring] = lay(plan, sizing->size[RPI_DEP_POOL][ring],
					sizeof(struct rpi_edge), PAGE_BYTES);
		plan->args[ring] = lay(plan, arg_bytes(sizing, ring), 1, PAGE_BYTES);
		plan->owners[ring] = lay(plan,
					 sizing->size[RPI_HEAP][ring] / RPI_OUTPUT_ALIGN,
					 sizeof(uint32_t), PAGE_BYTES);
	}
	plan->uses = lay(plan, 1, sizeof(struct rpi_uses), PAGE_BYTES);
	plan->use_memory = lay(plan, RPI_USES_MAX, sizeof(struct rpi_use), PAGE_BYTES);
	plan->found = lay(plan, windows, sizeof(struct rpi_flight *), PAGE_BYTES);
	lay(plan, 0, 0, PAGE_BYTES);
}

static void fill_ring(struct rpi_arena *arena, const struct plan *plan, uint32_t idx)
{
	const struct rpi_sizing *sizing = &arena->sizing;
	struct rpi_ring *ring = &arena->rings[idx];

	ring->slots = (struct rpi_flight *)(arena->memory + plan->slots[idx]);
	ring->window = sizing->size[RPI_TASK_WINDOW][idx];
	ring->pinned_seq = RPI_UNPINNED;
	ring->pinned_heap = RPI_UNPINNED;
	ring->heap.size = sizing->size[RPI_HEAP][idx];
	/* One lap on, so that the position before any of these is none below 0. */
	ring->heap.top = ring->heap.tail = ring->heap.size;
	ring->heap_memory = arena->memory + plan->heap[idx];
	ring->owners = (uint32_t *)(arena->memory + plan->owners[idx]);
	ring->args.size = arg_bytes(sizing, idx);
	ring->args_memory = arena->memory + plan->args[idx];
	ring->edges.edge = (struct rpi_edge *)(arena->memory + plan->edges[idx]);
	ring->edges.size = sizing->size[RPI_DEP_POOL][idx];
	ring->small_pool = ring->edges.size < RP_MAX_TASK_TENSORS;
}

/* Mapped with slack, so that the heaps can begin where a huge page may. */
static int map(struct rpi_arena *arena)
{
	size_t slack = arena->heap_bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
	uint8_t *at;
	size_t skip;
	int err = rpi_test_point("arena.map");

	if (err)
		return err;
	at = mmap(NULL, arena->bytes + slack, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	skip = slack ? -(uintptr_t)at & (HUGE_BYTES - 1) : 0;
	if (skip)
		munmap(at, skip);
	if (slack > skip)
		munmap(at + skip + arena->bytes, slack - skip);
	arena->memory = at + skip;
	return 0;
}

/* Hints. A hugetlb pool that held all the heaps would have to hold 1 GiB. */
static void choose_pages(const struct rpi_ring *ring, enum rp_page_policy pages)
{
	size_t front = ring->heap.size < SMALL_PAGED_BYTES ? (size_t)ring->heap.size
							   : SMALL_PAGED_BYTES;
	size_t rest = (size_t)ring->heap.size - front;

	madvise(ring->heap_memory, front, MADV_NOHUGEPAGE);
	if (rest)
		madvise(ring->heap_memory + front, rest,
			pages == RP_PAGES_NEVER ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}

static int build(const struct rpi_sizing *sizing, enum rp_page_policy pages,
		 struct rpi_arena **arena_out)
{
	struct rpi_arena *arena;
	struct plan plan;
	uint32_t i;
	int err;

	make_plan(sizing, &plan);
	if (plan.overflow)
		return rpi_fail(-ENOMEM, "arena: the ring sizes add up to more than an "
					 "address space holds");
	arena = calloc(1, sizeof(*arena));
	if (!arena)
		return rpi_fail(-ENOMEM, "arena: no memory");
	arena->sizing = *sizing;
	arena->bytes = plan.bytes;
	arena->heap_bytes = plan.slots[0];
	err = map(arena);
	if (err) {
		free(arena);
		return rpi_fail(-ENOMEM, "arena: reserving %zu bytes: %s", plan.bytes,
				strerror(-err));
	}
	for (i = 0; i < RP_RING_COUNT; i++) {
		fill_ring(arena, &plan, i);
		choose_pages(&arena->rings[i], pages);
	}
	arena->uses = (struct rpi_uses *)(arena->memory + plan.uses);
	arena->found = (struct rpi_flight **)(arena->memory + plan.found);
	rpi_uses_init(arena->uses, (struct rpi_use *)(arena->memory + plan.use_memory),
		      RPI_USES_MAX);
	*arena_out = arena;
	return 0;
}

static void drop(struct rpi_arena_cache *cache, uint32_t idx)
{
	struct rpi_arena *arena = cache->arenas[idx];

	cache->bytes -= arena->bytes;
	munmap(arena->memory, arena->bytes);
	free(arena);
	cache->arenas[idx] = NULL;
}

void rpi_arena_cache_init(struct rpi_arena_cache *cache, uint32_t size,
			  enum rp_page_policy pages)
{
	memset(cache, 0, sizeof(*cache));
	cache->size = size ? size : 1;
	if (cache->size > RPI_ARENA_CACHED)
		cache->size = RPI_ARENA_CACHED;
	cache->pages = pages;
}

void rpi_arena_cache_fini(struct rpi_arena_cache *cache)
{
	uint32_t i;

	for (i = 0; i < cache->size; i++)
		if (cache->arenas[i])
			drop(cache, i);
}

static struct rpi_arena *find(struct rpi_arena_cache *cache,
			      const struct rpi_sizing *sizing)
{
	uint32_t i;

	for (i = 0; i < cache->size; i++) {
		struct rpi_arena *arena = cache->arenas[i];

		if (!arena || !rpi_sizing_equal(&arena->sizing, sizing))
			continue;
		arena->used_seq = ++cache->used_seq;
		return arena;
	}
	return NULL;
}

/* A free place, or that of the arena that was used longest ago. */
static uint32_t find_place(const struct rpi_arena_cache *cache)
{
	uint32_t i, oldest = 0;

	for (i = 0; i < cache->size; i++) {
		if (!cache->arenas[i])
			return i;
		if (cache->arenas[i]->used_seq < cache->arenas[oldest]->used_seq)
			oldest = i;
	}
	return oldest;
}

static int add(struct rpi_arena_cache *cache, const struct rpi_sizing *sizing,
	       struct rpi_arena **arena_out)
{
	uint32_t place = find_place(cache);
	uint64_t begin_ns = rpi_now_ns();
	int err;

	/* First, so that two never count at once. */
	if (cache->arenas[place])
		drop(cache, place);
	err = build(sizing, cache->pages, arena_out);
	if (err)
		return err;
	cache->builds++;
	cache->build_ns += rpi_now_ns() - begin_ns;
	cache->bytes += (*arena_out)->bytes;
	(*arena_out)->used_seq = ++cache->used_seq;
	cache->arenas[place] = *arena_out;
	return 0;
}

int rpi_arena_get(struct rpi_arena_cache *cache, const struct rpi_sizing *sizing,
		  struct rpi_arena **arena_out)
{
	struct rpi_arena *arena = find(cache, sizing);

	if (arena) {
		cache->hits++;
		*arena_out = arena;
		return 0;
	}
	cache->misses++;
	return add(cache, sizing, arena_out);
}

/* Kernels older than 5.14 don't know the advice: then each page is written. */
static void populate(uint8_t *at, size_t bytes)
{
	uintptr_t from = (uintptr_t)at & ~(uintptr_t)(PAGE_BYTES - 1);
	size_t whole = ((uintptr_t)at + bytes - from + PAGE_BYTES - 1) &
		       ~(PAGE_BYTES - 1);

	if (!madvise((void *)from, whole, MADV_POPULATE_WRITE))
		return;
	for (; whole; whole -= PAGE_BYTES, from += PAGE_BYTES) {
		_Atomic uint8_t *byte = (_Atomic uint8_t *)from;

		atomic_fetch_or_explicit(byte, 0, memory_order_relaxed);
	}
}

static size_t least(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

void rpi_arena_count(struct rpi_arena_cache *cache, struct rpi_arena *arena)
{
	uint32_t i;

	for (i = 0; i < RP_RING_COUNT; i++) {
		struct rpi_ring *ring = &arena->rings[i];

		if (ring->heap_reach <= ring->heap_known)
			continue;
		cache->grown_bytes += ring->heap_reach - ring->heap_known;
		ring->heap_known = ring->heap_reach;
	}
}

static void warm_ring(struct rpi_ring *ring, size_t heap_bytes, size_t slot_bytes)
{
	heap_bytes = least(ring->heap.size, heap_bytes);
	populate((uint8_t *)ring->slots,
		 least(ring->window * sizeof(*ring->slots), slot_bytes));
	populate((uint8_t *)ring->edges.edge,
		 least(ring->edges.size * sizeof(*ring->edges.edge), slot_bytes / 4));
	populate(ring->args_memory, least(ring->args.size, slot_bytes));
	populate((uint8_t *)ring->owners, PAGE_BYTES);
	populate(ring->heap_memory, heap_bytes);
	if (heap_bytes > ring->heap_known)
		ring->heap_known = heap_bytes;
}

int rpi_arena_prewarm(struct rpi_arena_cache *cache, const struct rpi_sizing *sizing,
		      bool threads)
{
	size_t slot_bytes = threads ? WARM_SLOT_BYTES : WARM_FEW_BYTES;
	struct rpi_arena *arena = find(cache, sizing);
	uint32_t i;
	int err;

	if (!arena) {
		err = add(cache, sizing, &arena);
		if (err)
			return err;
	}
	populate((uint8_t *)arena->uses, sizeof(*arena->uses));
	populate((uint8_t *)arena->uses->use, slot_bytes);
	populate((uint8_t *)arena->found, PAGE_BYTES);
	/* The first ring last, so that it is what the caches hold. */
	for (i = RP_RING_COUNT; i-- > 0;)
		warm_ring(&arena->rings[i], warm_heap_bytes[i], slot_bytes);
	return 0;
}
