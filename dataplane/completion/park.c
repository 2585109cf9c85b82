/* SPDX-License-Identifier: MIT */
/* The sleep and wake protocol over either engine. Runs only where a side sleeps:
 * may make a system call, never allocates, logs or waits for a peer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "completion/park.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "completion/park_engine.h"

/* The environment's wish, for tests and for people with a bad kernel. */
static enum rpi_park_engine engine_asked(void)
{
	const char *name = secure_getenv(RPI_PARK_ENV);

	if (name && !strcmp(name, "futex"))
		return RPI_PARK_FUTEX;
	if (name && !strcmp(name, "uring"))
		return RPI_PARK_URING;
	return RPI_PARK_AUTO;
}

int rpi_park_create(struct rpi_park *park, enum rpi_park_engine wanted, void *shared)
{
	const char *why = "asked for";
	int ret;

	memset(park, 0, sizeof(*park));
	if (!shared || (uintptr_t)shared % RPI_SHARE_ALIGN)
		return rpi_fail(-EINVAL,
				"park_create: shared %p, expected %d-byte alignment",
				shared, RPI_SHARE_ALIGN);
	if ((unsigned)wanted > RPI_PARK_FUTEX)
		return rpi_fail(-EINVAL, "park_create: engine %d, expected 0..2",
				(int)wanted);
	if (wanted == RPI_PARK_AUTO) {
		wanted = engine_asked();
		if (wanted != RPI_PARK_AUTO)
			why = "asked for by " RPI_PARK_ENV;
		else
			why = "works";
	}
	park->block = shared;
	memset(shared, 0, sizeof(*park->block));
	atomic_store_explicit(&park->block->cpu, -1, memory_order_relaxed);
	if (wanted != RPI_PARK_FUTEX) {
		const char *fault = NULL;

		ret = rpi_park_uring_create(park, &fault);
		park->reason = ret ? fault : why;
		if (ret && wanted == RPI_PARK_URING)
			return rpi_fail(ret,
					"park_create: io_uring %s, expected it to work",
					fault);
		park->engine = ret ? RPI_PARK_FUTEX : RPI_PARK_URING;
	} else {
		park->engine = RPI_PARK_FUTEX;
		park->reason = why;
	}
	park->role = RPI_PARK_FRESH;
	return 0;
}

int rpi_park_own(struct rpi_park *park)
{
	int ret = 0;

	if (park->role != RPI_PARK_FRESH)
		return -EINVAL;
	if (park->engine == RPI_PARK_URING)
		ret = rpi_park_uring_own(park);
	if (!ret)
		park->role = RPI_PARK_OWNER;
	return ret;
}

void rpi_park_disown(struct rpi_park *park)
{
	if (park->role != RPI_PARK_FRESH)
		return;
	if (park->engine == RPI_PARK_URING)
		rpi_park_uring_disown(park);
	park->role = RPI_PARK_OTHER;
}

void rpi_park_destroy(struct rpi_park *park)
{
	if (park->role != RPI_PARK_NONE && park->engine == RPI_PARK_URING)
		rpi_park_uring_destroy(park);
	memset(park, 0, sizeof(*park));
}

static int engine_block(struct rpi_park *park, uint64_t deadline_ns)
{
	if (park->engine == RPI_PARK_URING)
		return rpi_park_uring_block(park, deadline_ns);
	return rpi_park_futex_block(park, deadline_ns);
}

int rpi_park_sleep(struct rpi_park *park, uint64_t deadline_ns)
{
	struct rpi_park_block *block = park->block;
	int ret = 0;

	/* P2, the sleeper's end. */
	atomic_store_explicit(&block->asleep, 1, memory_order_seq_cst);
	if (!atomic_load_explicit(&block->pending, memory_order_seq_cst))
		ret = engine_block(park, deadline_ns);
	else if (park->engine == RPI_PARK_URING)
		rpi_park_uring_drain(park); /* or a queue of old pokes would grow */
	/* Relaxed: a waker that still sees the 1 pokes for nothing. */
	atomic_store_explicit(&block->asleep, 0, memory_order_relaxed);
	/* P1. */
	if (atomic_exchange_explicit(&block->pending, 0, memory_order_acq_rel))
		return 0;
	return ret;
}

int rpi_park_wake(struct rpi_park *park, struct rpi_waker *waker)
{
	struct rpi_park_block *block = park->block;

	/* P1 and P2, the waker's end. */
	atomic_exchange_explicit(&block->pending, 1, memory_order_seq_cst);
	if (!atomic_load_explicit(&block->asleep, memory_order_seq_cst))
		return 0;
	if (park->engine == RPI_PARK_URING)
		return rpi_park_uring_poke(park, waker);
	return rpi_park_futex_poke(park);
}

void rpi_park_drain(struct rpi_park *park)
{
	if (park->engine == RPI_PARK_URING)
		rpi_park_uring_drain(park);
	/* P1: whoever forgets a wake-up has seen what it announced. */
	atomic_exchange_explicit(&park->block->pending, 0, memory_order_acq_rel);
}

void rpi_park_sit(struct rpi_park *park)
{
	_Atomic int32_t *word = &park->block->cpu;
	int cpu = sched_getcpu();

	/* Relaxed, here and below: no data hangs on it. Others read the line while they
	 * spin, so it is only written when it changes. */
	if (atomic_load_explicit(word, memory_order_relaxed) != cpu)
		atomic_store_explicit(word, cpu, memory_order_relaxed);
}

bool rpi_park_beside(const struct rpi_park *mine, const struct rpi_park *other)
{
	return atomic_load_explicit(&mine->block->cpu, memory_order_relaxed) ==
		       atomic_load_explicit(&other->block->cpu, memory_order_relaxed) &&
	       !atomic_load_explicit(&other->block->asleep, memory_order_relaxed);
}

const char *rpi_park_engine_name(const struct rpi_park *park)
{
	return park->engine == RPI_PARK_URING ? "io_uring" : "futex";
}

#if !RPI_HAVE_LIBURING

int rpi_park_fds(const struct rpi_park *park, int fds_out[2])
{
	(void)park;
	(void)fds_out;
	return 0;
}

unsigned rpi_park_overflows(const struct rpi_park *park)
{
	(void)park;
	return 0;
}

int rpi_waker_init(struct rpi_waker *waker, enum rpi_park_engine engine, bool force_ring)
{
	(void)force_ring;
	memset(waker, 0, sizeof(*waker));
	waker->ready = engine == RPI_PARK_FUTEX;
	if (!waker->ready)
		return rpi_fail(-EOPNOTSUPP,
				"waker_init: io_uring not built, expected it to work");
	return 0;
}

void rpi_waker_destroy(struct rpi_waker *waker)
{
	memset(waker, 0, sizeof(*waker));
}

int rpi_waker_send(struct rpi_waker *waker, int ring_fd, uint64_t user_data)
{
	(void)waker;
	(void)ring_fd;
	(void)user_data;
	return -EOPNOTSUPP;
}

int rpi_waker_fds(const struct rpi_waker *waker, int fds_out[2])
{
	(void)waker;
	(void)fds_out;
	return 0;
}

#endif
