/* SPDX-License-Identifier: MIT */
#include "runtime/mark.h"

#include "runtime/runtime.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Set a peak back; returns what it was. */
static uint64_t restart(uint64_t *peak, uint64_t in_use)
{
	const uint64_t before = *peak;

	*peak = in_use;
	return before;
}

void rpi_mark_begin(struct rpi_runtime *runtime)
{
	struct rpi_scope *scope = &runtime->scopes[runtime->depth];
	struct rpi_mark *mark = &runtime->marks[runtime->depth];
	struct rpi_ring *ring = scope->ring;
	struct rpi_uses *uses = runtime->arena->uses;

	mark->number = runtime->marked++;
	mark->began = rpi_clock_ticks();
	mark->head = ring->head;
	mark->waits = ring->waits;
	mark->window = restart(&ring->window_peak, ring->head - ring->tail);
	mark->heap = restart(&ring->heap_peak, rpi_ring_heap_used(ring));
	mark->edges = restart(&ring->edges.peak, rpi_edges_used(&ring->edges));
	mark->uses = uses->peak;
	uses->peak = uses->count;
}

static void put(struct rpi_runtime *runtime, const struct rpi_mark *mark,
		enum rpi_mark_part part, uint64_t first, uint64_t second)
{
	struct rpi_trace_of of = runtime->of;

	of.value = rpi_mark_value(mark->number, part);
	rpi_trace_record(&runtime->config.tracer, RPI_SPAN_SCOPE, first, second, &of);
}

static void put_waits(struct rpi_runtime *runtime, const struct rpi_mark *mark,
		      const struct rpi_waits *now)
{
	const struct rpi_waits *was = &mark->waits;

	put(runtime, mark, RPI_MARK_WAITS,
	    (uint64_t)(now->window - was->window) | (uint64_t)(now->heap - was->heap)
							    << 32,
	    (uint64_t)(now->edges - was->edges) | (uint64_t)(now->uses - was->uses)
							  << 32);
}

void rpi_mark_end(struct rpi_runtime *runtime)
{
	const struct rpi_scope *scope = &runtime->scopes[runtime->depth];
	const struct rpi_mark *mark = &runtime->marks[runtime->depth];
	struct rpi_ring *ring = scope->ring;
	struct rpi_uses *uses = runtime->arena->uses;

	rpi_trace_await_room(&runtime->config.tracer, &runtime->of);
	put(runtime, mark, RPI_MARK_TIME, mark->began, rpi_clock_ticks());
	put(runtime, mark, RPI_MARK_WHAT,
	    rpi_mark_what(runtime->depth, scope->ring_idx, scope->kind),
	    ring->head - mark->head);
	put(runtime, mark, RPI_MARK_WINDOW, ring->window, ring->window_peak);
	put(runtime, mark, RPI_MARK_HEAP, ring->heap.size, ring->heap_peak);
	put(runtime, mark, RPI_MARK_EDGES, ring->edges.size, ring->edges.peak);
	put(runtime, mark, RPI_MARK_USES, uses->size, uses->peak);
	put_waits(runtime, mark, &ring->waits);
	ring->window_peak = larger(ring->window_peak, mark->window);
	ring->heap_peak = larger(ring->heap_peak, mark->heap);
	ring->edges.peak = larger(ring->edges.peak, mark->edges);
	uses->peak = (uint32_t)larger(uses->peak, mark->uses);
}

void rpi_mark_unite(const struct rpi_runtime *runtime, uint32_t ring,
		    struct rp_ring_state *state)
{
	uint32_t depth;

	for (depth = 0; depth <= runtime->depth; depth++) {
		const struct rpi_mark *mark = &runtime->marks[depth];

		state->overlap_map.peak = larger(state->overlap_map.peak, mark->uses);
		if (runtime->scopes[depth].ring_idx != ring)
			continue;
		state->task_window.peak = larger(state->task_window.peak, mark->window);
		state->heap.peak = larger(state->heap.peak, mark->heap);
		state->dep_pool.peak = larger(state->dep_pool.peak, mark->edges);
	}
}
