/* SPDX-License-Identifier: MIT */
#include "comm/exchange.h"

int rp_comm_reduce_scatter(struct rp_comm *comm, const void *in, void *out,
			   uint64_t count, enum rp_dtype dtype, enum rp_reduce_op op)
{
	struct rpi_call call = {
		.kind = RPI_CALL_REDUCE_SCATTER,
		.dtype = (uint32_t)dtype,
		.op = (uint32_t)op,
		.count = count,
	};
	struct rpi_exchange exchange;
	struct rpi_span from, to;
	int err = rpi_call_check(comm, &call, in, out);

	if (rpi_unlikely(err))
		return err;
	to = (struct rpi_span){ out, rpi_call_bytes(&call, count) };
	from = (struct rpi_span){ in, to.bytes * comm->slot->size };
	/* Its own row no other rank reads. */
	if ((const uint8_t *)out != (const uint8_t *)in + comm->rank * to.bytes) {
		err = rpi_call_check_apart(comm, &call, from, to);
		if (rpi_unlikely(err))
			return err;
	}
	exchange = (struct rpi_exchange){
		.comm = comm,
		.call = rpi_call_pack(&call),
		.root = RPI_ALL_RANKS,
		.in = in,
		.span = from.bytes,
		.stride = to.bytes,
		.bytes = to.bytes,
		.grain = rpi_call_grain(&call),
		.kept = true,
		.take = rpi_take_reduced,
		.out = out,
		.dtype = call.dtype,
		.op = call.op,
	};
	return rpi_exchange(&exchange);
}
