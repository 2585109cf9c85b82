/* SPDX-License-Identifier: MIT */
#include "comm/allreduce.h"

#include <errno.h>

/*
 * From these sizes on a reduce-scatter and an allgather beat a mesh, where each rank
 * reads all data of all others. The bits are the same.
 */
#define SPLIT_BYTES	((uint64_t)16 << 10)
#define SPLIT_BYTES_TWO ((uint64_t)256 << 10) /* of two ranks */

static bool is_much(const struct rp_comm *comm, uint64_t bytes)
{
	if (comm->slot->size <= 2)
		return comm->slot->size == 2 && bytes >= SPLIT_BYTES_TWO;
	return bytes >= SPLIT_BYTES;
}

int rp_comm_allreduce(struct rp_comm *comm, const void *in, void *out, uint64_t count,
		      enum rp_dtype dtype, enum rp_reduce_op op,
		      enum rp_algorithm algorithm)
{
	struct rpi_call call = {
		.kind = RPI_CALL_ALLREDUCE,
		.dtype = (uint32_t)dtype,
		.op = (uint32_t)op,
		.algorithm = (uint32_t)algorithm,
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
	if (algorithm == RP_ALGORITHM_RING)
		return rpi_allreduce_ring(comm, &call, in, out);
	if (algorithm == RP_ALGORITHM_AUTO && is_much(comm, from.bytes))
		return rpi_allreduce_split(comm, &call, in, out);
	return rpi_allreduce_mesh(comm, &call, in, out);
}
