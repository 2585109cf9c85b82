/* SPDX-License-Identifier: MIT */
/*
 * Memory order. The slot's word is the only thing that is shared; its owner
 * fills status and text, then sets DONE with release; a reader that saw DONE
 * with acquire reads them. Invariant: a slot is on the free list, or the
 * spare one, exactly while neither USER nor RUN is set.
 *   H1 dispatched  the dispatcher writes which run it is, or DONE -> `queued` release;
 *                  `queued` acquire -> a waiter reads them
 *
 * Never: a system call but to wake who sleeps, an allocation (after init), a lock.
 */
#include "dispatch/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "ring/burst.h"

#define GENERATION_SHIFT 32

static uint32_t generation_of(uint64_t word)
{
	return (uint32_t)(word >> GENERATION_SHIFT);
}

int rpi_handles_init(struct rpi_handles *handles, uint32_t count)
{
	size_t ring_bytes = rpi_burst_bytes(sizeof(uint32_t), count);
	uint32_t idx;

	memset(handles, 0, sizeof(*handles));
	handles->count = count;
	handles->slots = aligned_alloc(RPI_CACHE_LINE, count * sizeof(*handles->slots));
	handles->texts = calloc(count, sizeof(*handles->texts));
	handles->free =
		aligned_alloc(RPI_SHARE_ALIGN, (ring_bytes + RPI_SHARE_ALIGN - 1) &
						       ~(size_t)(RPI_SHARE_ALIGN - 1));
	if (!handles->slots || !handles->texts || !handles->free) {
		rpi_handles_fini(handles);
		return rpi_fail(-ENOMEM, "prepare: no memory for %u handles", count);
	}
	memset(handles->slots, 0, count * sizeof(*handles->slots));
	rpi_burst_init(handles->free, ring_bytes, sizeof(uint32_t), count, 0);
	for (idx = 0; idx < count; idx++) {
		/* Generation 0 is nobody's: a zeroed handle is stale. */
		atomic_init(&handles->slots[idx].word, UINT64_C(1) << GENERATION_SHIFT);
		rpi_burst_push(handles->free, &idx, 1);
	}
	return 0;
}

void rpi_handles_fini(struct rpi_handles *handles)
{
	free(handles->slots);
	free(handles->texts);
	free(handles->free);
	memset(handles, 0, sizeof(*handles));
}

uint64_t rpi_handles_word(const struct rpi_handles *handles, uint32_t idx)
{
	uint64_t word =
		atomic_load_explicit(&handles->slots[idx].word, memory_order_relaxed);

	return (uint64_t)generation_of(word) << GENERATION_SHIFT | idx;
}

static void give_back(struct rpi_handles *handles, uint32_t idx)
{
	/* Release: the slot's word is stored. Acquire: so is that of the one taken. */
	uint32_t old =
		atomic_exchange_explicit(&handles->spare, idx + 1, memory_order_acq_rel);

	if (!old--)
		return;
	rpi_burst_push(handles->free, &old, 1);
}

static bool find_free(struct rpi_handles *handles, uint32_t *idx_out)
{
	uint32_t spare =
		atomic_exchange_explicit(&handles->spare, 0, memory_order_acq_rel);

	if (!spare)
		return rpi_burst_pop(handles->free, idx_out, 1);
	*idx_out = spare - 1;
	return true;
}

int rpi_handles_take(struct rpi_handles *handles, bool user, uint32_t *idx_out,
		     uint64_t *run_out)
{
	struct rpi_handle_slot *slot;
	uint64_t word;
	uint32_t idx;

	if (!find_free(handles, &idx))
		return rpi_fail(
			-ENOSPC,
			"rp_worker_submit: all %u handles are taken, expected some "
			"to be given back by rp_handle_release() (handle_count)",
			handles->count);
	slot = &handles->slots[idx];
	/* Relaxed: the free list handed it to this thread alone. */
	word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	word = (word >> GENERATION_SHIFT << GENERATION_SHIFT) | RPI_HANDLE_RUN |
	       (user ? RPI_HANDLE_USER : 0);
	slot->status = 0;
	slot->handed_out = user;
	atomic_store_explicit(&slot->waited, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->word, word, memory_order_release);
	*idx_out = idx;
	*run_out = (word >> GENERATION_SHIFT << GENERATION_SHIFT) | idx;
	return 0;
}

struct rpi_handle_slot *rpi_handles_find(struct rpi_handles *handles, uint64_t run,
					 uint32_t *idx_out)
{
	uint32_t idx = (uint32_t)run;
	uint64_t word;

	if (idx >= handles->count)
		return NULL;
	word = atomic_load_explicit(&handles->slots[idx].word, memory_order_acquire);
	if (generation_of(word) != generation_of(run) || !(word & RPI_HANDLE_USER))
		return NULL;
	*idx_out = idx;
	return &handles->slots[idx];
}

/* The word after `bits` were dropped and `set` was set. When nobody holds the slot
 * any more its generation moves on. */
static uint64_t word_after(uint64_t old, uint64_t bits, uint64_t set, bool *last_out)
{
	uint64_t next = (old & ~bits) | set;
	uint32_t generation = generation_of(old) + 1;

	*last_out = !(next & (RPI_HANDLE_USER | RPI_HANDLE_RUN));
	if (!*last_out)
		return next;
	return (uint64_t)(generation ? generation : 1) << GENERATION_SHIFT;
}

static void let_go(struct rpi_handles *handles, uint32_t idx, uint64_t bits, uint64_t set)
{
	struct rpi_handle_slot *slot = &handles->slots[idx];
	uint64_t old = atomic_load_explicit(&slot->word, memory_order_relaxed);
	uint64_t next;
	bool last;

	do {
		next = word_after(old, bits, set, &last);
		/* Release: what was written to the slot goes with it. */
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->word, &old, next, memory_order_acq_rel, memory_order_relaxed));
	if (last)
		give_back(handles, idx);
}

static void write_outcome(struct rpi_handles *handles, uint32_t idx, int status,
			  const char *text)
{
	handles->slots[idx].status = status;
	if (status)
		/* Bounded: it may be a process's text, whose end is its own word. */
		rpi_format(handles->texts[idx], RPI_ERROR_BYTES, "%.*s",
			   RPI_ERROR_BYTES - 1, text ? text : "");
}

void rpi_handles_finish(struct rpi_handles *handles, uint32_t idx, int status,
			const char *text)
{
	struct rpi_handle_slot *slot = &handles->slots[idx];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

	write_outcome(handles, idx, status, text);
	/* Nobody else can write a word that no handle names. */
	if (!slot->handed_out)
		atomic_store_explicit(&slot->word, word | RPI_HANDLE_DONE,
				      memory_order_release);
	else
		let_go(handles, idx, RPI_HANDLE_RUN, RPI_HANDLE_DONE);
}

void rpi_handle_unqueue(struct rpi_handle_slot *slot)
{
	/* H1 */
	if (atomic_exchange_explicit(&slot->queued, RPI_QUEUED_NO,
				     memory_order_acq_rel) == RPI_QUEUED_WATCHED)
		rpi_futex_wake_all(&slot->queued, RPI_FUTEX_PRIVATE);
}

void rpi_handles_refuse(struct rpi_handles *handles, uint32_t idx, int status,
			const char *text)
{
	struct rpi_handle_slot *slot = &handles->slots[idx];
	const bool handed_out = slot->handed_out;

	write_outcome(handles, idx, status, text);
	/* The run's hold stays until nothing here touches the slot any more. */
	atomic_fetch_or_explicit(&slot->word, RPI_HANDLE_DONE, memory_order_release);
	rpi_handle_unqueue(slot);
	if (handed_out)
		let_go(handles, idx, RPI_HANDLE_RUN, 0);
}

int rpi_handles_settle(struct rpi_handles *handles, uint32_t idx)
{
	struct rpi_handle_slot *slot = &handles->slots[idx];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
	int status = slot->status;
	bool last;

	if (rpi_unlikely(status))
		rpi_error_set(handles->texts[idx]);
	atomic_store_explicit(
		&slot->word, word_after(word, RPI_HANDLE_RUN | RPI_HANDLE_DONE, 0, &last),
		memory_order_relaxed);
	give_back(handles, idx);
	return status;
}

void rpi_handles_cancel(struct rpi_handles *handles, uint32_t idx)
{
	let_go(handles, idx, RPI_HANDLE_RUN | RPI_HANDLE_USER, 0);
}

int rpi_handles_release(struct rpi_handles *handles, uint64_t run)
{
	uint32_t idx = (uint32_t)run;
	struct rpi_handle_slot *slot;
	uint64_t old;
	uint64_t next;
	bool last;

	if (idx >= handles->count)
		return -ESTALE;
	slot = &handles->slots[idx];
	old = atomic_load_explicit(&slot->word, memory_order_acquire);
	do {
		if (generation_of(old) != generation_of(run) || !(old & RPI_HANDLE_USER))
			return -ESTALE;
		next = word_after(old, RPI_HANDLE_USER, 0, &last);
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->word, &old, next, memory_order_acq_rel, memory_order_acquire));
	if (last)
		give_back(handles, idx);
	return 0;
}

/* The slot's word while this handle is the slot's, 0 otherwise. One load: the slot may
 * become another run's between any two. */
static uint64_t own_word(const struct rpi_handle_slot *slot, uint64_t run)
{
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);

	return generation_of(word) == generation_of(run) && (word & RPI_HANDLE_USER)
		       ? word
		       : 0;
}

int rpi_handles_outcome(struct rpi_handles *handles, uint64_t run, int *status_out)
{
	uint32_t idx = (uint32_t)run;
	struct rpi_handle_slot *slot;
	char text[RPI_ERROR_BYTES];
	uint64_t word;
	int status;

	if (idx >= handles->count)
		return -ESTALE;
	slot = &handles->slots[idx];
	word = own_word(slot, run);
	if (!(word & RPI_HANDLE_DONE))
		return word ? 0 : -ESTALE;
	status = slot->status;
	if (rpi_unlikely(status)) {
		memcpy(text, handles->texts[idx], sizeof(text));
		text[sizeof(text) - 1] = '\0';
	}
	atomic_thread_fence(memory_order_acquire);
	/* Released by another thread meanwhile: what was read may be the next run's. */
	if (!own_word(slot, run))
		return -ESTALE;
	if (rpi_unlikely(status))
		rpi_error_set(text);
	atomic_store_explicit(&slot->waited, 1, memory_order_relaxed);
	*status_out = status;
	return 1;
}
