/* SPDX-License-Identifier: MIT */
/*
 * Room for one more kernel. Whether there can ever be any is decided from what open
 * scopes pin, which only the program's order decides: the verdict is exact, comes at
 * once, and is the same however fast kernels end. Everything else is waited for, and
 * comes: what has been submitted ends whether more is submitted or not.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "runtime/runtime.h"

static const char call[] = "rp_chip_submit";

/* "scope of depth 2", or "scopes of depth 3 to 7": who pins a ring. */
static void describe_pins(const struct rpi_runtime *runtime, uint32_t ring_idx, char *buf,
			  size_t bytes)
{
	uint32_t first = UINT32_MAX, last = 0, depth;

	for (depth = 0; depth <= runtime->depth; depth++) {
		const struct rpi_scope *scope = &runtime->scopes[depth];

		if (scope->ring_idx != ring_idx || scope->first_seq == RPI_UNPINNED)
			continue;
		if (first == UINT32_MAX)
			first = depth;
		last = depth;
	}
	if (first == last || first == UINT32_MAX)
		rpi_format(buf, bytes, "the open scope of depth %u", last);
	else
		rpi_format(buf, bytes,
			   "the open scopes of depth %u to %u, which share it", first,
			   last);
}

__attribute__((cold, noinline)) void rpi_room_describe(const struct rpi_ring *ring,
						       char *buf, size_t bytes)
{
	rpi_format(buf, bytes,
		   "in use: %" PRIu64 " of %" PRIu64 " slots, %" PRIu64 " of %" PRIu64
		   " heap bytes, %" PRIu64 " of %" PRIu64 " edges",
		   ring->head - ring->tail, ring->window, rpi_ring_heap_used(ring),
		   ring->heap.size, rpi_edges_used(&ring->edges), ring->edges.size);
}

static __attribute__((cold, noinline)) int fail_window(const struct rpi_runtime *runtime,
						       const struct rpi_scope *scope)
{
	const struct rpi_ring *ring = scope->ring;
	uint64_t pinned = rpi_ring_pinned(ring);
	char pins[80], state[RPI_RING_TEXT_BYTES];

	describe_pins(runtime, scope->ring_idx, pins, sizeof(pins));
	rpi_room_describe(ring, state, sizeof(state));
	return rpi_fail(-EDEADLK,
			"%s: ring %u: task window of %" PRIu64 " slots, %" PRIu64
			" in use and kept by %s, the oldest by kernel %#" PRIx64
			": no waiting frees one; ring_task_window %" PRIu64
			" would do, or scopes that end earlier; %s",
			call, scope->ring_idx, ring->window, pinned, pins,
			rpi_id_make(scope->ring_idx, ring->pinned_seq),
			rpi_resource_fit(RPI_TASK_WINDOW, pinned + 1), state);
}

static __attribute__((cold, noinline)) int fail_heap_size(
	const struct rpi_runtime *runtime, const struct rpi_scope *scope)
{
	uint64_t need = runtime->ask.fresh_bytes;
	char state[RPI_RING_TEXT_BYTES];

	rpi_room_describe(scope->ring, state, sizeof(state));
	return rpi_fail(-ENOSPC,
			"%s: ring %u: heap of %" PRIu64
			" bytes, the outputs of one kernel "
			"need %" PRIu64 "; ring_heap %" PRIu64 " would do; %s",
			call, scope->ring_idx, scope->ring->heap.size, need,
			rpi_resource_fit(RPI_HEAP, need), state);
}

static __attribute__((cold, noinline)) int fail_heap_pinned(
	const struct rpi_runtime *runtime, const struct rpi_scope *scope, uint64_t begin)
{
	const struct rpi_ring *ring = scope->ring;
	uint64_t need = runtime->ask.fresh_bytes;
	char pins[80], state[RPI_RING_TEXT_BYTES];

	describe_pins(runtime, scope->ring_idx, pins, sizeof(pins));
	rpi_room_describe(ring, state, sizeof(state));
	return rpi_fail(-EDEADLK,
			"%s: ring %u: heap of %" PRIu64 " bytes, %" PRIu64
			" in use and kept by %s, %" PRIu64
			" needed in one piece: no waiting frees them; ring_heap %" PRIu64
			" would do, or scopes that end earlier; %s",
			call, scope->ring_idx, ring->heap.size,
			rpi_ring_heap_pinned(ring), pins, need,
			rpi_resource_fit(RPI_HEAP, begin - ring->pinned_heap + need),
			state);
}

int rpi_room_check(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		   const struct rp_kernel *kernel, bool plain, uint64_t *heap_begin_out)
{
	const struct rpi_ask *ask = &runtime->ask;
	const struct rpi_ring *ring = scope->ring;
	uint64_t begin, tail;

	if (rpi_unlikely(kernel->dep_count + ask->tensor_count > ring->edges.size)) {
		int err = rpi_follow_check(runtime, scope, kernel);

		if (err)
			return err;
	}
	if (rpi_unlikely(rpi_ring_pinned(ring) >= ring->window))
		return fail_window(runtime, scope);
	if (!ask->fresh_bytes)
		return 0;
	if (rpi_unlikely(ask->fresh_bytes > ring->heap.size))
		return fail_heap_size(runtime, scope);
	begin = rpi_ring_place(ring, ask->fresh_bytes, plain);
	tail = ring->pinned_heap == RPI_UNPINNED ? begin : ring->pinned_heap;
	if (rpi_unlikely(!rpi_lap_fits(&ring->heap, tail, begin, ask->fresh_bytes)))
		return fail_heap_pinned(runtime, scope, begin);
	*heap_begin_out = begin;
	return 0;
}

/* The oldest kernel that has not ended, of this ring or else of any. */
static struct rpi_flight *oldest(struct rpi_runtime *runtime, const struct rpi_ring *ring)
{
	uint32_t i;

	if (ring->done < ring->head)
		return rpi_ring_slot(ring, ring->done);
	for (i = 0; i < RP_RING_COUNT; i++) {
		ring = &runtime->arena->rings[i];
		if (ring->done < ring->head)
			return rpi_ring_slot(ring, ring->done);
	}
	return NULL;
}

/* What the ring's tail waits for: its own end, or a kernel that was given its outputs. */
static struct rpi_flight *blocker(struct rpi_runtime *runtime,
				  const struct rpi_ring *ring)
{
	const struct rpi_flight *slot;
	uint32_t i;

	if (ring->tail == ring->done || ring->tail < ring->plain_end)
		return oldest(runtime, ring);
	slot = rpi_ring_slot(ring, ring->tail);
	for (i = 0; i < RP_RING_COUNT; i++) {
		const struct rpi_ring *other = &runtime->arena->rings[i];

		if (slot->hold[i] > other->done)
			return rpi_ring_slot(other, other->done);
	}
	return oldest(runtime, ring);
}

uint64_t rpi_room_await(struct rpi_runtime *runtime, struct rpi_ring *ring,
			uint64_t heap_begin, uint64_t arg_bytes)
{
	const uint64_t fresh = runtime->ask.fresh_bytes;

	for (;;) {
		struct rpi_flight *slot;
		bool slots, heap, args;
		uint64_t arg_begin;

		rpi_ring_rewind(ring);
		arg_begin = rpi_lap_place(&ring->args, arg_bytes);
		if (ring->done == ring->head)
			ring->args.tail = arg_begin;
		slots = ring->head - ring->tail < ring->window;
		heap = !fresh ||
		       rpi_lap_fits(&ring->heap, rpi_ring_heap_tail(ring, heap_begin),
				    heap_begin, fresh);
		args = rpi_lap_fits(&ring->args, ring->args.tail, arg_begin, arg_bytes);
		if (rpi_likely(slots && heap && args &&
			       rpi_uses_room(runtime->arena->uses,
					     runtime->ask.tensor_count)))
			return arg_begin;
		if (rpi_pass(runtime))
			continue;
		if (!slots || !args)
			ring->waits.window++;
		else if (!heap)
			ring->waits.heap++;
		else
			ring->waits.uses++;
		slot = slots && heap ? oldest(runtime, ring) : blocker(runtime, ring);
		/* rpi_room_check() let pass only what has room once all have ended. */
		assert(slot);
		rpi_await(runtime, slot);
	}
}
