/* SPDX-License-Identifier: MIT */
/* What the compiler and the processor offer, in one place. */
#ifndef RPI_BASE_CPU_H
#define RPI_BASE_CPU_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#define RPI_CACHE_LINE 64

/* Two 64-byte lines: the adjacent-line prefetcher moves them as a pair. */
#define RPI_SHARE_ALIGN	  128

#define rpi_likely(x)	  __builtin_expect(!!(x), 1)
#define rpi_unlikely(x)	  __builtin_expect(!!(x), 0)
#define RPI_ALWAYS_INLINE inline __attribute__((always_inline))

static inline void rpi_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	_mm_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

/*
 * Take a line that another core has read, ahead of the store to it: stores leave in
 * order, so without it each waits for its own line. A hint; processors that do not know
 * the instruction take it for none.
 */
static inline void rpi_cpu_prefetch_write(const void *at)
{
#if defined(__x86_64__)
	/* The compiler's own is a fetch for reading unless it may assume more than the
	 * oldest processors. */
	__asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)at));
#else
	__builtin_prefetch(at, 1);
#endif
}

/* CLOCK_MONOTONIC in ns: the only clock the library waits by. */
static inline uint64_t rpi_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
