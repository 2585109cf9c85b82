/* SPDX-License-Identifier: MIT */
/* The runtime from its opening to its close, and its runs. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

int rpi_runtime_open(const struct rpi_runtime_config *config,
		     struct rpi_runtime **runtime_out)
{
	struct rpi_runtime *runtime;
	int err;

	runtime = aligned_alloc(_Alignof(struct rpi_runtime), sizeof(*runtime));
	if (!runtime)
		return rpi_fail(-ENOMEM, "chip runtime: no memory");
	memset(runtime, 0, sizeof(*runtime));
	runtime->config = *config;
	if (!config->tracer.trace)
		runtime->config.tracer.trace = &rpi_trace_idle;
	runtime->hand.runtime = runtime;
	rpi_arena_cache_init(&runtime->cache, config->arena_cache, config->pages);
	rpi_ready_init(&runtime->ready);
	err = rpi_crew_start(runtime);
	if (!err) {
		err = rpi_watch_start(runtime);
		if (err)
			rpi_crew_stop(runtime);
	}
	if (err) {
		free(runtime);
		return err;
	}
	*runtime_out = runtime;
	return 0;
}

void rpi_runtime_close(struct rpi_runtime *runtime)
{
	if (!runtime)
		return;
	rpi_watch_stop(runtime);
	rpi_crew_stop(runtime);
	rpi_arena_cache_fini(&runtime->cache);
	free(runtime);
}

int rpi_runtime_prewarm(struct rpi_runtime *runtime, const struct rp_run_config *config)
{
	struct rpi_sizing asked, sizing;

	rpi_sizing_from_config(config, &asked);
	rpi_sizing_resolve(&asked, &runtime->config.env, &sizing);
	return rpi_arena_prewarm(&runtime->cache, &sizing,
				 runtime->config.compute_threads > 0);
}

void rpi_runtime_begin(struct rpi_runtime *runtime, const struct rp_run_config *config)
{
	runtime->run_config = config;
	/* Relaxed: the crew has nothing to do now. */
	atomic_store_explicit(&runtime->fault.state, RPI_FAULT_NONE,
			      memory_order_relaxed);
	runtime->kernel_count = 0;
	runtime->depth = 0;
	runtime->running = true;
}

int rpi_runtime_furnish(struct rpi_runtime *runtime)
{
	struct rpi_scope *outermost = &runtime->scopes[0];
	struct rpi_sizing asked, sizing;
	uint32_t i;
	int err;

	if (runtime->arena)
		return 0;
	rpi_sizing_from_config(runtime->run_config, &asked);
	rpi_sizing_resolve(&asked, &runtime->config.env, &sizing);
	err = rpi_arena_get(&runtime->cache, &sizing, &runtime->arena);
	if (err)
		return rpi_fault_set(&runtime->fault, err, rp_last_error());
	/* Numbers go on where the last arena's ended: an id is never used twice. */
	for (i = 0; i < RP_RING_COUNT; i++) {
		struct rpi_ring *ring = &runtime->arena->rings[i];

		ring->head = ring->done = ring->tail = ring->plain_end =
			runtime->heads[i];
		rpi_ring_rewind(ring);
	}
	outermost->kind = RP_SCOPE_AUTO;
	outermost->ring_idx = 0;
	outermost->ring = &runtime->arena->rings[0];
	outermost->first_seq = outermost->heap = RPI_UNPINNED;
	runtime->marked = 0;
	if (rpi_unlikely(rpi_runtime_noted(runtime, RPI_TRACE_SCOPES)))
		rpi_mark_begin(runtime);
	return 0;
}

/* All kernels have ended: close what is open, which empties the rings. */
static void vacate(struct rpi_runtime *runtime)
{
	struct rpi_ring *rings = runtime->arena->rings;
	uint32_t i;

	while (runtime->depth)
		rpi_scope_close(runtime);
	rpi_scope_close(runtime);
	for (i = 0; i < RP_RING_COUNT; i++) {
		rpi_ring_retire(&rings[i], rings);
		assert(rings[i].tail == rings[i].head);
		runtime->heads[i] = rings[i].head;
	}
	rpi_arena_count(&runtime->cache, runtime->arena);
	runtime->arena = NULL;
}

int rpi_runtime_end(struct rpi_runtime *runtime, int status, const char **text_out)
{
	struct rpi_fault *fault = &runtime->fault;

	*text_out = NULL;
	/* What has not started is not to start. Without a text: the caller has its own.
	 */
	if (status)
		rpi_fault_set(fault, status, "");
	if (runtime->arena) {
		rpi_await_all(runtime);
		vacate(runtime);
	}
	runtime->running = false;
	if (rpi_unlikely(rpi_runtime_noted(runtime, RPI_TRACE_NOTES)))
		rpi_note_end(runtime);
	if (!rpi_fault_is(fault))
		return 0;
	status = rpi_fault_repeat(fault);
	if (fault->text[0])
		*text_out = fault->text;
	return status;
}

static void fill_usage(struct rp_ring_usage *usage, uint64_t size, uint64_t in_use,
		       uint64_t peak)
{
	usage->size = size;
	usage->in_use = in_use;
	usage->peak = peak > in_use ? peak : in_use;
}

int rpi_runtime_ring_state(struct rpi_runtime *runtime, uint32_t ring_idx,
			   struct rp_ring_state *state_out)
{
	const struct rpi_ring *ring;
	int err;

	if (ring_idx >= RP_RING_COUNT)
		return rpi_fail(-EINVAL, "rp_chip_ring_state: ring %u, expected 0 to %d",
				ring_idx, RP_RING_COUNT - 1);
	err = rpi_runtime_furnish(runtime);
	if (err)
		return err;
	ring = &runtime->arena->rings[ring_idx];
	fill_usage(&state_out->task_window, ring->window, ring->head - ring->tail,
		   ring->window_peak);
	fill_usage(&state_out->heap, ring->heap.size, rpi_ring_heap_used(ring),
		   ring->heap_peak);
	fill_usage(&state_out->dep_pool, ring->edges.size, rpi_edges_used(&ring->edges),
		   ring->edges.peak);
	fill_usage(&state_out->overlap_map, runtime->arena->uses->size,
		   runtime->arena->uses->count, runtime->arena->uses->peak);
	if (rpi_runtime_noted(runtime, RPI_TRACE_SCOPES))
		rpi_mark_unite(runtime, ring_idx, state_out);
	return 0;
}
