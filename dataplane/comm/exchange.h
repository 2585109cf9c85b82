/* SPDX-License-Identifier: MIT */
/*
 * One exchange between the ranks of a domain: each gives bytes, each takes what the
 * others give, piece by piece. Barrier, broadcast, the gathers and the mesh allreduce
 * are exchanges that differ in what they do with a piece.
 *
 * Bytes that lie in the giver's window, and are many, are read there (direct). Others
 * pass through its staging, in as many rounds as it takes, the next piece being on its
 * way while this one is worked on. Each rank says in the first round how it gives, so
 * ranks may differ in that.
 *
 * Never: an allocation, a lock, a log; a system call only to sleep or to wake a sleeper.
 */
#ifndef RPI_COMM_EXCHANGE_H
#define RPI_COMM_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/round.h"

/* Every rank gives. */
#define RPI_ALL_RANKS UINT32_MAX

struct rpi_exchange {
	struct rp_comm *comm;
	uint64_t call; /* packed */
	uint32_t root; /* the only one that gives, or RPI_ALL_RANKS */

	/*
	 * What this rank gives: `span` bytes at `in`. With stride 0 everybody is given
	 * the same, from their beginning; else rank r is given what begins at
	 * r * stride. A row has `bytes`, or lengths[r], which are fewer. Pieces are
	 * multiples of grain.
	 */
	const uint8_t *in;
	uint64_t span;
	uint64_t stride;
	uint64_t bytes; /* the same on every rank */
	const uint64_t *lengths;
	uint32_t grain;
	bool kept; /* `in` stays as it is until the exchange is over */

	/*
	 * What it takes: of rank r `bytes`, or gets[r]. With `tells` set the ranks tell
	 * each other: gets is filled from the others' lengths, in the first round.
	 */
	uint64_t *gets;
	bool tells;

	/*
	 * Take bytes at .. at + bytes - 1 of each row: rows[r] is where those of rank r
	 * are, this rank's own among them; those of a root only, where there is one.
	 */
	void (*take)(struct rpi_exchange *exchange, const void *const *rows, uint64_t at,
		     uint64_t bytes);

	/* The taker's. */
	uint8_t *out;
	uint64_t out_stride; /* of the ranks' rows */
	uint32_t dtype;
	uint32_t op;

	/* exchange.c's. */
	const uint64_t *places; /* [size], what the ranks have said */
	bool direct;		/* how this rank gives */
	bool last;		/* this take is the last one */
};

/* Do it. 0, or what a round has failed with. A domain of one takes its own bytes. */
int rpi_exchange(struct rpi_exchange *x);

/* Take functions: the rows' reduction to `out`; row r to out + r * out_stride. */
void rpi_take_reduced(struct rpi_exchange *x, const void *const *rows, uint64_t at,
		      uint64_t bytes);
void rpi_take_rows(struct rpi_exchange *x, const void *const *rows, uint64_t at,
		   uint64_t bytes);

/* Whether the rank gives from its window: then rows[rank] has all of its bytes on the
 * last take. */
static inline bool rpi_exchange_is_direct(const struct rpi_exchange *exchange,
					  uint32_t rank)
{
	return exchange->places[rank] & 1;
}

#endif
