/* SPDX-License-Identifier: MIT */
/*
 * Memory order.
 *   A1 place    owner's writes -> `taken` or ticket release; next owner acquire
 *   A2 arrival  a thread queues its ticket, full fence, tries `taken`; an owner
 *               that leaves clears `taken`, full fence, looks at the queue.
 *               One of the two sees the other: nobody is left in the queue.
 * Invariant: `taken` is 1 exactly while one thread is inside; a queued ticket is
 * granted once.
 */
#include "dispatch/admission.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/futex.h"
#include "completion/fence.h"
#include "ring/burst.h"

/* More threads than this at once poll for a place in the queue. */
#define QUEUE_TICKETS 1024

enum {
	TICKET_WAITS = 0,
	TICKET_SLEEPS = 1,
	TICKET_GRANTED = 2
};

struct ticket {
	_Atomic uint32_t state;
};

int rpi_admission_init(struct rpi_admission *admission)
{
	size_t bytes = rpi_burst_bytes(sizeof(struct ticket *), QUEUE_TICKETS);

	atomic_init(&admission->taken, 0);
	admission->queue =
		aligned_alloc(RPI_SHARE_ALIGN, (bytes + RPI_SHARE_ALIGN - 1) &
						       ~(size_t)(RPI_SHARE_ALIGN - 1));
	if (!admission->queue)
		return rpi_fail(-ENOMEM, "prepare: no memory for the submit queue");
	return rpi_burst_init(admission->queue, bytes, sizeof(struct ticket *),
			      QUEUE_TICKETS, 0);
}

void rpi_admission_fini(struct rpi_admission *admission)
{
	free(admission->queue);
	admission->queue = NULL;
}

static bool try_take(struct rpi_admission *admission)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&admission->taken, &expected, 1,
						       memory_order_seq_cst, /* A1 */
						       memory_order_relaxed);
}

/* The owner hands its place to the oldest ticket. False: nobody waits. */
static bool hand_on(struct rpi_admission *admission)
{
	struct ticket *oldest;

	if (!rpi_burst_pop(admission->queue, &oldest, 1))
		return false;
	/* A1. The ticket lies on its thread's stack: not touched after this. */
	if (atomic_exchange_explicit(&oldest->state, TICKET_GRANTED,
				     memory_order_acq_rel) == TICKET_SLEEPS)
		rpi_futex_wake_all(&oldest->state, RPI_FUTEX_PRIVATE);
	return true;
}

static void await_grant(struct ticket *ticket)
{
	uint32_t expected = TICKET_WAITS;
	int spins;

	for (spins = 0; spins < 200; spins++) {
		if (atomic_load_explicit(&ticket->state, memory_order_acquire) ==
		    TICKET_GRANTED)
			return;
		rpi_cpu_pause();
	}
	if (!atomic_compare_exchange_strong_explicit(&ticket->state, &expected,
						     TICKET_SLEEPS, memory_order_acquire,
						     memory_order_acquire))
		return;
	while (atomic_load_explicit(&ticket->state, memory_order_acquire) !=
	       TICKET_GRANTED)
		rpi_futex_wait(&ticket->state, TICKET_SLEEPS, RPI_FUTEX_PRIVATE,
			       UINT64_MAX);
}

void rpi_admission_enter(struct rpi_admission *admission)
{
	struct ticket ticket;
	struct ticket *self = &ticket;

	if (rpi_likely(try_take(admission)))
		return;
	atomic_init(&ticket.state, TICKET_WAITS);
	while (!rpi_burst_push(admission->queue, &self, 1))
		sched_yield(); /* more than QUEUE_TICKETS threads */
	rpi_fence();	       /* A2 */
	/* The place was free after all. Its owner for a moment, this thread grants the
	 * oldest ticket, which may be its own. */
	if (try_take(admission))
		rpi_admission_leave(admission);
	await_grant(&ticket);
}

void rpi_admission_leave(struct rpi_admission *admission)
{
	for (;;) {
		if (!rpi_burst_empty(admission->queue) && hand_on(admission))
			return;
		atomic_store_explicit(&admission->taken, 0,
				      memory_order_release); /* A1 */
		rpi_fence();				     /* A2 */
		if (rpi_burst_empty(admission->queue) || !try_take(admission))
			return;
	}
}
