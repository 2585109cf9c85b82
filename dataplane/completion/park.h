/* SPDX-License-Identifier: MIT */
/*
 * A park is what one thread of one process sleeps on, and what any process that
 * inherited it may wake. It is made before the fork; afterwards its owner calls
 * rpi_park_own() and everybody else rpi_park_disown(). The struct is private to
 * each process, the block that it names is shared.
 *
 * A wake-up is sticky: one that comes before the sleep ends the next sleep at
 * once. Sleeps may also end for no reason, so the caller looks again each time.
 *
 * Memory order, on the words of the shared block:
 *   P1 wake   waker's stores -> pending exchange (release half)
 *             pending exchange (acquire half) -> the sleeper after its sleep
 *   P2 doze   sleeper sets asleep, then reads pending; waker sets pending, then
 *             reads asleep; all four seq_cst, so at least one sees the other
 * Invariant: pending is the truth and a poke (CQE, FUTEX_WAKE) only ends the
 * block in the kernel. A waker pokes only while asleep is set, and asleep is
 * cleared by the sleeper alone: a waker that dies between its two steps does not
 * keep the next one from poking. So a CQ that overflows, or a poke that comes late or
 * twice, can cost a spurious return and never a wake-up.
 */
#ifndef RPI_COMPLETION_PARK_H
#define RPI_COMPLETION_PARK_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

/* 0 builds without io_uring: every park is a futex then. */
#ifndef RPI_HAVE_LIBURING
#if __has_include(<liburing.h>)
#define RPI_HAVE_LIBURING 1
#else
#define RPI_HAVE_LIBURING 0
#endif
#endif

#if RPI_HAVE_LIBURING
#include <liburing.h>
#endif

/* For UINT64_MAX ns: no deadline. */
#define RPI_PARK_FOREVER UINT64_MAX

/* Read at create with RPI_PARK_AUTO: "futex" or "uring". */
#define RPI_PARK_ENV "RINGPLANE_PARK"

enum rpi_park_engine {
	RPI_PARK_AUTO = 0, /* io_uring where it works, else futex */
	RPI_PARK_URING = 1,
	RPI_PARK_FUTEX = 2,
};

enum rpi_park_role {
	RPI_PARK_NONE = 0,  /* not created, or destroyed */
	RPI_PARK_FRESH = 1, /* created, the fork is still to come */
	RPI_PARK_OWNER = 2,
	RPI_PARK_OTHER = 3, /* may wake only */
};

/* The caller's memory, zeroed by rpi_park_create(). Both words are written when
 * somebody sleeps or is woken, by both sides: one line is cheapest for them. */
struct rpi_park_block {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t pending; /* P1, P2: a wake-up waits */
	_Atomic uint32_t asleep; /* P2: owner may be in the kernel */
	_Atomic int32_t cpu;	 /* where it last began to wait; -1 not yet. A hint */
	uint8_t pad0[RPI_SHARE_ALIGN - 3 * sizeof(uint32_t)];
};

static_assert(sizeof(struct rpi_park_block) == RPI_SHARE_ALIGN, "one pair of lines");
static_assert(ATOMIC_INT_LOCK_FREE == 2, "only lock-free atomics work across processes");

struct rpi_park {
	struct rpi_park_block *block;
	enum rpi_park_engine engine; /* URING or FUTEX once created */
	enum rpi_park_role role;
	const char *reason; /* why this engine; static text */
#if RPI_HAVE_LIBURING
	struct io_uring ring; /* mapped while role is FRESH or OWNER */
	uint64_t id;	      /* no other park of this process has it */
#endif
};

/*
 * What a process sends wake-ups with. Where the kernel sends a ring message on
 * behalf of no ring (6.13) it holds nothing; else a small ring under a lock that
 * is held for one system call. Each process makes its own after the fork.
 */
struct rpi_waker {
	bool ready;
	bool has_ring;
#if RPI_HAVE_LIBURING
	struct io_uring ring;
	pthread_mutex_t lock;
#endif
};

/*
 * Make a park over 128 aligned bytes of shared memory. AUTO settles on futex
 * without a word when io_uring can't be had; make the other parks of a set with
 * the engine that the first one got. One descriptor with io_uring (at least 3,
 * close-on-exec), none with futex.
 *
 * Returns 0, -EINVAL, or for an explicit RPI_PARK_URING the set-up's errno with
 * an error line, and park->reason says why.
 */
int rpi_park_create(struct rpi_park *park, enum rpi_park_engine wanted, void *shared);

/* After the fork (or without one), in the process that will sleep. 0, or the
 * kernel's errno. */
int rpi_park_own(struct rpi_park *park);

/* After the fork, in every process that will only wake: gives the ring's mapping
 * back and keeps its descriptor. */
void rpi_park_disown(struct rpi_park *park);

/* Release what this process holds of it. Idempotent; a zeroed park is fine. */
void rpi_park_destroy(struct rpi_park *park);

/*
 * Sleep until somebody wakes, a signal comes, or deadline_ns (CLOCK_MONOTONIC)
 * has passed. Takes every wake-up that has arrived. One thread at a time.
 *
 * Returns 0           look again: woken, interrupted, or nothing
 *         -ETIMEDOUT  the deadline has passed and nobody woke
 *         other       the kernel refuses to let this thread sleep here
 */
int rpi_park_sleep(struct rpi_park *park, uint64_t deadline_ns);

/*
 * Wake the owner. Any thread of any process that inherited the park. One system
 * call if the owner is asleep, else none; waits for nobody but another thread's
 * use of the waker's ring.
 *
 * Returns 0            the owner will not sleep past this
 *         -EOWNERDEAD  there is no owner any more (not every engine can tell)
 *         other        the kernel refused the poke; ask again
 */
int rpi_park_wake(struct rpi_park *park, struct rpi_waker *waker);

/*
 * Owner: forget the wake-ups that have arrived, without a system call. For a caller
 * that announced a sleep, found work after all, and saw that a waker had noticed:
 * else its next sleep ends at once for nothing. It looks for work again after this
 * and before it sleeps.
 */
void rpi_park_drain(struct rpi_park *park);

/*
 * Owner, where there are fewer CPUs than processes: say which one this thread is on, as
 * it begins to wait.
 */
void rpi_park_sit(struct rpi_park *park);

/* Whether the other's owner is awake and was last on the CPU that mine sat down on: it
 * may be waiting for that CPU. A hint. */
bool rpi_park_beside(const struct rpi_park *mine, const struct rpi_park *other);

/* The descriptors that a process must keep for this park: 0 to 2 of them. */
int rpi_park_fds(const struct rpi_park *park, int fds_out[2]);

/* "io_uring" or "futex". */
const char *rpi_park_engine_name(const struct rpi_park *park);

/* CQEs that the kernel had to drop; 0 always, or the argument above is wrong. */
unsigned rpi_park_overflows(const struct rpi_park *park);

/*
 * Make this process able to wake parks of that engine. force_ring takes the way
 * of kernels before 6.13. 0, or the errno of the ring's set-up with an error
 * line. One descriptor at most, and only with a ring.
 */
int rpi_waker_init(struct rpi_waker *waker, enum rpi_park_engine engine, bool force_ring);
void rpi_waker_destroy(struct rpi_waker *waker);

/* One CQE with this user_data and res 0 on any io_uring: 0, or the kernel's errno.
 * Needs a waker that was made for RPI_PARK_URING. */
int rpi_waker_send(struct rpi_waker *waker, int ring_fd, uint64_t user_data);
int rpi_waker_fds(const struct rpi_waker *waker, int fds_out[2]);

#endif
