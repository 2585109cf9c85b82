/* SPDX-License-Identifier: MIT */
/* The futex call, for the few words that are slept on directly. */
#ifndef RPI_BASE_FUTEX_H
#define RPI_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"

/* Within one process, or between processes that share the memory. */
enum rpi_futex_scope {
	RPI_FUTEX_PRIVATE = FUTEX_PRIVATE_FLAG,
	RPI_FUTEX_SHARED = 0
};

/* Sleep while *word is `value`, at most until deadline_ns (CLOCK_MONOTONIC,
 * UINT64_MAX: none). May return for no reason: every caller looks again. */
static inline void rpi_futex_wait(_Atomic uint32_t *word, uint32_t value,
				  enum rpi_futex_scope scope, uint64_t deadline_ns)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
				  .tv_nsec = (long)(deadline_ns % 1000000000u) };

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET | (int)scope, value,
		deadline_ns == UINT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void rpi_futex_wake_all(_Atomic uint32_t *word, enum rpi_futex_scope scope)
{
	syscall(SYS_futex, word, FUTEX_WAKE | (int)scope, INT_MAX, NULL, NULL, 0);
}

static inline void rpi_futex_wake_one(_Atomic uint32_t *word, enum rpi_futex_scope scope)
{
	syscall(SYS_futex, word, FUTEX_WAKE | (int)scope, 1, NULL, NULL, 0);
}

#endif
