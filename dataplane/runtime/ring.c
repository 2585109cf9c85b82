/* SPDX-License-Identifier: MIT */
#include "runtime/ring.h"

/*
 * The place of a block depends on the program alone, never on which kernels happen to
 * have ended: so a program that fits once fits always. Within what open scopes pin,
 * blocks follow one another, and go on at offset 0 when the end is too near. Where
 * nothing is pinned the next scope has a free choice: the front if kernels run at once
 * (the memory is free and still in the cache), else wherever the last one left off,
 * unless that lies in the second half.
 */
uint64_t rpi_ring_place(const struct rpi_ring *ring, uint64_t bytes, bool serial)
{
	const struct rpi_lap *heap = &ring->heap;

	if (ring->pinned_heap == RPI_UNPINNED &&
	    (serial || rpi_lap_offset(heap, heap->top) >= heap->size / 2))
		return rpi_lap_next(heap, heap->top);
	return rpi_lap_place(heap, bytes);
}

static void own(struct rpi_ring *ring, uint64_t offset, uint64_t bytes)
{
	uint32_t slot_idx = (uint32_t)((ring->head - ring->base) & (ring->window - 1));
	uint64_t granule = offset / RPI_OUTPUT_ALIGN;
	uint64_t past = (offset + bytes) / RPI_OUTPUT_ALIGN;

	for (; granule < past; granule++)
		ring->owners[granule] = slot_idx;
}

void *rpi_ring_take_block(struct rpi_ring *ring, uint64_t begin, uint64_t bytes,
			  struct rpi_flight *slot)
{
	uint64_t offset = rpi_lap_offset(&ring->heap, begin);
	uint64_t used;

	if (ring->pinned_heap == RPI_UNPINNED)
		ring->pinned_heap = begin;
	ring->heap.tail = rpi_ring_heap_tail(ring, begin);
	if (slot) {
		if (ring->last_block)
			ring->last_block->heap_next = begin;
		else
			ring->first_block = begin;
		slot->has_block = true;
		slot->heap_next = UINT64_MAX;
		ring->last_block = slot;
	}
	if (slot || ring->small_pool)
		own(ring, offset, bytes);
	ring->heap.top = begin + bytes;
	used = ring->heap.top - ring->heap.tail;
	if (used > ring->heap_peak)
		ring->heap_peak = used;
	if (offset + bytes > ring->heap_reach)
		ring->heap_reach = offset + bytes;
	return ring->heap_memory + offset;
}

bool rpi_ring_pass(struct rpi_ring *ring, struct rpi_uses *uses)
{
	uint64_t done = ring->done;
	uint64_t edge_mark = 0, arg_mark = 0;

	while (done < ring->head) {
		struct rpi_flight *slot = rpi_ring_slot(ring, done);

		/* K3 */
		if (!atomic_load_explicit(&slot->done, memory_order_acquire))
			break;
		rpi_uses_drop(uses, slot);
		edge_mark = slot->edge_mark;
		arg_mark = slot->arg_mark;
		done++;
	}
	if (done == ring->done)
		return false;
	ring->done = done;
	rpi_edges_free(&ring->edges, edge_mark);
	ring->args.tail = arg_mark;
	return true;
}

static bool held(const struct rpi_flight *slot, const struct rpi_ring *rings)
{
	uint32_t ring;

	for (ring = 0; ring < RP_RING_COUNT; ring++)
		if (slot->hold[ring] > rings[ring].done)
			return true;
	return false;
}

void rpi_ring_retire(struct rpi_ring *ring, const struct rpi_ring *rings)
{
	uint64_t until = ring->pinned_seq < ring->done ? ring->pinned_seq : ring->done;

	if (ring->tail < ring->plain_end) {
		ring->tail = ring->plain_end < until ? ring->plain_end : until;
		if (ring->tail == ring->head)
			ring->heap.tail = ring->heap.top;
	}
	while (ring->tail < until) {
		struct rpi_flight *slot = rpi_ring_slot(ring, ring->tail);

		if (slot->has_block) {
			if (held(slot, rings))
				return;
			if (slot == ring->last_block) {
				ring->last_block = NULL;
				ring->heap.tail = ring->heap.top;
			} else {
				ring->heap.tail = slot->heap_next;
			}
		}
		ring->tail++;
	}
}
