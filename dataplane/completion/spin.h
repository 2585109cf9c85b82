/* SPDX-License-Identifier: MIT */
/*
 * How long one waiting side spins before it sleeps. Private to that side; integer
 * arithmetic only; never a system call, an allocation or a lock.
 *
 * Spinning pays when what is waited for comes within the budget and is lost when
 * it doesn't. So the budget is twice a running estimate of the waits that came in
 * time to be worth it (at most max_ns), and it falls to min_ns when the recent
 * waits were mostly longer than max_ns. A budget that is too large costs nothing
 * while the peer is quick, so the estimate rises fast and sinks slowly.
 */
#ifndef RPI_COMPLETION_SPIN_H
#define RPI_COMPLETION_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/cpu.h"

enum rpi_spin_policy {
	RPI_SPIN_HYBRID = 0, /* spin for the budget, then sleep */
	RPI_SPIN_ALWAYS = 1, /* never sleep */
	RPI_SPIN_NEVER = 2,  /* look once, then sleep */
};

/* Below this a sleep and its wake-up would cost more than the spin. */
#define RPI_SPIN_MIN_NS 20000u
#define RPI_SPIN_MAX_NS 200000u

/* When spinners outnumber the CPUs, a spin gives its CPU away, which costs less than a
 * sleep and a wake-up: at each look at the clock where who is waited for needs it, so
 * often where others may, and rarely where nobody is known to be there. */
#define RPI_SPIN_CROWDED_NS 2000u
#define RPI_SPIN_ALONE_NS   20000u

#define RPI_SPIN_FOREVER    UINT64_MAX

struct rpi_spin {
	enum rpi_spin_policy policy;
	bool crowded;
	uint8_t trust; /* 0..4: of late, did it come within max_ns? */
	uint64_t min_ns, max_ns;
	uint64_t estimate_ns; /* of the waits that did */
	uint64_t budget_ns;
};

/*
 * min_ns, max_ns   0: the default, which is smaller on a crowded machine. A value
 *                  that was given is kept as it is; max_ns below min_ns counts as
 *                  min_ns.
 * oversubscribed   more processes want to spin than rpi_cpu_allowed().
 */
void rpi_spin_init(struct rpi_spin *spin, enum rpi_spin_policy policy, uint64_t min_ns,
		   uint64_t max_ns, bool oversubscribed);

/* Tell what a wait really lasted, spin and sleep together. */
void rpi_spin_observe(struct rpi_spin *spin, uint64_t gap_ns);

/* What to spin before the next sleep: 0 not at all, RPI_SPIN_FOREVER. */
static inline uint64_t rpi_spin_budget(const struct rpi_spin *spin)
{
	return spin->budget_ns;
}

/*
 * The loop around a look at shared memory:
 *
 *	struct rpi_spin_wait wait;
 *
 *	rpi_spin_begin(&wait, spin);
 *	while (!(found = look()) && rpi_spin_again(&wait))
 *		;
 *	if (!found)
 *		sleep until found;
 *	rpi_spin_end(&wait, whether it slept);
 *
 * The first RPI_SPIN_TURNS looks, in which a quick peer answers, cost a pause each
 * and no look at the clock: what ends among them counts as a wait of no length.
 */
#define RPI_SPIN_TURNS 8u

struct rpi_spin_wait {
	struct rpi_spin *spin;
	uint64_t turn_count;
	uint64_t begin_ticks; /* valid from the RPI_SPIN_TURNS-th turn */
	uint64_t last_ticks;  /* of the last look at the clock, likewise */
	uint64_t yield_ticks; /* crowded: of the begin, or when the CPU was given away */
	/* Set by a caller that knows who is there: how often it is given away, 0 at each
	 * look. */
	uint32_t yield_ns;
};

static inline void rpi_spin_begin(struct rpi_spin_wait *wait, struct rpi_spin *spin)
{
	wait->spin = spin;
	wait->turn_count = 0;
	wait->yield_ns = RPI_SPIN_CROWDED_NS;
}

/* The turn on which the clock is read, out of line. */
bool rpi_spin_check(struct rpi_spin_wait *wait);

/* Pause, and say whether to look once more. */
static inline bool rpi_spin_again(struct rpi_spin_wait *wait)
{
	if (rpi_unlikely(!wait->spin->budget_ns))
		return false;
	rpi_cpu_pause();
	if (rpi_likely(++wait->turn_count % RPI_SPIN_TURNS))
		return true;
	return rpi_spin_check(wait);
}

/* What ended within the spin is taken to have ended at the last look at the clock: a
 * few turns early, and no further look while the answer waits. A wait that `slept` is
 * measured to its end. */
static inline void rpi_spin_end(const struct rpi_spin_wait *wait, bool slept)
{
	uint64_t gap_ns = 0;

	/* Only RPI_SPIN_NEVER sleeps without a turn, and it does not care. */
	if (wait->turn_count >= RPI_SPIN_TURNS)
		gap_ns = rpi_clock_to_ns((slept ? rpi_clock_ticks() : wait->last_ticks) -
					 wait->begin_ticks);
	rpi_spin_observe(wait->spin, gap_ns);
}

#endif
