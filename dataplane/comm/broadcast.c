/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "comm/exchange.h"
#include "memory/copy.h"

static void take_data(struct rpi_exchange *x, const void *const *rows, uint64_t at,
		      uint64_t bytes)
{
	rpi_copy_stage(x->out + at, rows[x->root], bytes, x->bytes);
}

int rp_comm_broadcast(struct rp_comm *comm, void *data, uint64_t count,
		      enum rp_dtype dtype, uint32_t root)
{
	struct rpi_call call = {
		.kind = RPI_CALL_BROADCAST,
		.dtype = (uint32_t)dtype,
		.root = root,
		.count = count,
	};
	struct rpi_exchange exchange;
	int err = rpi_call_check(comm, &call, data, data);

	if (rpi_unlikely(err))
		return err;
	if (rpi_unlikely(root >= comm->slot->size))
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_broadcast: root %" PRIu32
				     ", the domain '%s' has %" PRIu32 " ranks",
				     root, comm->slot->name, comm->slot->size);
	exchange = (struct rpi_exchange){
		.comm = comm,
		.call = rpi_call_pack(&call),
		.root = root,
		.in = data,
		.span = rpi_call_bytes(&call, count),
		.bytes = rpi_call_bytes(&call, count),
		.grain = rpi_call_grain(&call),
		.kept = true,
		.take = comm->rank == root ? NULL : take_data,
		.out = data,
	};
	return rpi_exchange(&exchange);
}
