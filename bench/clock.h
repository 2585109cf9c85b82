/* SPDX-License-Identifier: MIT */
/*
 * The clock that samples are taken with. On x86 with an invariant time stamp
 * counter that the kernel itself trusts this is the counter, because a read of
 * it costs a fraction of clock_gettime() and each sample of a short operation
 * contains one read. Anywhere else it is CLOCK_MONOTONIC.
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/cpu.h"

struct bench_clock {
	bool tsc;
	double ns_per_tick;
};

/* Written once by bench_clock_init(), before anything is forked. */
extern struct bench_clock bench_clock;

/* Takes about 20 ms where the counter has to be calibrated. */
void bench_clock_init(void);

/* "tsc 2.10 GHz" or "clock_gettime"; static storage. */
const char *bench_clock_text(void);

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
	if (rpi_likely(bench_clock.tsc)) {
		/* The fence keeps the read behind the load that ended a wait. */
		_mm_lfence();
		return __builtin_ia32_rdtsc();
	}
#endif
	return rpi_now_ns();
}

/* CPU time of this thread so far, in ns; a system call. */
static inline int64_t bench_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline double bench_ticks_ns(uint64_t ticks)
{
	return (double)ticks * bench_clock.ns_per_tick;
}

#endif
