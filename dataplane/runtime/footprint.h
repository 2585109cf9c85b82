/* SPDX-License-Identifier: MIT */
/*
 * A tensor's bytes, normalised while it is checked: what rpi_view_from_tensor() and
 * rpi_view_normalise() give, in one pass for tensors of ordinary size.
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#ifndef RPI_RUNTIME_FOOTPRINT_H
#define RPI_RUNTIME_FOOTPRINT_H

#include <stdbool.h>

#include "base/cpu.h"
#include "memory/overlap.h"

/* 0, or -EINVAL with an error line opened by `call`. The unused dims stay unset. */
int rpi_footprint(const char *call, const struct rp_tensor *t, struct rpi_view *out);

/* Fill strides and a stand-in address of an output that has none yet. */
void rpi_footprint_lay_out(struct rp_tensor *t);

/* Rows of one width at one stride on both sides, the lower one first. */
static inline bool rpi_footprint_rows_meet(const struct rpi_view *low,
					   const struct rpi_view *high)
{
	uint64_t stride = (uint64_t)low->stride_bytes[0];
	uint64_t distance = high->base - low->base;
	uint64_t rows = distance / stride, rest = distance - rows * stride;

	/* high's first row begins `rest` bytes after low's row `rows`, and stride - rest
	 * before the one after it. */
	if (rest < (uint64_t)low->run_bytes && rows < (uint64_t)low->shape[0])
		return true;
	return stride - rest < (uint64_t)high->run_bytes &&
	       rows + 1 < (uint64_t)low->shape[0];
}

/* rpi_view_overlap(), the common cases first. */
static inline bool rpi_footprint_meet(const struct rpi_view *a, const struct rpi_view *b)
{
	if (rpi_view_extents_disjoint(a, b))
		return false;
	if (!a->rank && !b->rank)
		return true;
	if (a->rank == 1 && b->rank == 1 && a->stride_bytes[0] == b->stride_bytes[0] &&
	    a->run_bytes <= a->stride_bytes[0] && b->run_bytes <= b->stride_bytes[0])
		return a->base <= b->base ? rpi_footprint_rows_meet(a, b)
					  : rpi_footprint_rows_meet(b, a);
	return rpi_view_overlap_within(a, b) != RPI_OVERLAP_NONE;
}

static inline bool rpi_footprint_covers(const struct rpi_view *a,
					const struct rpi_view *b)
{
	if (!a->rank)
		return b->base - a->base <= (uintptr_t)a->span_bytes &&
		       (uintptr_t)b->span_bytes <=
			       (uintptr_t)a->span_bytes - (b->base - a->base);
	return rpi_view_covers(a, b);
}

#endif
