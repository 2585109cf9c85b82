/* SPDX-License-Identifier: MIT */
/*
 * A reduce-scatter and an allgather of its results: each rank reduces one segment of the
 * data, of all ranks and in rank order, so that the result has the bits that a mesh
 * gives. Each rank then reads about twice the data, however many ranks there are.
 */
#include "comm/allreduce.h"
#include "comm/exchange.h"

/* Two ranks are quicker in a mesh, unless the result lies in a window. */
static int ask_wish(struct rp_comm *comm, uint64_t packed, bool mine, bool *all_out)
{
	struct rpi_round round;
	uint32_t from;
	int err = rpi_round_begin(comm, packed, &round);

	if (err)
		return err;
	rpi_round_publish(comm, &round, packed, mine, NULL);
	err = rpi_round_await_all(comm, &round, packed);
	if (err)
		return err;
	*all_out = mine;
	for (from = 0; from < comm->slot->size; from++)
		if (from != comm->rank &&
		    !rpi_round_word(comm, &round, from, RPI_WORD_PLACE))
			*all_out = false;
	return 0;
}

static bool in_window(const struct rp_comm *comm, const void *at, uint64_t bytes)
{
	uint64_t offset =
		(uint64_t)((uintptr_t)at - (uintptr_t)comm->slot->windows[comm->rank]);

	return offset < comm->slot->window_bytes &&
	       bytes <= comm->slot->window_bytes - offset;
}

static int split(struct rp_comm *comm, const struct rpi_call *call, uint64_t packed,
		 const uint8_t *in, uint8_t *out)
{
	uint32_t size = comm->slot->size, rank;
	uint64_t lengths[RP_MAX_PEERS];
	uint64_t all = rpi_call_bytes(call, call->count);
	uint64_t stride = rpi_call_bytes(call, (call->count + size - 1) / size);
	struct rpi_exchange exchange = {
		.comm = comm,
		.call = packed,
		.root = RPI_ALL_RANKS,
		.in = in,
		.span = all,
		.stride = stride,
		.bytes = stride,
		.lengths = lengths,
		.grain = rpi_call_grain(call),
		/* In place only its own row changes, which no other rank reads. */
		.kept = true,
		.take = rpi_take_reduced,
		.out = out + comm->rank * stride,
		.dtype = call->dtype,
		.op = call->op,
	};
	int err;

	for (rank = 0; rank < size; rank++) {
		uint64_t begin = rank * stride;

		lengths[rank] = begin >= all	       ? 0
				: all - begin < stride ? all - begin
						       : stride;
	}
	err = rpi_exchange(&exchange);
	if (err)
		return err;
	exchange.in = out + comm->rank * stride;
	exchange.span = lengths[comm->rank];
	exchange.stride = 0;
	exchange.gets = lengths;
	exchange.take = rpi_take_rows;
	exchange.out = out;
	exchange.out_stride = stride;
	return rpi_exchange(&exchange);
}

int rpi_allreduce_split(struct rp_comm *comm, const struct rpi_call *call, const void *in,
			void *out)
{
	uint64_t packed = rpi_call_pack(call);
	bool wish;
	int err;

	if (comm->slot->size == 2) {
		wish = in_window(comm, out, rpi_call_bytes(call, call->count));
		err = ask_wish(comm, packed, wish, &wish);
		if (err)
			return err;
		if (!wish)
			return rpi_allreduce_mesh(comm, call, in, out);
	}
	return split(comm, call, packed, in, out);
}
