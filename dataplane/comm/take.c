/* SPDX-License-Identifier: MIT */
/* What becomes of a piece of an exchange. */
#include "comm/exchange.h"
#include "comm/reduce.h"
#include "memory/copy.h"

void rpi_take_reduced(struct rpi_exchange *x, const void *const *rows, uint64_t at,
		      uint64_t bytes)
{
	rpi_reduce(x->out + at, rows, x->comm->slot->size, bytes / x->grain, x->dtype,
		   x->op, x->bytes >= RPI_REDUCE_AROUND_BYTES);
}

void rpi_take_rows(struct rpi_exchange *x, const void *const *rows, uint64_t at,
		   uint64_t bytes)
{
	uint32_t from;

	for (from = 0; from < x->comm->slot->size; from++)
		rpi_copy_stage(x->out + from * x->bytes + at, rows[from], bytes,
			       x->bytes);
}
