/* SPDX-License-Identifier: MIT */
/*
 * How long dispatches took: a histogram whose buckets are as wide as 1/128 of what they
 * hold, so that any quantile is right to 0.8 % however it is spread.
 */
#ifndef RPI_TRACE_LATENCY_H
#define RPI_TRACE_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/cpu.h"

/* Values below twice this have a bucket each; from there on, each power of two has this
 * many. */
#define RPI_LATENCY_STEPS_LOG 7
#define RPI_LATENCY_STEPS     (1u << RPI_LATENCY_STEPS_LOG)

/* 2^40 ns, 18 minutes; what takes longer counts as that. */
#define RPI_LATENCY_BITS 40
#define RPI_LATENCY_BUCKETS \
	((RPI_LATENCY_BITS - RPI_LATENCY_STEPS_LOG + 1) * RPI_LATENCY_STEPS)

/* Any thread of the caller's process adds; anybody reads. Relaxed throughout: a figure
 * for people, of which each number is right by itself. */
struct rpi_latency {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t count;
	_Atomic uint64_t sum_ns;
	_Atomic uint64_t max_ns;
	_Atomic uint64_t counts[RPI_LATENCY_BUCKETS];
};

static inline uint32_t rpi_latency_bucket(uint64_t ns)
{
	uint32_t shift = 0;

	if (ns >= UINT64_C(1) << RPI_LATENCY_BITS)
		return RPI_LATENCY_BUCKETS - 1;
	if (ns >= 2 * RPI_LATENCY_STEPS)
		shift = 63 - (uint32_t)__builtin_clzll(ns) - RPI_LATENCY_STEPS_LOG;
	return shift * RPI_LATENCY_STEPS + (uint32_t)(ns >> shift);
}

/* The largest value that is counted there. */
static inline uint64_t rpi_latency_upper(uint32_t bucket)
{
	uint32_t shift = 0;

	if (bucket >= 2 * RPI_LATENCY_STEPS)
		shift = bucket / RPI_LATENCY_STEPS - 1;
	return ((uint64_t)(bucket - shift * RPI_LATENCY_STEPS) + 1) *
		       (UINT64_C(1) << shift) -
	       1;
}

static inline void rpi_latency_add(struct rpi_latency *latency, uint64_t ns)
{
	uint64_t max = atomic_load_explicit(&latency->max_ns, memory_order_relaxed);

	atomic_fetch_add_explicit(&latency->counts[rpi_latency_bucket(ns)], 1,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&latency->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&latency->sum_ns, ns, memory_order_relaxed);
	while (ns > max && !atomic_compare_exchange_weak_explicit(
				   &latency->max_ns, &max, ns, memory_order_relaxed,
				   memory_order_relaxed))
		;
}

/* The value that `quantile` (0..1) of `count` values, counted in `counts`, do not
 * exceed; 0 of none. */
uint64_t rpi_latency_quantile(const uint64_t *counts, uint64_t count, double quantile);

#endif
