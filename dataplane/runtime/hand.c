/* SPDX-License-Identifier: MIT */
/*
 * Running kernels: what the submitter and each thread of the crew do alike.
 *
 * Never: an allocation, a lock, a log line; a system call only to wake a sleeper.
 */
#include "base/futex.h"
#include "runtime/runtime.h"

void rpi_hand_give(struct rpi_hand *hand, struct rpi_flight *slot)
{
	struct rpi_runtime *runtime = hand->runtime;

	/* The first that a thread of the crew makes ready it runs itself: what has been
	 * written for it is in this core's cache. */
	if (hand != &runtime->hand && !hand->own) {
		slot->next = NULL;
		hand->own = slot;
		return;
	}
	if (rpi_likely(rpi_ready_put(&runtime->ready, slot))) {
		rpi_crew_call(runtime);
		return;
	}
	slot->next = hand->own;
	hand->own = slot;
}

/* Tell the consumers, then whoever waits for this very kernel. */
static void complete(struct rpi_hand *hand, struct rpi_flight *slot)
{
	struct rpi_runtime *runtime = hand->runtime;
	/* K2 */
	struct rpi_edge *edge = atomic_exchange_explicit(&slot->edges, RPI_EDGES_CLOSED,
							 memory_order_acq_rel);

	while (edge) {
		/* The edge is its consumer's: gone once that has run. */
		struct rpi_edge *next = edge->next;
		struct rpi_flight *consumer = edge->consumer;

		/* K2 */
		if (atomic_fetch_sub_explicit(&consumer->pending, 1,
					      memory_order_acq_rel) == 1)
			rpi_hand_give(hand, consumer);
		edge = next;
	}
	if (!runtime->config.compute_threads)
		runtime->outstanding--;
	/* K3, and the waker's end of the sleep in await.c: both in one total order. */
	atomic_exchange_explicit(&slot->done, 1, memory_order_seq_cst);
	if (rpi_unlikely(atomic_load_explicit(&runtime->awaited, memory_order_seq_cst) ==
			 slot)) {
		atomic_fetch_add_explicit(&runtime->awaited_bell, 1,
					  memory_order_release);
		rpi_futex_wake_all(&runtime->awaited_bell, RPI_FUTEX_PRIVATE);
	}
}

/* Back to the end of the queue. If that is full, change places with its first. */
static void put_aside(struct rpi_hand *hand, struct rpi_flight *slot)
{
	while (!rpi_ready_put(&hand->runtime->ready, slot)) {
		struct rpi_flight *other = rpi_ready_take(&hand->runtime->ready);

		if (!other)
			continue;
		other->next = hand->own;
		hand->own = other;
	}
}

enum rpi_work rpi_hand_work(struct rpi_hand *hand)
{
	struct rpi_runtime *runtime = hand->runtime;
	struct rpi_flight *slot = hand->own;
	int status;

	if (slot)
		hand->own = slot->next;
	else
		slot = rpi_ready_take(&runtime->ready);
	if (!slot)
		return RPI_WORK_NONE;
	if (rpi_likely(!rpi_fault_is(&runtime->fault))) {
		if (rpi_unlikely(slot->ready) &&
		    !slot->ready(slot->args, slot->arg_count)) {
			put_aside(hand, slot);
			hand->misses++;
			return RPI_WORK_MISS;
		}
		status = slot->fn(slot->args, slot->arg_count);
		if (rpi_unlikely(status))
			rpi_fault_kernel(&runtime->fault, slot->name, slot->index,
					 slot->ring, status);
	}
	hand->misses = 0;
	complete(hand, slot);
	return RPI_WORK_RAN;
}

void rpi_hand_work_off(struct rpi_hand *hand)
{
	uint64_t misses = 0;
	enum rpi_work work;

	while ((work = rpi_hand_work(hand)) != RPI_WORK_NONE) {
		if (work == RPI_WORK_RAN)
			misses = 0;
		else if (++misses >= hand->runtime->outstanding)
			return;
	}
}
