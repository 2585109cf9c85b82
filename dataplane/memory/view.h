/* SPDX-License-Identifier: MIT */
#ifndef RPI_MEMORY_VIEW_H
#define RPI_MEMORY_VIEW_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/tensor.h>

/* No view spans or moves more, so that sums of two spans and differences of two
 * offsets stay within an int64_t. Far above what an address space holds. */
#define RPI_VIEW_BYTES_MAX (INT64_MAX / 4)

/*
 * A view in bytes: the runs of run_bytes each that start at
 * base + sum of i_k * stride_bytes[k], 0 <= i_k < shape[k].
 *
 * Straight from a tensor a run is one element (one byte for RP_FP4E2M1), and every dim
 * is there; rpi_view_normalise() makes the runs long and the dims few, down to rank 0,
 * which is one run.
 */
struct rpi_view {
	uintptr_t base;	    /* its lowest byte: strides are positive */
	int64_t span_bytes; /* from base to one past the highest byte */
	int64_t run_bytes;
	uint32_t rank; /* 0 to RP_MAX_DIMS; what is past it is not set */
	uint32_t pad0;
	int64_t shape[RP_MAX_DIMS];
	int64_t stride_bytes[RP_MAX_DIMS];
};

/* What every call demands of a tensor; `call` opens the error line. Defined with the
 * dtypes. */
int rpi_tensor_check(const char *call, const struct rp_tensor *t);

/* Whether a checked tensor is contiguous. Strides of dims of length 1 don't matter. */
static inline bool rpi_tensor_row_major(const struct rp_tensor *t)
{
	int64_t stride = 1;

	for (uint32_t k = t->rank; k-- > 0;) {
		if (t->shape[k] > 1 && t->strides[k] != stride)
			return false;
		stride *= t->shape[k];
	}
	return true;
}

/* The base-two logarithm of each dtype's bits, four bits of one word each: no table is
 * read for it, several times for each tensor of a task. */
#define RPI_DTYPE_ORDER(dtype, order) (UINT64_C(order) << 4 * (dtype))
#define RPI_DTYPE_ORDERS                                                     \
	(RPI_DTYPE_ORDER(RP_FLOAT32, 5) | RPI_DTYPE_ORDER(RP_FLOAT16, 4) |   \
	 RPI_DTYPE_ORDER(RP_BFLOAT16, 4) | RPI_DTYPE_ORDER(RP_INT8, 3) |     \
	 RPI_DTYPE_ORDER(RP_INT16, 4) | RPI_DTYPE_ORDER(RP_INT32, 5) |       \
	 RPI_DTYPE_ORDER(RP_INT64, 6) | RPI_DTYPE_ORDER(RP_UINT8, 3) |       \
	 RPI_DTYPE_ORDER(RP_UINT16, 4) | RPI_DTYPE_ORDER(RP_UINT32, 5) |     \
	 RPI_DTYPE_ORDER(RP_UINT64, 6) | RPI_DTYPE_ORDER(RP_BOOL, 3) |       \
	 RPI_DTYPE_ORDER(RP_FP8E4M3FN, 3) | RPI_DTYPE_ORDER(RP_FP8E8M0, 3) | \
	 RPI_DTYPE_ORDER(RP_FP4E2M1, 2))
/* That of a byte. */
#define RPI_DTYPE_ORDER_BYTE 3

static_assert(RP_DTYPE_END <= 16, "one word has them all");

/* 0: no dtype. */
static inline uint32_t rpi_dtype_order(uint32_t dtype)
{
	return dtype < RP_DTYPE_END ? (uint32_t)(RPI_DTYPE_ORDERS >> 4 * dtype & 15) : 0;
}

/* Bytes that `elements` of this dtype take. The count must be even for RP_FP4E2M1. */
static inline int64_t rpi_dtype_bytes(uint32_t dtype, int64_t elements)
{
	uint32_t order = rpi_dtype_order(dtype);

	return order < RPI_DTYPE_ORDER_BYTE
		       ? elements / 2
		       : elements * (INT64_C(1) << (order - RPI_DTYPE_ORDER_BYTE));
}

/* The view of a tensor, or what rpi_tensor_check() says of it. */
int rpi_view_from_tensor(const char *call, const struct rp_tensor *t,
			 struct rpi_view *out);

/* Same bytes in the same order, fewest dims: those of length 1 go, a dim whose steps
 * continue the next one joins it, and inner dims without gaps join the run. */
void rpi_view_normalise(struct rpi_view *view);

/* How many bytes a copy of the view moves. */
int64_t rpi_view_bytes(const struct rpi_view *view);

/* Where the run at `index` begins, and the index of the next one in row-major order:
 * false past the last. The first is all zero. */
static inline uintptr_t rpi_view_run(const struct rpi_view *view, const int64_t *index)
{
	uintptr_t at = view->base;

	for (uint32_t dim = 0; dim < view->rank; dim++)
		at += (uintptr_t)(index[dim] * view->stride_bytes[dim]);
	return at;
}

static inline bool rpi_view_step(const struct rpi_view *view, int64_t *index)
{
	for (uint32_t dim = view->rank; dim > 0; dim--) {
		if (++index[dim - 1] < view->shape[dim - 1])
			return true;
		index[dim - 1] = 0;
	}
	return false;
}

/* The lowest byte and one past the highest. */
static inline void rpi_view_extent(const struct rpi_view *view, uintptr_t *lowest_out,
				   uintptr_t *past_out)
{
	*lowest_out = view->base;
	*past_out = view->base + (uintptr_t)view->span_bytes;
}

/*
 * Copy the elements in row-major order to or from rpi_view_bytes() packed bytes. base
 * must be an address of this process; packed and view must not overlap. Where a view
 * reaches a byte twice, unpack leaves the later element there.
 */
void rpi_view_pack(void *packed, const struct rpi_view *view);
void rpi_view_unpack(const struct rpi_view *view, const void *packed);

#endif
