/* SPDX-License-Identifier: MIT */
/*
 * Whom a kernel follows.
 *
 * Never: a system call, an allocation, a lock, a log line; but where edges are short, the
 * wait for a kernel to end.
 */
#include <errno.h>
#include <inttypes.h>

#include "runtime/runtime.h"

/* Note a kernel once a submit. Returns the new count. */
static uint32_t note(struct rpi_flight *slot, uint64_t stamp, struct rpi_flight **found,
		     uint32_t count)
{
	if (slot->stamp == stamp)
		return count;
	slot->stamp = stamp;
	/* K3, or K2 when it is wired. */
	if (!atomic_load_explicit(&slot->done, memory_order_acquire))
		found[count++] = slot;
	return count;
}

static uint32_t find_explicit(struct rpi_runtime *runtime, const struct rp_kernel *kernel,
			      struct rpi_flight **found, uint32_t count)
{
	size_t i;

	for (i = 0; i < kernel->dep_count; i++) {
		rp_kernel_id id = kernel->deps[i];
		const struct rpi_ring *ring = &runtime->arena->rings[rpi_id_ring(id)];

		if (id && rpi_id_seq(id) >= ring->done)
			count = note(rpi_ring_slot(ring, rpi_id_seq(id)), runtime->stamp,
				     found, count);
	}
	return count;
}

static bool takes_part(const struct rp_arg *arg)
{
	return !(arg->access & RP_NO_DEP);
}

/* Whether its memory was allocated a moment ago: then nobody has used it yet. */
static bool fresh(const struct rp_kernel *kernel, uint32_t arg,
		  const struct rpi_flight *slot)
{
	/* The slot's copy has the address that the caller's lacks so far. */
	return kernel->args[arg].u.tensor.data != slot->args[arg].u.tensor.data;
}

static uint32_t find_automatic(struct rpi_runtime *runtime,
			       const struct rp_kernel *kernel,
			       const struct rpi_flight *slot, uint32_t count)
{
	const struct rpi_ask *ask = &runtime->ask;
	uint32_t i;

	for (i = 0; i < ask->tensor_count; i++) {
		uint32_t arg = ask->tensor[i];

		if (takes_part(&kernel->args[arg]) && !fresh(kernel, arg, slot))
			count = rpi_uses_find(runtime->arena->uses, &ask->view[arg],
					      kernel->args[arg].access & RP_OUT,
					      runtime->stamp, runtime->arena->found,
					      count);
	}
	return count;
}

static void add_uses(struct rpi_runtime *runtime, const struct rp_kernel *kernel,
		     struct rpi_flight *slot)
{
	const struct rpi_ask *ask = &runtime->ask;
	uint32_t i;

	for (i = 0; i < ask->tensor_count; i++) {
		uint32_t arg = ask->tensor[i];

		if (takes_part(&kernel->args[arg]))
			rpi_uses_add(runtime->arena->uses, &ask->view[arg],
				     kernel->args[arg].access & RP_OUT, slot);
	}
}

/* True when the producer has ended and no edge is needed. */
static bool wire(struct rpi_flight *producer, struct rpi_edge *edge,
		 struct rpi_flight *slot)
{
	/* K2 */
	struct rpi_edge *first =
		atomic_load_explicit(&producer->edges, memory_order_acquire);

	edge->consumer = slot;
	do {
		if (first == RPI_EDGES_CLOSED)
			return true;
		edge->next = first;
		/* Release: the edge is written. Only its end can come between. */
	} while (!atomic_compare_exchange_weak_explicit(&producer->edges, &first, edge,
							memory_order_release,
							memory_order_acquire));
	return false;
}

static struct rpi_edge *take_edge(struct rpi_runtime *runtime, struct rpi_ring *ring)
{
	struct rpi_edge *edge = rpi_edges_take(&ring->edges);

	if (rpi_unlikely(!edge) && rpi_ring_pass(ring, runtime->arena->uses))
		edge = rpi_edges_take(&ring->edges);
	return edge;
}

void rpi_follow(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		const struct rp_kernel *kernel, struct rpi_flight *slot)
{
	struct rpi_flight **found = runtime->arena->found;
	uint32_t count = 0, met = 1, i;

	runtime->stamp++;
	if (kernel->dep_count)
		count = find_explicit(runtime, kernel, found, count);
	if (scope->kind == RP_SCOPE_AUTO) {
		count = find_automatic(runtime, kernel, slot, count);
		add_uses(runtime, kernel, slot);
	}
	/* One more than there are, so that it can't start while it is being wired.
	 * Relaxed: nobody else knows the slot yet. */
	atomic_store_explicit(&slot->pending, count + 1, memory_order_relaxed);
	for (i = 0; i < count; i++) {
		struct rpi_edge *edge = take_edge(runtime, scope->ring);

		if (rpi_unlikely(!edge)) {
			/* All edges are with kernels that wait themselves, or with this
			 * one: then the producer is waited for instead. */
			scope->ring->waits.edges++;
			rpi_await(runtime, found[i]);
			met++;
		} else if (wire(found[i], edge, slot)) {
			met++;
		}
	}
	slot->edge_mark = scope->ring->edges.taken;
	/* K1, K2 */
	if (atomic_fetch_sub_explicit(&slot->pending, met, memory_order_acq_rel) == met)
		rpi_hand_give(&runtime->hand, slot);
}

void rpi_follow_hold(struct rpi_runtime *runtime, uint32_t ring_idx, uint64_t seq)
{
	const struct rpi_ask *ask = &runtime->ask;
	uint32_t i;

	for (i = 0; i < ask->tensor_count; i++) {
		uintptr_t base = ask->view[ask->tensor[i]].base;
		uint64_t position;
		struct rpi_ring *ring = rpi_arena_find(runtime->arena, base, &position);
		struct rpi_flight *owner;

		/* Outputs of plain kernels are kept by their scope, whose end waits. */
		if (!ring || !ring->last_block || position < ring->first_block)
			continue;
		owner = &ring->slots[ring->owners[(base - (uintptr_t)ring->heap_memory) /
						  RPI_OUTPUT_ALIGN]];
		owner->hold[ring_idx] = seq + 1;
	}
}

/* The kernel of an open scope that an id stands for, or NULL. */
static struct rpi_flight *pinned_by_id(struct rpi_runtime *runtime, rp_kernel_id id)
{
	const struct rpi_ring *ring = &runtime->arena->rings[rpi_id_ring(id)];

	if (!id || rpi_id_seq(id) < ring->pinned_seq)
		return NULL;
	return rpi_ring_slot(ring, rpi_id_seq(id));
}

static struct rpi_flight *pinned_by_heap(struct rpi_runtime *runtime, uintptr_t base)
{
	uint64_t position;
	struct rpi_ring *ring = rpi_arena_find(runtime->arena, base, &position);

	if (!ring || !ring->small_pool)
		return NULL;
	return &ring->slots[ring->owners[(base - (uintptr_t)ring->heap_memory) /
					 RPI_OUTPUT_ALIGN]];
}

/*
 * Counted are kernels of open scopes, named by id or as owners of heap memory: those are
 * there whatever has ended, so that the verdict doesn't depend on it. Kernels that are
 * found otherwise may be too many as well: then some are waited for.
 */
int rpi_follow_check(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		     const struct rp_kernel *kernel)
{
	const struct rpi_ask *ask = &runtime->ask;
	uint64_t stamp = ++runtime->stamp, count = 0;
	char state[RPI_RING_TEXT_BYTES];
	struct rpi_flight *slot;
	size_t i;

	for (i = 0; i < kernel->dep_count; i++) {
		slot = pinned_by_id(runtime, kernel->deps[i]);
		if (slot && slot->stamp != stamp) {
			slot->stamp = stamp;
			count++;
		}
	}
	for (i = 0; i < ask->tensor_count && scope->kind == RP_SCOPE_AUTO; i++) {
		const struct rp_arg *arg = &kernel->args[ask->tensor[i]];

		if (!arg->u.tensor.data || !takes_part(arg))
			continue;
		slot = pinned_by_heap(runtime, ask->view[ask->tensor[i]].base);
		if (slot && slot->stamp != stamp) {
			slot->stamp = stamp;
			count++;
		}
	}
	if (count <= scope->ring->edges.size)
		return 0;
	rpi_room_describe(scope->ring, state, sizeof(state));
	return rpi_fail(-ENOSPC,
			"rp_chip_submit: ring %u: dependency pool of %" PRIu64
			" edges, one kernel follows %" PRIu64 "; ring_dep_pool %" PRIu64
			" would do; %s",
			scope->ring_idx, scope->ring->edges.size, count,
			rpi_resource_fit(RPI_DEP_POOL, count), state);
}
