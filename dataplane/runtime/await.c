/* SPDX-License-Identifier: MIT */
/*
 * The submitter waits: it runs kernels itself while there are any, spins a little, then
 * sleeps until the one kernel that it needs has ended.
 *
 * Sleep, an edge in one total order (seq_cst at all four): the submitter stores
 * `awaited`, then looks at `done`; the hand stores `done`, then looks at `awaited`. One
 * of them sees the other. The bell's value was read before, so that a ring between the
 * look and the sleep ends the sleep at once.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/futex.h"
#include "runtime/runtime.h"

/* How long to spin before a sleep: about what a wake-up costs. */
#define PATIENT_NS   20000u
#define IMPATIENT_NS 1000u

/* Between two looks whether the run is to end early. */
#define LOOK_NS 2000000u

static bool ended(const struct rpi_flight *slot)
{
	/* K3 */
	return atomic_load_explicit(&slot->done, memory_order_acquire);
}

static void look_at_cancel(struct rpi_runtime *runtime)
{
	const struct rpi_runtime_config *config = &runtime->config;

	if (!config->cancelled || rpi_fault_is(&runtime->fault) ||
	    !config->cancelled(config->context))
		return;
	rpi_fault_set(&runtime->fault, -ECANCELED,
		      "rp_chip_submit: the run has failed elsewhere");
}

/* `misses`: there are kernels in the queue, which are not to start yet. */
static void sleep_for(struct rpi_runtime *runtime, struct rpi_flight *slot,
		      uint64_t most_ns, bool misses)
{
	uint32_t bell =
		atomic_load_explicit(&runtime->awaited_bell, memory_order_acquire);

	atomic_store_explicit(&runtime->awaited, slot, memory_order_seq_cst);
	if (!atomic_load_explicit(&slot->done, memory_order_seq_cst) &&
	    (misses || !rpi_ready_any(&runtime->ready)))
		rpi_futex_wait(&runtime->awaited_bell, bell, RPI_FUTEX_PRIVATE,
			       rpi_now_ns() + most_ns);
	/* Relaxed: a ring that is too late only ends the next sleep. */
	atomic_store_explicit(&runtime->awaited, NULL, memory_order_relaxed);
}

/* All that might start waits for something outside. A crew looks too. */
static void bide(struct rpi_runtime *runtime, struct rpi_flight *slot)
{
	uint64_t sleep_ns = rpi_hand_bide_ns(&runtime->hand);

	if (!sleep_ns)
		return;
	look_at_cancel(runtime);
	sleep_for(runtime, slot, sleep_ns, true);
}

void rpi_await(struct rpi_runtime *runtime, struct rpi_flight *slot)
{
	const uint64_t budget =
		rpi_clock_from_ns(runtime->config.patient ? PATIENT_NS : IMPATIENT_NS);
	uint64_t begin = 0;

	/* Relaxed: for the watch, whom a moment's difference is none. */
	atomic_store_explicit(&runtime->awaiting, 1, memory_order_relaxed);
	while (!ended(slot)) {
		enum rpi_work work = rpi_hand_work(&runtime->hand);

		if (work == RPI_WORK_RAN) {
			begin = 0;
		} else if (work == RPI_WORK_MISS) {
			bide(runtime, slot);
		} else if (!begin) {
			begin = rpi_clock_ticks();
		} else if (rpi_clock_ticks() - begin < budget) {
			rpi_cpu_pause();
		} else {
			look_at_cancel(runtime);
			sleep_for(runtime, slot, LOOK_NS, false);
		}
	}
	atomic_store_explicit(&runtime->awaiting, 0, memory_order_relaxed);
}

bool rpi_pass(struct rpi_runtime *runtime)
{
	struct rpi_ring *rings = runtime->arena->rings;
	bool passed = false;
	uint32_t i;

	for (i = 0; i < RP_RING_COUNT; i++)
		passed |= rpi_ring_pass(&rings[i], runtime->arena->uses);
	for (i = 0; i < RP_RING_COUNT && passed; i++)
		rpi_ring_retire(&rings[i], rings);
	return passed;
}

void rpi_await_all(struct rpi_runtime *runtime)
{
	uint32_t i;

	for (i = 0; i < RP_RING_COUNT; i++) {
		struct rpi_ring *ring = &runtime->arena->rings[i];

		while (ring->done < ring->head) {
			rpi_await(runtime, rpi_ring_slot(ring, ring->done));
			rpi_pass(runtime);
		}
	}
}
