/* SPDX-License-Identifier: MIT */
/*
 * How the ranks of a domain meet. A collective is a number of rounds, the same on every
 * rank. In each a rank stages what the others are to read, says so to all of them
 * (publish), and waits for those whose data it needs (await). What it says is that it
 * has begun this round, and nothing else is ever said: that data has been read is
 * concluded from the rounds that its reader began later.
 *
 * Turns are the rounds of one allocation of the domain, counted over all its leases. A
 * turn's data lies in one of RPI_ROUND_SLOTS parts of the staging, used in rotation; its
 * words in one of the line's two sets.
 *
 *   R1  A rank that begins round t has published t - 1, and it does not stage or publish
 *       t before it has seen every other rank publish t - 1 (rpi_round_begin()).
 *   R2  A rank that publishes round t has read all that it wants of rounds up to t - 2.
 *       A collective may read round t - 1 after it has published t: then the next
 *       round's data is under way while this one's is worked on.
 *   R3  A rank has read the words of round t - 1 when it publishes t.
 *
 * Why a slot of the staging may be written again in round t: by R1 all have published
 * t - 1, by R2 they have read up to t - 3, and the slot was used in t - 4 last. (Three
 * slots would do; four are a power of two.) Why two sets of words do: by R1 all have
 * published t - 1, by R3 they have read the words of t - 2, which are those that t
 * writes over. So data that passes through the staging costs one exchange, and nobody
 * waits until it was read. Data that is read where it lies does: its owner may change it
 * as soon as the collective returns, so there everybody publishes one round more, the
 * closing one, after having read, and the owners wait for it.
 *
 * A lease that has ended well has had the same rounds on every rank, so turns agree at
 * the start of the next; `t - 1` is then the last round of the lease before. One that
 * has failed is the allocation's last: the next allocation begins with turn 0, and by
 * then no task that might read is left.
 *
 * Never: an allocation, a lock, a log; a system call only to sleep or to wake a sleeper.
 */
#ifndef RPI_COMM_ROUND_H
#define RPI_COMM_ROUND_H

#include <stdint.h>

#include "comm/call.h"
#include "comm/comm.h"

#define RPI_ROUND_SLOTS 4u

/* What a domain's staging holds at least: one line for each member and slot. Who
 * allocates a domain sees to it. */
#define RPI_STAGING_BYTES_MIN(size) \
	((size_t)RPI_ROUND_SLOTS * RPI_CACHE_LINE * (size_t)(size))

/* The words of a round. */
enum {
	RPI_WORD_CALL, /* who meets here, see comm/call.h */
	RPI_WORD_PLACE,
	RPI_WORD_COUNT,
};

struct rpi_round {
	uint64_t number; /* in the lease, from 1 */
	uint64_t turn;
};

/* Begin the next round: after this the rank's slot of the staging may be written. 0,
 * -ETIMEDOUT, -ECANCELED, or what an earlier round of this lease has failed with. */
int rpi_round_begin(struct rp_comm *comm, uint64_t call, struct rpi_round *round_out);

/* Tell all others (E7). counts: a word for each rank, or NULL for none. */
void rpi_round_publish(struct rp_comm *comm, const struct rpi_round *round, uint64_t call,
		       uint64_t place, const uint64_t *counts);

/* Wait until `from` has published it (E7), and see that it calls the same. Errors as
 * rpi_round_begin(), and -EINVAL. */
int rpi_round_await(struct rp_comm *comm, const struct rpi_round *round, uint64_t call,
		    uint32_t from);

/* The same for all others. */
int rpi_round_await_all(struct rp_comm *comm, const struct rpi_round *round,
			uint64_t call);

static inline uint64_t rpi_round_slot_bytes(const struct rp_comm *comm)
{
	return comm->slot->staging_bytes / RPI_ROUND_SLOTS &
	       ~(uint64_t)(RPI_CACHE_LINE - 1);
}

/* Where `rank` stages in that round. */
static inline uint8_t *rpi_round_slot(const struct rp_comm *comm,
				      const struct rpi_round *round, uint32_t rank)
{
	return rpi_window_staging(comm->slot, rank) +
	       round->turn % RPI_ROUND_SLOTS * rpi_round_slot_bytes(comm);
}

/* A word that `from` has said to this rank in a round that was awaited. */
static inline uint64_t rpi_round_word(const struct rp_comm *comm,
				      const struct rpi_round *round, uint32_t from,
				      uint32_t word)
{
	struct rpi_comm_line *line = rpi_comm_line_at(comm->slot, comm->rank, from);

	/* Relaxed: ordered by E7. */
	return atomic_load_explicit(&line->words[round->turn & 1][word],
				    memory_order_relaxed);
}

#endif
