/* SPDX-License-Identifier: MIT */
/* Scopes: what a ring keeps, and until when. */
#include <errno.h>

#include "runtime/runtime.h"

static const struct rpi_scope *innermost(const struct rpi_runtime *runtime)
{
	return &runtime->scopes[runtime->depth];
}

static int fault(struct rpi_runtime *runtime, int code)
{
	return rpi_fault_set(&runtime->fault, code, rp_last_error());
}

int rpi_runtime_scope_begin(struct rpi_runtime *runtime, enum rp_scope_kind kind)
{
	struct rpi_scope *scope;
	int err;

	if (rpi_unlikely(rpi_fault_is(&runtime->fault)))
		return rpi_fault_repeat(&runtime->fault);
	err = rpi_runtime_furnish(runtime);
	if (rpi_unlikely(err))
		return err;
	if (kind != RP_SCOPE_AUTO && kind != RP_SCOPE_MANUAL)
		return fault(
			runtime,
			rpi_fail(-EINVAL,
				 "rp_scope_begin: kind %d, expected RP_SCOPE_AUTO or "
				 "RP_SCOPE_MANUAL",
				 (int)kind));
	if (runtime->depth == RP_MAX_SCOPES)
		return fault(runtime,
			     rpi_fail(-EINVAL,
				      "rp_scope_begin: %u scopes are open, expected at "
				      "most %d",
				      runtime->depth, RP_MAX_SCOPES));
	if (kind == RP_SCOPE_AUTO && innermost(runtime)->kind == RP_SCOPE_MANUAL)
		return fault(runtime,
			     rpi_fail(-EINVAL,
				      "rp_scope_begin: automatic inside the manual scope "
				      "of depth %u, expected a manual one",
				      runtime->depth));
	scope = &runtime->scopes[++runtime->depth];
	scope->kind = kind;
	scope->ring_idx = runtime->depth < RP_RING_COUNT ? runtime->depth
							 : RP_RING_COUNT - 1;
	scope->ring = &runtime->arena->rings[scope->ring_idx];
	scope->first_seq = RPI_UNPINNED;
	scope->heap = RPI_UNPINNED;
	if (rpi_unlikely(rpi_runtime_noted(runtime, RPI_TRACE_SCOPES)))
		rpi_mark_begin(runtime);
	return 0;
}

/* What the scopes that are still open pin of a ring. */
static void repin(struct rpi_runtime *runtime, struct rpi_ring *ring)
{
	uint32_t depth;

	ring->pinned_seq = RPI_UNPINNED;
	ring->pinned_heap = RPI_UNPINNED;
	if (ring != &runtime->arena->rings[RP_RING_COUNT - 1])
		return;
	for (depth = RP_RING_COUNT - 1; depth <= runtime->depth; depth++) {
		const struct rpi_scope *scope = &runtime->scopes[depth];

		if (scope->first_seq < ring->pinned_seq)
			ring->pinned_seq = scope->first_seq;
		if (scope->heap < ring->pinned_heap)
			ring->pinned_heap = scope->heap;
	}
}

void rpi_scope_close(struct rpi_runtime *runtime)
{
	struct rpi_scope *scope = &runtime->scopes[runtime->depth];
	struct rpi_ring *ring = scope->ring;

	if (rpi_unlikely(rpi_runtime_noted(runtime, RPI_TRACE_SCOPES)))
		rpi_mark_end(runtime);
	/* Outputs of plain kernels have no other keeper than the scope. */
	if (rpi_unlikely(runtime->outstanding) && ring->plain_end > ring->tail)
		rpi_await_all(runtime);
	/* The outermost stays, without kernels. */
	scope->first_seq = scope->heap = RPI_UNPINNED;
	if (runtime->depth)
		runtime->depth--;
	repin(runtime, ring);
	rpi_ring_pass(ring, runtime->arena->uses);
	rpi_ring_retire(ring, runtime->arena->rings);
}

int rpi_runtime_scope_end(struct rpi_runtime *runtime)
{
	if (rpi_unlikely(rpi_fault_is(&runtime->fault)))
		return rpi_fault_repeat(&runtime->fault);
	if (!runtime->depth)
		return fault(runtime,
			     rpi_fail(-EINVAL, "rp_scope_end: no scope is open, expected "
					       "one that rp_scope_begin() opened"));
	rpi_scope_close(runtime);
	return 0;
}
