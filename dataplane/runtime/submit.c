/* SPDX-License-Identifier: MIT */
/*
 * The submission of a kernel.
 *
 * Never: an allocation, a lock, a log line; a system call only to wake a sleeper or to
 * wait for room.
 */
#include <errno.h>
#include <string.h>

#include "runtime/runtime.h"

/* The outputs that a kernel asked for, one after the other in one block. */
static void place_fresh(struct rpi_ask *ask, struct rp_arg *args, uint8_t *block)
{
	uint32_t left = ask->fresh_count, i;

	for (i = 0; left; i++) {
		struct rpi_view *view = &ask->view[ask->tensor[i]];
		struct rp_tensor *tensor = &args[ask->tensor[i]].u.tensor;

		if (tensor->data)
			continue;
		tensor->data = block;
		view->base = (uintptr_t)block;
		block += ((uint64_t)view->span_bytes + RPI_OUTPUT_ALIGN - 1) &
			 ~(uint64_t)(RPI_OUTPUT_ALIGN - 1);
		left--;
	}
}

/* The kernel is the scope's, until it ends. */
static inline void pin(struct rpi_scope *scope)
{
	struct rpi_ring *ring = scope->ring;

	if (rpi_unlikely(scope->first_seq == RPI_UNPINNED)) {
		scope->first_seq = ring->head;
		if (ring->pinned_seq == RPI_UNPINNED)
			ring->pinned_seq = ring->head;
	}
}

static inline void pin_heap(struct rpi_scope *scope, uint64_t begin)
{
	if (scope->heap == RPI_UNPINNED)
		scope->heap = begin;
}

static inline void note_window(struct rpi_ring *ring)
{
	uint64_t used = ring->head - ring->tail;

	if (used > ring->window_peak)
		ring->window_peak = used;
}

static int submit_plain(struct rpi_runtime *runtime, struct rpi_scope *scope,
			const struct rp_kernel *kernel, uint64_t heap_begin)
{
	struct rpi_ring *ring = scope->ring;
	struct rpi_ask *ask = &runtime->ask;
	uint32_t ring_idx = scope->ring_idx;
	uint64_t index = runtime->kernel_count++;
	uint64_t began;
	int status;

	if (ask->fresh_count) {
		place_fresh(
			ask, kernel->args,
			rpi_ring_take_block(ring, heap_begin, ask->fresh_bytes, NULL));
		pin_heap(scope, heap_begin);
	}
	pin(scope);
	ring->done = ring->plain_end = ++ring->head;
	note_window(ring);
	if (rpi_unlikely(runtime->watched))
		rpi_turn_begin(&runtime->hand.turn, kernel->name, index, ring_idx);
	began = rpi_trace_open(&runtime->config.tracer, RPI_TRACE_DEVICE);
	status = kernel->fn(kernel->args, kernel->arg_count);
	if (rpi_unlikely(began))
		rpi_sched_note(&runtime->hand, index, runtime->notes.ticks, began, began);
	if (rpi_unlikely(runtime->watched))
		rpi_turn_end(&runtime->hand.turn);
	if (rpi_likely(!status))
		return 0;
	rpi_fault_kernel(&runtime->fault, kernel->name, index, ring_idx, status);
	return rpi_fault_repeat(&runtime->fault);
}

static void fill_slot(struct rpi_flight *slot, const struct rp_kernel *kernel,
		      uint32_t ring_idx, uint64_t index)
{
	slot->fn = kernel->fn;
	slot->ready = kernel->ready;
	slot->name = kernel->name;
	slot->index = index;
	slot->arg_count = kernel->arg_count;
	slot->ring = ring_idx;
	/* Relaxed: published by K1. */
	atomic_store_explicit(&slot->done, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->edges, NULL, memory_order_relaxed);
	slot->uses = RPI_NO_USE;
	slot->has_block = false;
	memset(slot->hold, 0, sizeof(slot->hold));
}

/* What the kernel was given is the caller's to know. */
static void tell_fresh(const struct rpi_ask *ask, struct rp_arg *args)
{
	uint32_t left = ask->fresh_count, i;

	for (i = 0; left; i++) {
		struct rp_tensor *tensor = &args[ask->tensor[i]].u.tensor;

		if (tensor->data)
			continue;
		tensor->data = (void *)ask->view[ask->tensor[i]].base;
		left--;
	}
}

static void submit_slot(struct rpi_runtime *runtime, struct rpi_scope *scope,
			const struct rp_kernel *kernel, const struct rpi_hurdle *hurdle,
			uint64_t heap_begin)
{
	struct rpi_ring *ring = scope->ring;
	struct rpi_ask *ask = &runtime->ask;
	uint64_t arg_bytes = kernel->arg_count * sizeof(*kernel->args);
	uint64_t all_bytes = arg_bytes + (hurdle ? hurdle->bytes : 0);
	uint64_t arg_begin;
	struct rpi_flight *slot;
	struct rp_arg *args;

	rpi_ring_pass(ring, runtime->arena->uses);
	rpi_ring_retire(ring, runtime->arena->rings);
	arg_begin = rpi_room_await(runtime, ring, heap_begin, all_bytes);
	slot = rpi_ring_slot(ring, ring->head);
	fill_slot(slot, kernel, scope->ring_idx, runtime->kernel_count++);
	args = (struct rp_arg *)(ring->args_memory +
				 rpi_lap_offset(&ring->args, arg_begin));
	slot->args = args;
	if (arg_bytes)
		memcpy(args, kernel->args, arg_bytes);
	slot->hurdle = NULL;
	if (rpi_unlikely(hurdle))
		slot->hurdle = memcpy((uint8_t *)args + arg_bytes, hurdle, hurdle->bytes);
	ring->args.top = arg_begin + all_bytes;
	slot->arg_mark = ring->args.top;
	if (ask->fresh_count) {
		place_fresh(
			ask, args,
			rpi_ring_take_block(ring, heap_begin, ask->fresh_bytes, slot));
		pin_heap(scope, heap_begin);
	}
	if (ask->in_heap)
		rpi_follow_hold(runtime, scope->ring_idx, ring->head);
	if (!runtime->config.compute_threads)
		runtime->outstanding++;
	slot->submitted_at = runtime->notes.ticks;
	rpi_follow(runtime, scope, kernel, slot);
	if (ask->fresh_count)
		tell_fresh(ask, kernel->args);
	pin(scope);
	ring->head++;
	note_window(ring);
}

int rpi_runtime_submit_behind(struct rpi_runtime *runtime, const struct rp_kernel *kernel,
			      const struct rpi_hurdle *hurdle, rp_kernel_id *id_out)
{
	struct rpi_scope *scope;
	uint64_t heap_begin = 0;
	rp_kernel_id id;
	bool plain;
	int err;

	if (rpi_unlikely(rpi_fault_is(&runtime->fault)))
		return rpi_fault_repeat(&runtime->fault);
	err = runtime->arena ? 0 : rpi_runtime_furnish(runtime);
	if (rpi_unlikely(err))
		return err;
	scope = &runtime->scopes[runtime->depth];
	err = rpi_ask_fill(runtime, kernel);
	plain = rpi_runtime_serial(runtime) && !kernel->ready && !hurdle;
	if (plain && rpi_unlikely(!rpi_ring_plain(scope->ring))) {
		rpi_pass(runtime);
		plain = rpi_ring_plain(scope->ring);
	}
	if (!err)
		err = rpi_room_check(runtime, scope, kernel, plain, &heap_begin);
	if (rpi_unlikely(err))
		return rpi_fault_set(&runtime->fault, err, rp_last_error());
	if (rpi_unlikely(rpi_runtime_noted(runtime, RPI_TRACE_NOTES)))
		rpi_note_before(runtime, kernel);
	runtime->kernels++;
	if (rpi_unlikely(runtime->watched))
		atomic_store_explicit(&runtime->submitted, runtime->kernels,
				      memory_order_release);
	id = rpi_id_make(scope->ring_idx, scope->ring->head);
	if (plain)
		err = submit_plain(runtime, scope, kernel, heap_begin);
	else
		submit_slot(runtime, scope, kernel, hurdle, heap_begin);
	if (rpi_unlikely(rpi_runtime_noted(runtime, RPI_TRACE_NOTES)))
		rpi_note_after(runtime, scope, kernel, id);
	/* Last: it may be stored where `deps` was read. */
	if (id_out)
		*id_out = id;
	if (plain)
		return err;
	if (!runtime->config.compute_threads) {
		rpi_hand_work_off(&runtime->hand);
		rpi_pass(runtime);
		if (rpi_unlikely(rpi_fault_is(&runtime->fault)))
			return rpi_fault_repeat(&runtime->fault);
	}
	return 0;
}

int rpi_runtime_drain(struct rpi_runtime *runtime)
{
	if (runtime->arena)
		rpi_await_all(runtime);
	if (rpi_unlikely(rpi_fault_is(&runtime->fault)))
		return rpi_fault_repeat(&runtime->fault);
	return 0;
}
