/* SPDX-License-Identifier: MIT */
/* What becomes of a piece of an exchange. */
#include "comm/exchange.h"
#include "comm/reduce.h"
#include "memory/copy.h"

void rpi_take_reduced(struct rpi_exchange *x, const void *const *rows, uint64_t at,
		      uint64_t bytes)
{
	uint64_t length = x->lengths ? x->lengths[x->comm->rank] : x->bytes;

	if (at >= length)
		return;
	if (bytes > length - at)
		bytes = length - at;
	rpi_reduce(x->out + at, rows, x->comm->slot->size, bytes / x->grain, x->dtype,
		   x->op, x->bytes >= RPI_REDUCE_AROUND_BYTES);
}

void rpi_take_rows(struct rpi_exchange *x, const void *const *rows, uint64_t at,
		   uint64_t bytes)
{
	uint32_t from;

	for (from = 0; from < x->comm->slot->size; from++) {
		/* What lies in a window, or is this rank's own, is there at once. */
		bool whole = from == x->comm->rank || rpi_exchange_is_direct(x, from);
		uint64_t length = x->gets ? x->gets[from] : x->bytes, n = bytes;
		uint8_t *to = x->out + from * x->out_stride + at;

		if (at >= length || to == rows[from])
			continue;
		if ((whole && x->last) || n > length - at)
			n = length - at;
		rpi_copy_stage(to, rows[from], n, length);
	}
}
