/* SPDX-License-Identifier: MIT */
/*
 * Running kernels: what the submitter and each thread of the crew do alike.
 *
 * Never: an allocation, a lock, a log line; a system call only to wake a sleeper.
 */
#include "base/clock.h"
#include "base/futex.h"
#include "runtime/runtime.h"

/* What is not to start yet is asked this often before anybody sleeps; then the sleeps
 * grow with the wait, of which they are a share at most. */
#define PATIENT_SPINS	1000u
#define IMPATIENT_SPINS 50u
#define BIDE_NS_MIN	20000u
#define BIDE_NS_MAX	500000u
#define BIDE_SHARE	8u

void rpi_hand_give(struct rpi_hand *hand, struct rpi_flight *slot)
{
	struct rpi_runtime *runtime = hand->runtime;

	if (rpi_unlikely(rpi_runtime_noted(runtime, RPI_TRACE_NOTES)))
		slot->ready_at = rpi_clock_ticks();
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

/* 1: it may start; 0: not yet; negative: the run has failed. */
static __attribute__((noinline)) int ask(struct rpi_runtime *runtime,
					 struct rpi_flight *slot)
{
	int come;

	if (slot->ready && !slot->ready(slot->args, slot->arg_count))
		return 0;
	come = slot->hurdle ? slot->hurdle->ask(slot->hurdle) : 1;
	return come < 0 ? rpi_fault_hurdle(&runtime->fault, slot, come) : come;
}

uint64_t rpi_hand_bide_ns(struct rpi_hand *hand)
{
	struct rpi_runtime *runtime = hand->runtime;
	uint32_t spins = runtime->config.patient ? PATIENT_SPINS : IMPATIENT_SPINS;
	uint64_t now_ns, share;

	if (hand->misses < spins) {
		rpi_cpu_pause();
		return 0;
	}
	if (!hand->bide_since_ns) {
		hand->bided = hand->misses;
		hand->bide_since_ns = rpi_now_ns();
		return BIDE_NS_MIN;
	}
	/* All of them between two sleeps. */
	if (hand->misses - hand->bided < rpi_ready_count(&runtime->ready))
		return 0;
	hand->bided = hand->misses;
	now_ns = rpi_now_ns();
	share = (now_ns - hand->bide_since_ns) / BIDE_SHARE;
	if (share < BIDE_NS_MIN)
		return BIDE_NS_MIN;
	return share < BIDE_NS_MAX ? share : BIDE_NS_MAX;
}

enum rpi_work rpi_hand_work(struct rpi_hand *hand)
{
	struct rpi_runtime *runtime = hand->runtime;
	struct rpi_flight *slot = hand->own;
	uint64_t began;
	int status;

	if (slot)
		hand->own = slot->next;
	else
		slot = rpi_ready_take(&runtime->ready);
	if (!slot)
		return RPI_WORK_NONE;
	if (rpi_likely(!rpi_fault_is(&runtime->fault))) {
		int come = rpi_likely(!slot->ready && !slot->hurdle) ? 1
								     : ask(runtime, slot);

		if (rpi_unlikely(!come)) {
			put_aside(hand, slot);
			hand->misses++;
			return RPI_WORK_MISS;
		}
		if (rpi_unlikely(runtime->watched))
			rpi_turn_begin(&hand->turn, slot->name, slot->index, slot->ring);
		began = rpi_trace_open(&runtime->config.tracer, RPI_TRACE_DEVICE);
		status = come > 0 ? slot->fn(slot->args, slot->arg_count) : 0;
		if (rpi_unlikely(began))
			rpi_sched_note(hand, slot->index, slot->submitted_at,
				       slot->ready_at, began);
		if (rpi_unlikely(status))
			rpi_fault_kernel(&runtime->fault, slot->name, slot->index,
					 slot->ring, status);
	}
	hand->misses = 0;
	hand->bide_since_ns = 0;
	/* Before others may see its end, and the submitter submit more. */
	if (rpi_unlikely(runtime->watched))
		rpi_turn_end(&hand->turn);
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
