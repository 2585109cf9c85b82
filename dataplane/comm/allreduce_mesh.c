/* SPDX-License-Identifier: MIT */
/* Every rank reads every other's data and reduces it, in rank order. */
#include "comm/allreduce.h"
#include "comm/exchange.h"

int rpi_allreduce_mesh(struct rp_comm *comm, const struct rpi_call *call, const void *in,
		       void *out)
{
	struct rpi_exchange exchange = {
		.comm = comm,
		.call = rpi_call_pack(call),
		.root = RPI_ALL_RANKS,
		.in = in,
		.span = rpi_call_bytes(call, call->count),
		.bytes = rpi_call_bytes(call, call->count),
		.grain = rpi_call_grain(call),
		.kept = in != out,
		.take = rpi_take_reduced,
		.out = out,
		.dtype = call->dtype,
		.op = call->op,
	};

	return rpi_exchange(&exchange);
}
