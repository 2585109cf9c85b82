/* SPDX-License-Identifier: MIT */
/*
 * A ring for the lone hand-off: one producer, one consumer, and a sequence word
 * in the same line as the payload, so that handing one over moves one line.
 * slots[s & mask] carries the payload of sequence s; sequences begin at 1, are
 * compared by equality and difference, and may wrap.
 *
 * Never: a system call, an allocation, a lock, a log, a wait.
 *
 * The ring has no word that says how far the consumer is. The producer's caller
 * knows that from elsewhere, in practice a done sequence that the consumer
 * publishes anyway, and asks rpi_slot_tx_room() with it before it writes.
 *
 * Memory order.
 *   E1 filled   producer writes the payload -> seq store-release
 *               seq load-acquire            -> consumer reads the payload
 *   E2 done     consumer has read payloads  -> done word store-release
 *               done word load-acquire      -> producer writes the slot again
 * The caller holds both ends of E2.
 * Invariant: done_seq < tx.next_seq <= done_seq + 1 + slot count, by difference.
 *
 * A consumer that polls takes the line away between any two stores to it. So have
 * the whole payload at hand and then write it in one go: rpi_slot_tx_put() does,
 * in whole vectors, or in place with nothing but stores before the publish.
 */
#ifndef RPI_RING_SLOT_H
#define RPI_RING_SLOT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

#define RPI_SLOT_PAYLOAD_BYTES 56

struct rpi_slot {
	/* The producer writes the line, the consumer reads it. */
	_Alignas(RPI_CACHE_LINE) _Atomic uint64_t seq; /* E1 */
	uint8_t payload[RPI_SLOT_PAYLOAD_BYTES];       /* the user's own struct */
};

static_assert(sizeof(struct rpi_slot) == RPI_CACHE_LINE,
	      "sequence and payload share one line");
static_assert(offsetof(struct rpi_slot, payload) == sizeof(uint64_t),
	      "the payload is aligned to 8 and follows the sequence");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2,
	      "only lock-free atomics work across processes");

/* Each in private memory of its side: neither is ever shared. */
struct rpi_slot_tx {
	struct rpi_slot *slots;
	uint64_t mask;
	uint64_t next_seq; /* to be published next */
};

struct rpi_slot_rx {
	const struct rpi_slot *slots;
	uint64_t mask;
	uint64_t next_seq; /* expected next */
};

/*
 * Make slots ready for sequences from first_seq on: each looks as if the round
 * before had just been taken. slot_count is a power of two. Memory that is all
 * zero is ready for first_seq 1 as it is. Before the memory is shared.
 */
static inline void rpi_slot_init(struct rpi_slot *slots, uint64_t slot_count,
				 uint64_t first_seq)
{
	assert(slot_count != 0 && (slot_count & (slot_count - 1)) == 0);
	for (uint64_t i = 0; i < slot_count; i++) {
		uint64_t seq = first_seq + i;
		struct rpi_slot *slot = &slots[seq & (slot_count - 1)];

		memset(slot->payload, 0, sizeof(slot->payload));
		/* Relaxed: nobody else looks yet. */
		atomic_store_explicit(&slot->seq, seq - slot_count, memory_order_relaxed);
	}
}

static inline void rpi_slot_tx_init(struct rpi_slot_tx *tx, struct rpi_slot *slots,
				    uint64_t slot_count, uint64_t first_seq)
{
	assert(slot_count != 0 && (slot_count & (slot_count - 1)) == 0);
	tx->slots = slots;
	tx->mask = slot_count - 1;
	tx->next_seq = first_seq;
}

static inline void rpi_slot_rx_init(struct rpi_slot_rx *rx, const struct rpi_slot *slots,
				    uint64_t slot_count, uint64_t first_seq)
{
	assert(slot_count != 0 && (slot_count & (slot_count - 1)) == 0);
	rx->slots = slots;
	rx->mask = slot_count - 1;
	rx->next_seq = first_seq;
}

/*
 * How many slots may be written now. done_seq is the last sequence that the
 * consumer is done with, loaded with acquire (E2); first_seq - 1 before any. A
 * word that can't be true (ahead of what was published, or more than a ring
 * behind) is a peer's mistake and gives 0: nothing is overwritten.
 */
static inline uint64_t rpi_slot_tx_room(const struct rpi_slot_tx *tx, uint64_t done_seq)
{
	uint64_t slot_count = tx->mask + 1;
	uint64_t pending_count = tx->next_seq - 1 - done_seq;

	return pending_count <= slot_count ? slot_count - pending_count : 0;
}

/* Where the next payload goes. Room first: the slot may still be being read. */
static inline void *rpi_slot_tx_payload(const struct rpi_slot_tx *tx)
{
	return tx->slots[tx->next_seq & tx->mask].payload;
}

/* Hand the slot over; returns its sequence. */
static inline uint64_t rpi_slot_tx_publish(struct rpi_slot_tx *tx)
{
	uint64_t seq = tx->next_seq;

	/* E1, producer's end. */
	atomic_store_explicit(&tx->slots[seq & tx->mask].seq, seq, memory_order_release);
	tx->next_seq = seq + 1;
	return seq;
}

/* Copy a whole payload of RPI_SLOT_PAYLOAD_BYTES in and hand it over: the fewest
 * stores that the compiler knows, next to each other. */
static inline uint64_t rpi_slot_tx_put(struct rpi_slot_tx *tx, const void *payload)
{
	memcpy(rpi_slot_tx_payload(tx), payload, RPI_SLOT_PAYLOAD_BYTES);
	return rpi_slot_tx_publish(tx);
}

/*
 * The payload of the expected sequence, in the slot itself, or NULL while it has
 * not come. It stays valid until the producer learns (E2) that this sequence is
 * done. Where the producer isn't trusted, copy it once before checking it.
 */
static inline const void *rpi_slot_rx_poll(const struct rpi_slot_rx *rx)
{
	const struct rpi_slot *slot = &rx->slots[rx->next_seq & rx->mask];

	/* E1, consumer's end. */
	if (atomic_load_explicit(&slot->seq, memory_order_acquire) != rx->next_seq)
		return NULL;
	return slot->payload;
}

/* Expect the next; returns the sequence just left, for the done word. */
static inline uint64_t rpi_slot_rx_next(struct rpi_slot_rx *rx)
{
	return rx->next_seq++;
}

#endif
