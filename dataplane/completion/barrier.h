/* SPDX-License-Identifier: MIT */
/*
 * An asymmetric store-load barrier between processes: the side that goes to
 * sleep, which is about to lose microseconds anyway, pays for both.
 *
 * Memory order. A sleeper and its wakers each store one word and then look at
 * the other's, and it must never happen that both looks find the old value.
 *   B1 asleep  sleeper stores its flag -> rpi_barrier_heavy() -> looks for work
 *   B2 work    waker publishes work    -> rpi_barrier_light() -> looks at the flag
 *
 * With asym off both barriers are seq_cst fences, and the fences' total order
 * decides: the side whose fence comes second sees what the other stored.
 *
 * With asym on, the light side only keeps the compiler from exchanging its two
 * accesses. The heavy side makes the kernel run a full barrier on every CPU that
 * executes a registered process, between the sleeper's store and its look. For a
 * waker this barrier falls at one point of its program:
 *   behind the publication  then the work is visible before membarrier returns,
 *                           and the sleeper's look finds it;
 *   before the publication  then the flag, stored before membarrier was entered,
 *                           is visible to all that the waker does afterwards, and
 *                           the waker's look finds it.
 * A waker that is not running at that moment passes through a context switch,
 * which is a full barrier too.
 *
 * Not used by workers: the kernel (seen on 6.18) does not interrupt a CPU that switched
 * to a registered process from an idle loop which had borrowed the same memory map since
 * before the registration; it holds that CPU for one of an unregistered process until it
 * has run something else. Wake-ups were lost there, one in some hundred sleeps.
 *
 * Every process whose threads use the light side must have registered before
 * the first of them does. The registration belongs to the address space: fork
 * copies it, exec drops it. rpi_barrier_setup() is called in the parent before
 * the fork and again in each child, which costs nothing and does not rely on it.
 */
#ifndef RPI_COMPLETION_BARRIER_H
#define RPI_COMPLETION_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define RPI_BARRIER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RPI_BARRIER_TSAN 1
#endif
#endif
#ifndef RPI_BARRIER_TSAN
#define RPI_BARRIER_TSAN 0
#endif

/*
 * Register this process. 0 when asymmetric barriers can be used, else
 * -EOPNOTSUPP (kernel without, or a thread sanitizer build, which can't see such
 * an edge) or what membarrier() returned (-ENOSYS, -EPERM): then use asym = false
 * on both sides. An ordinary outcome, so no error line. Any thread, any number
 * of times.
 */
int rpi_barrier_setup(void);

/* What rpi_barrier_setup() found in this process or in the one it was forked from. */
bool rpi_barrier_available(void);

/*
 * The sleeper's side with asym on: one system call and an interrupt to each CPU
 * that runs a registered process. False when the kernel refused it (a seccomp
 * filter that came later): then work may be missed, and a sleep that follows must
 * be a short one.
 */
bool rpi_barrier_heavy(void);

/* Under the thread sanitizer, which knows no fences: all exchanges of one word are
 * ordered, each after the one before. */
extern _Atomic uint32_t rpi_barrier_word;

static inline void rpi_barrier_fence(void)
{
#if RPI_BARRIER_TSAN
	atomic_fetch_add_explicit(&rpi_barrier_word, 1, memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The waker's side. */
static inline void rpi_barrier_light(bool asym)
{
	if (asym)
		atomic_signal_fence(memory_order_seq_cst);
	else
		rpi_barrier_fence();
}

/* The sleeper's side, either way. As rpi_barrier_heavy(). */
static inline bool rpi_barrier_sleeper(bool asym)
{
	if (asym)
		return rpi_barrier_heavy();
	rpi_barrier_fence();
	return true;
}

#endif
