/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "comm/exchange.h"

/* Both forms: rows of the call's count of elements. */
static int check(const struct rp_comm *comm, const struct rpi_call *call, const void *in,
		 void *out)
{
	struct rpi_span from, to;
	int err = rpi_call_check(comm, call, in, out);

	if (rpi_unlikely(err))
		return err;
	from = (struct rpi_span){ in,
				  rpi_call_bytes(call, call->count) * comm->slot->size };
	to = (struct rpi_span){ out, from.bytes };
	return rpi_call_check_apart(comm, call, from, to);
}

static struct rpi_exchange describe(struct rp_comm *comm, const struct rpi_call *call,
				    const void *in, void *out)
{
	uint64_t bytes = rpi_call_bytes(call, call->count);

	return (struct rpi_exchange){
		.comm = comm,
		.call = rpi_call_pack(call),
		.root = RPI_ALL_RANKS,
		.in = in,
		.span = bytes * comm->slot->size,
		.stride = bytes,
		.bytes = bytes,
		.grain = rpi_call_grain(call),
		.kept = true,
		.take = rpi_take_rows,
		.out = out,
		.out_stride = bytes,
	};
}

int rp_comm_all_to_all(struct rp_comm *comm, const void *in, void *out, uint64_t count,
		       enum rp_dtype dtype)
{
	struct rpi_call call = {
		.kind = RPI_CALL_ALL_TO_ALL,
		.dtype = (uint32_t)dtype,
		.count = count,
	};
	struct rpi_exchange exchange;
	int err = check(comm, &call, in, out);

	if (rpi_unlikely(err))
		return err;
	exchange = describe(comm, &call, in, out);
	return rpi_exchange(&exchange);
}

int rp_comm_all_to_all_v(struct rp_comm *comm, const void *in,
			 const uint64_t *send_counts, void *out, uint64_t *receive_counts,
			 uint64_t stride, enum rp_dtype dtype)
{
	struct rpi_call call = {
		.kind = RPI_CALL_ALL_TO_ALL_V,
		.dtype = (uint32_t)dtype,
		.count = stride,
	};
	uint64_t lengths[RP_MAX_PEERS];
	struct rpi_exchange exchange;
	uint32_t rank;
	int err = check(comm, &call, in, out);

	if (rpi_unlikely(err))
		return err;
	if (rpi_unlikely(!send_counts || !receive_counts))
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_all_to_all_v: %s NULL, expected a count for "
				     "each rank",
				     send_counts ? "receive_counts" : "send_counts");
	for (rank = 0; rank < comm->slot->size; rank++) {
		uint64_t count = send_counts[rank] < stride ? send_counts[rank] : stride;

		if (rpi_unlikely(dtype == RP_FP4E2M1 && count % 2))
			return rpi_comm_fail(comm, -EINVAL,
					     "comm_all_to_all_v: send_counts[%u] %llu, "
					     "expected an even one of fp4e2m1",
					     rank, (unsigned long long)count);
		lengths[rank] = rpi_call_bytes(&call, count);
	}
	exchange = describe(comm, &call, in, out);
	exchange.lengths = lengths;
	exchange.gets = receive_counts;
	exchange.tells = true;
	receive_counts[comm->rank] = lengths[comm->rank];
	err = rpi_exchange(&exchange);
	for (rank = 0; !err && rank < comm->slot->size; rank++)
		receive_counts[rank] = dtype == RP_FP4E2M1
					       ? receive_counts[rank] * 2
					       : receive_counts[rank] / exchange.grain;
	return err;
}
