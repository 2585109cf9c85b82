/* SPDX-License-Identifier: MIT */
#include "comm/exchange.h"

#include <string.h>

/*
 * Fewer bytes than this are staged even if they lie in the window: the copy costs less
 * than the closing round of a direct exchange.
 */
#define DIRECT_BYTES_MIN 8192u

/* What a rank says of its bytes (RPI_WORD_PLACE): their offset in its window, odd, or
 * how many of them it is going to stage, even. */
static uint64_t place_in_window(uint64_t offset)
{
	return offset << 1 | 1;
}

static uint64_t place_in_staging(uint64_t bytes)
{
	return bytes << 1;
}

static bool gives(const struct rpi_exchange *x, uint32_t rank)
{
	return x->root == RPI_ALL_RANKS || x->root == rank;
}

static uint64_t length_for(const struct rpi_exchange *x, uint32_t rank)
{
	return x->lengths ? x->lengths[rank] : x->bytes;
}

/* How long the longest row is that passes through the staging: known to all, unless
 * the ranks tell each other lengths. */
static uint64_t longest(const struct rpi_exchange *x)
{
	uint64_t most = 0;
	uint32_t to;

	if (!x->tells)
		return x->bytes;
	for (to = 0; to < x->comm->slot->size; to++)
		if (to != x->comm->rank && x->lengths[to] > most)
			most = x->lengths[to];
	return most;
}

/* Bytes of one row that a round can carry. */
static uint64_t piece_bytes(const struct rpi_exchange *x)
{
	uint64_t room = rpi_round_slot_bytes(x->comm);

	if (x->stride)
		room /= x->comm->slot->size;
	/* RPI_STAGING_BYTES_MIN is a line at least. */
	return room & ~(uint64_t)(RPI_CACHE_LINE - 1);
}

static uint64_t say_place(struct rpi_exchange *x)
{
	const struct rp_comm *comm = x->comm;
	const uint8_t *window = comm->slot->windows[comm->rank];
	uint64_t offset = (uint64_t)((uintptr_t)x->in - (uintptr_t)window);

	x->direct = gives(x, comm->rank) && x->kept && x->span >= DIRECT_BYTES_MIN &&
		    offset < comm->slot->window_bytes &&
		    x->span <= comm->slot->window_bytes - offset;
	if (x->direct)
		return place_in_window(offset);
	return place_in_staging(gives(x, comm->rank) ? longest(x) : 0);
}

static void stage_row(const struct rpi_exchange *x, uint8_t *to, uint32_t rank,
		      uint64_t at, uint64_t piece)
{
	uint64_t length = length_for(x, rank);

	if (at < length)
		memcpy(to, x->in + rank * x->stride + at,
		       length - at < piece ? length - at : piece);
}

static void stage(const struct rpi_exchange *x, const struct rpi_round *round,
		  uint64_t at, uint64_t piece)
{
	const struct rp_comm *comm = x->comm;
	uint8_t *slot = rpi_round_slot(comm, round, comm->rank);
	uint32_t to;

	if (x->direct || !gives(x, comm->rank))
		return;
	if (!x->stride) {
		stage_row(x, slot, comm->rank, at, piece);
		return;
	}
	for (to = 0; to < comm->slot->size; to++)
		if (to != comm->rank)
			stage_row(x, slot + to * piece, to, at, piece);
}

static int open_round(struct rpi_exchange *x, struct rpi_round *round, uint64_t place,
		      uint64_t at, uint64_t piece)
{
	int err = rpi_round_begin(x->comm, x->call, round);

	if (err)
		return err;
	stage(x, round, at, piece);
	rpi_round_publish(x->comm, round, x->call, place, x->tells ? x->lengths : NULL);
	return 0;
}

static int await_givers(struct rpi_exchange *x, const struct rpi_round *round)
{
	if (x->root == RPI_ALL_RANKS)
		return rpi_round_await_all(x->comm, round, x->call);
	if (x->root == x->comm->rank)
		return 0;
	return rpi_round_await(x->comm, round, x->call, x->root);
}

/* What the first round tells: how everybody gives. */
struct plan {
	uint64_t step;	 /* bytes of a row that a take gets */
	uint64_t staged; /* bytes of the longest row that is staged */
	bool any_direct;
};

static void make_plan(struct rpi_exchange *x, const struct rpi_round *round,
		      uint64_t *places, struct plan *plan)
{
	const struct rp_comm *comm = x->comm;
	bool any_staged = false;
	uint32_t from;

	plan->staged = 0;
	plan->any_direct = false;
	for (from = 0; from < comm->slot->size; from++) {
		if (!gives(x, from))
			continue;
		if (from != comm->rank) {
			places[from] = rpi_round_word(comm, round, from, RPI_WORD_PLACE);
			if (x->tells)
				x->gets[from] =
					rpi_round_word(comm, round, from, RPI_WORD_COUNT);
		}
		if (rpi_exchange_is_direct(x, from)) {
			plan->any_direct = true;
			continue;
		}
		any_staged = true;
		if (places[from] >> 1 > plan->staged)
			plan->staged = places[from] >> 1;
	}
	plan->step = any_staged ? piece_bytes(x) : x->bytes;
}

static const void *row_from(const struct rpi_exchange *x, const struct rpi_round *round,
			    uint32_t from, uint64_t at)
{
	const struct rp_comm *comm = x->comm;

	if (from == comm->rank)
		return x->in + from * x->stride + at;
	if (rpi_exchange_is_direct(x, from))
		return comm->slot->windows[from] + (x->places[from] >> 1) +
		       comm->rank * x->stride + at;
	return rpi_round_slot(comm, round, from) +
	       (x->stride ? comm->rank * piece_bytes(x) : 0);
}

static void take(struct rpi_exchange *x, const struct rpi_round *round, uint64_t at,
		 uint64_t step)
{
	const void *rows[RP_MAX_PEERS];
	uint32_t from;

	if (!x->take)
		return;
	for (from = 0; from < x->comm->slot->size; from++)
		rows[from] = gives(x, from) ? row_from(x, round, from, at) : NULL;
	x->take(x, rows, at,
		at < x->bytes && step > x->bytes - at ? x->bytes - at : step);
}

/* Nobody's window is read any more once everybody has published this round. */
static int close_direct(struct rpi_exchange *x)
{
	struct rpi_round round;
	int err = rpi_round_begin(x->comm, x->call, &round);

	if (err)
		return err;
	rpi_round_publish(x->comm, &round, x->call, 0, NULL);
	return x->direct ? rpi_round_await_all(x->comm, &round, x->call) : 0;
}

static int take_own(struct rpi_exchange *x)
{
	const void *rows[1] = { x->in };

	x->last = true;
	if (x->take)
		x->take(x, rows, 0, x->bytes);
	return 0;
}

int rpi_exchange(struct rpi_exchange *x)
{
	uint64_t places[RP_MAX_PEERS], place, piece = piece_bytes(x), at = 0;
	struct rpi_round round, next;
	struct plan plan;
	int err;

	if (x->comm->slot->size == 1)
		return take_own(x);
	place = say_place(x);
	places[x->comm->rank] = place;
	x->places = places;
	err = open_round(x, &round, place, 0, piece);
	if (err)
		return err;
	err = await_givers(x, &round);
	if (err)
		return err;
	make_plan(x, &round, places, &plan);
	for (;;) {
		const bool last = at + plan.step >= plan.staged;

		x->last = last;
		if (!last) {
			/* R2: under way while this round's piece is taken. */
			err = open_round(x, &next, place, at + plan.step, piece);
			if (err)
				return err;
		}
		take(x, &round, at, plan.step);
		if (last)
			break;
		round = next;
		at += plan.step;
		err = await_givers(x, &round);
		if (err)
			return err;
	}
	return plan.any_direct ? close_direct(x) : 0;
}
