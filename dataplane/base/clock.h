/* SPDX-License-Identifier: MIT */
/*
 * The clock of spin loops: the processor's counter where the kernel trusts it as
 * well, else CLOCK_MONOTONIC. For lengths of time within one process, never for
 * deadlines: those are rpi_now_ns().
 *
 * rpi_clock_setup() comes before the first use, in the parent before the fork. It
 * takes a fraction of a millisecond, once. Without it everything works, with ticks
 * that are nanoseconds; ticks from before and after it do not mix.
 *
 * After the setup: no system call (but where CLOCK_MONOTONIC itself needs one), no
 * lock, no allocation.
 */
#ifndef RPI_BASE_CLOCK_H
#define RPI_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

/* Written by rpi_clock_setup() once, constant afterwards. */
struct rpi_clock {
	bool counter;	    /* ticks are the processor's, not ns */
	uint64_t ns_mult;   /* ns = ticks * ns_mult >> 32 */
	uint64_t tick_mult; /* ticks = ns * tick_mult >> 32 */
	uint64_t frequency; /* ticks a second */
	const char *source; /* for a report: "tsc", "clock_gettime (why)" */
};

extern struct rpi_clock rpi_clock;

/* Idempotent; any thread. */
void rpi_clock_setup(void);

static inline uint64_t rpi_clock_ticks(void)
{
#if defined(__x86_64__)
	if (rpi_likely(rpi_clock.counter))
		return __builtin_ia32_rdtsc();
#endif
	return rpi_now_ns();
}

static inline uint64_t rpi_clock_scale(uint64_t value, uint64_t mult)
{
	unsigned __int128 wide = (unsigned __int128)value * mult >> 32;

	return wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
}

/* A length in ticks as ns, and back. UINT64_MAX stays so: for ever is for ever. */
static inline uint64_t rpi_clock_to_ns(uint64_t ticks)
{
	return rpi_clock_scale(ticks, rpi_clock.ns_mult);
}

static inline uint64_t rpi_clock_from_ns(uint64_t ns)
{
	return ns == UINT64_MAX ? ns : rpi_clock_scale(ns, rpi_clock.tick_mult);
}

/*
 * The frequency to believe, from one that was told (0: none) and two that were
 * measured one after the other. 0: the counter does not run evenly. Public to the
 * tests.
 */
uint64_t rpi_clock_judge(uint64_t told_hz, uint64_t first_hz, uint64_t second_hz);

#endif
