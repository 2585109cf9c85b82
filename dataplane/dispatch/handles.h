/* SPDX-License-Identifier: MIT */
/*
 * The cached outcomes of dispatches. A slot is held by the user's handle and by
 * its run; when both have let go its generation moves on and it returns to the
 * free list, so an old handle is told apart from the slot's next owner.
 * All memory is taken at prepare.
 */
#ifndef RPI_DISPATCH_HANDLES_H
#define RPI_DISPATCH_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/error.h"

struct rpi_burst;

struct rpi_handle_slot {
	/* generation << 32 | RPI_HANDLE_* bits; see handles.c. */
	_Alignas(RPI_CACHE_LINE) _Atomic uint64_t word;
	int32_t status;		 /* valid once RPI_HANDLE_DONE is set */
	uint32_t run_idx;	 /* the frame that carries it while it runs */
	_Atomic uint32_t waited; /* somebody has heard the outcome */
	_Atomic uint32_t
		queued; /* RPI_QUEUED_*; futex. While it is not 0 there is no run */
	uint64_t run_seq;
	bool handed_out; /* a handle names it, or did */
};

#define RPI_HANDLE_USER (UINT64_C(1) << 0) /* the user holds it */
#define RPI_HANDLE_RUN	(UINT64_C(1) << 1) /* the run holds it */
#define RPI_HANDLE_DONE (UINT64_C(1) << 2) /* the outcome is there */

/* A handle whose request the dispatcher is not done with. */
#define RPI_QUEUED_NO	   0u
#define RPI_QUEUED_YES	   1u
#define RPI_QUEUED_WATCHED 2u /* and somebody sleeps until it is */

struct rpi_handles {
	struct rpi_handle_slot *slots;
	char (*texts)[RPI_ERROR_BYTES]; /* same index; touched by failures only */
	struct rpi_burst *free; /* several producers, several consumers; uint32_t */
	uint32_t count;
	/* One free slot at hand, index + 1 or 0: most handles live for one dispatch,
	 * and passing a slot from one to the next costs an exchange, not a ring. */
	_Alignas(RPI_CACHE_LINE) _Atomic uint32_t spare;
};

int rpi_handles_init(struct rpi_handles *handles, uint32_t count);
void rpi_handles_fini(struct rpi_handles *handles);

/* A slot for a new run, held by the run and, with `user`, by a handle; -ENOSPC when
 * all are taken. *run_out is the handle's word: index and generation. */
int rpi_handles_take(struct rpi_handles *handles, bool user, uint32_t *idx_out,
		     uint64_t *run_out);

/* The slot of a user's word, or NULL when it is stale. */
struct rpi_handle_slot *rpi_handles_find(struct rpi_handles *handles, uint64_t run,
					 uint32_t *idx_out);

/* Publish the outcome and let the run's hold go. text may be NULL. Where no handle
 * was given out, the hold stays until the one who waits calls
 * rpi_handles_settle(). */
void rpi_handles_finish(struct rpi_handles *handles, uint32_t idx, int status,
			const char *text);

/* For a run without a handle, once it is over: its status (and this thread's error
 * line), and the slot is free again. */
int rpi_handles_settle(struct rpi_handles *handles, uint32_t idx);

/* The run is about to begin, its slot says which it is: tell those who wait for that.
 * The run still holds the slot. */
void rpi_handle_unqueue(struct rpi_handle_slot *slot);

/* Publish the outcome of a queued request that has no run, and let its hold go. */
void rpi_handles_refuse(struct rpi_handles *handles, uint32_t idx, int status,
			const char *text);

/* Let the user's hold go: 0, or -ESTALE. */
int rpi_handles_release(struct rpi_handles *handles, uint64_t run);

/* Undo rpi_handles_take(): both holds at once. */
void rpi_handles_cancel(struct rpi_handles *handles, uint32_t idx);

/*
 * The outcome: 1 done (*status_out is set and, if it is an error, this thread's
 * error line), 0 running, -ESTALE.
 */
int rpi_handles_outcome(struct rpi_handles *handles, uint64_t run, int *status_out);

/* The user's word of a slot as it is now. */
uint64_t rpi_handles_word(const struct rpi_handles *handles, uint32_t idx);

static inline bool rpi_handle_is_queued(const struct rpi_handle_slot *slot)
{
	/* Acquire: the slot names the run, or has its outcome. */
	return atomic_load_explicit(&slot->queued, memory_order_acquire) != RPI_QUEUED_NO;
}

static inline bool rpi_handle_is_done(const struct rpi_handle_slot *slot)
{
	/* Acquire: the outcome was written before. */
	return atomic_load_explicit(&slot->word, memory_order_acquire) & RPI_HANDLE_DONE;
}

#endif
