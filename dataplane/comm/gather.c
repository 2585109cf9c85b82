/* SPDX-License-Identifier: MIT */
#include "comm/exchange.h"

int rp_comm_allgather(struct rp_comm *comm, const void *in, void *out, uint64_t count,
		      enum rp_dtype dtype)
{
	struct rpi_call call = {
		.kind = RPI_CALL_ALLGATHER,
		.dtype = (uint32_t)dtype,
		.count = count,
	};
	struct rpi_exchange exchange;
	struct rpi_span from, to;
	int err = rpi_call_check(comm, &call, in, out);

	if (rpi_unlikely(err))
		return err;
	from = (struct rpi_span){ in, rpi_call_bytes(&call, count) };
	to = (struct rpi_span){ out, from.bytes * comm->slot->size };
	err = rpi_call_check_apart(comm, &call, from, to);
	if (rpi_unlikely(err))
		return err;
	exchange = (struct rpi_exchange){
		.comm = comm,
		.call = rpi_call_pack(&call),
		.root = RPI_ALL_RANKS,
		.in = in,
		.span = from.bytes,
		.bytes = from.bytes,
		.grain = rpi_call_grain(&call),
		.kept = true,
		.take = rpi_take_rows,
		.out = out,
		.out_stride = from.bytes,
	};
	return rpi_exchange(&exchange);
}
