/* SPDX-License-Identifier: MIT */
/*
 * The store-load fence between who goes to sleep and who would wake it, threads or
 * processes.
 *
 * Memory order. Each side stores one word and then looks at the other's, and it must
 * never happen that both looks find the old value.
 *   B1 asleep  sleeper stores its flag -> rpi_fence() -> looks for work
 *   B2 work    waker publishes work    -> rpi_fence() -> looks at the flag
 * Of two such fences one comes second, and who runs that one sees what the other side
 * stored before its own.
 *
 * The waker's is some 10 ns of each submit and each task. membarrier() would take them
 * from it and does not hold: see docs/design.md, "Sleeping".
 */
#ifndef RPI_COMPLETION_FENCE_H
#define RPI_COMPLETION_FENCE_H

#include <stdatomic.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define RPI_FENCE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RPI_FENCE_TSAN 1
#endif
#endif
#ifndef RPI_FENCE_TSAN
#define RPI_FENCE_TSAN 0
#endif

/* Under the thread sanitizer, which knows no fences: all exchanges of one word are
 * ordered, each after the one before. */
extern _Atomic uint32_t rpi_fence_word;

static inline void rpi_fence(void)
{
#if RPI_FENCE_TSAN
	atomic_fetch_add_explicit(&rpi_fence_word, 1, memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
