/* SPDX-License-Identifier: MIT */
#include "completion/spin.h"

#include <sched.h>

/* One odd wait costs one point and flips nothing; three in a row do. */
#define TRUST_MAX    4
#define TRUST_ENOUGH 2

static uint64_t budget_of(const struct rpi_spin *spin)
{
	uint64_t twice = spin->estimate_ns * 2; /* estimate_ns <= max_ns, see init */

	if (spin->policy == RPI_SPIN_ALWAYS)
		return RPI_SPIN_FOREVER;
	if (spin->policy == RPI_SPIN_NEVER)
		return 0;
	if (spin->trust < TRUST_ENOUGH || twice < spin->min_ns)
		return spin->min_ns;
	return twice < spin->max_ns ? twice : spin->max_ns;
}

void rpi_spin_init(struct rpi_spin *spin, enum rpi_spin_policy policy, uint64_t min_ns,
		   uint64_t max_ns, bool oversubscribed)
{
	const uint64_t limit_ns = UINT64_MAX / 4; /* doubling can't wrap */

	if (!min_ns)
		min_ns = RPI_SPIN_MIN_NS;
	if (!max_ns)
		max_ns = RPI_SPIN_MAX_NS;
	if (min_ns > limit_ns)
		min_ns = limit_ns;
	if (max_ns > limit_ns)
		max_ns = limit_ns;
	if (max_ns < min_ns)
		max_ns = min_ns;
	*spin = (struct rpi_spin){
		.policy = policy,
		.crowded = oversubscribed,
		.trust = TRUST_ENOUGH,
		.min_ns = min_ns,
		.max_ns = max_ns,
	};
	spin->budget_ns = budget_of(spin);
}

void rpi_spin_observe(struct rpi_spin *spin, uint64_t gap_ns)
{
	if (gap_ns > spin->max_ns) {
		spin->trust -= spin->trust > 0;
	} else {
		spin->trust += spin->trust < TRUST_MAX;
		if (gap_ns > spin->estimate_ns)
			spin->estimate_ns += (gap_ns - spin->estimate_ns + 1) / 2;
		else
			spin->estimate_ns -= (spin->estimate_ns - gap_ns) / 8;
	}
	spin->budget_ns = budget_of(spin);
}

bool rpi_spin_check(struct rpi_spin_wait *wait)
{
	const struct rpi_spin *spin = wait->spin;
	uint64_t now_ticks = rpi_clock_ticks();

	wait->last_ticks = now_ticks;
	if (wait->turn_count == RPI_SPIN_TURNS)
		wait->begin_ticks = wait->yield_ticks = now_ticks;
	else if (rpi_clock_to_ns(now_ticks - wait->begin_ticks) >= spin->budget_ns)
		return false;
	if (rpi_unlikely(spin->crowded) &&
	    rpi_clock_to_ns(now_ticks - wait->yield_ticks) >= wait->yield_ns) {
		sched_yield();
		wait->yield_ticks = rpi_clock_ticks();
	}
	return true;
}
