/* SPDX-License-Identifier: MIT */
#include "comm/allreduce.h"

#include <errno.h>

/*
 * From this size on more than two ranks go round in a ring: each of them then moves
 * about five times the bytes, however many ranks there are, and in a mesh once more for
 * each further rank.
 */
#define RING_BYTES ((uint64_t)64 << 10)

static uint32_t choose(const struct rp_comm *comm, const struct rpi_call *call)
{
	if (comm->slot->size <= 2 || rpi_call_bytes(call, call->count) < RING_BYTES)
		return RP_ALGORITHM_MESH;
	return RP_ALGORITHM_RING;
}

int rp_comm_allreduce(struct rp_comm *comm, const void *in, void *out, uint64_t count,
		      enum rp_dtype dtype, enum rp_reduce_op op,
		      enum rp_algorithm algorithm)
{
	struct rpi_call call = {
		.kind = RPI_CALL_ALLREDUCE,
		.dtype = (uint32_t)dtype,
		.op = (uint32_t)op,
		.count = count,
	};
	struct rpi_span from, to;
	int err = rpi_call_check(comm, &call, in, out);

	if (rpi_unlikely(err))
		return err;
	if (rpi_unlikely((uint32_t)algorithm > RP_ALGORITHM_RING))
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_allreduce: algorithm %d, expected 0..%d",
				     (int)algorithm, RP_ALGORITHM_RING);
	from = (struct rpi_span){ in, rpi_call_bytes(&call, count) };
	to = (struct rpi_span){ out, from.bytes };
	if (in != out) {
		err = rpi_call_check_apart(comm, &call, from, to);
		if (rpi_unlikely(err))
			return err;
	}
	call.algorithm = algorithm == RP_ALGORITHM_AUTO ? choose(comm, &call)
							: (uint32_t)algorithm;
	if (call.algorithm == RP_ALGORITHM_RING)
		return rpi_allreduce_ring(comm, &call, in, out);
	return rpi_allreduce_mesh(comm, &call, in, out);
}
