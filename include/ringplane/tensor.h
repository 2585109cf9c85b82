/* SPDX-License-Identifier: MIT */
#ifndef RINGPLANE_TENSOR_H
#define RINGPLANE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. None is 0, so that a zeroed tensor is refused. */
enum rp_dtype {
	RP_FLOAT32 = 1,
	RP_FLOAT16,
	RP_BFLOAT16,
	RP_INT8,
	RP_INT16,
	RP_INT32,
	RP_INT64,
	RP_UINT8,
	RP_UINT16,
	RP_UINT32,
	RP_UINT64,
	RP_BOOL, /* one byte */
	RP_FP8E4M3FN,
	RP_FP8E8M0,
	RP_FP4E2M1, /* two per byte */

	RP_DTYPE_END /* one past the last */
};

/*
 * "float32", "bfloat16", "fp4e2m1"; "?" for a value that is no dtype.
 *
 * Ownership   the library's, constant. Threads any. Blocks no.
 */
RP_API const char *rp_dtype_name(enum rp_dtype dtype);

/* Bits of one element: 4 to 64; 0 for a value that is no dtype. */
RP_API uint32_t rp_dtype_bits(enum rp_dtype dtype);

#define RP_MAX_DIMS 5

/*
 * A view of elements that lie in memory that somebody else owns. Plain data: copy it
 * freely, fill it by hand or by the calls below; every call that takes one checks it.
 *
 * A view has 1 to RP_MAX_DIMS dims, each at least 1 long: there are no zero-length
 * tensors. Its first element lies at `data`, and element (i0, i1, ...) lies
 * i0*strides[0] + i1*strides[1] + ... elements further on. Strides are positive; that
 * of a dim of length 1 is never used. shape and strides past `rank` are ignored.
 *
 * RP_FP4E2M1 has two elements per byte, and a view of it is made of whole bytes: its
 * last dim is even and has stride 1, and the strides of all other dims are even.
 */
struct rp_tensor {
	void *data;	   /* host address; inside resident memory: byte offset */
	uint64_t resident; /* 0: host memory; otherwise the id of device memory */
	uint32_t dtype;	   /* enum rp_dtype */
	uint32_t rank;
	int64_t shape[RP_MAX_DIMS];
	int64_t strides[RP_MAX_DIMS]; /* in elements */
};

/*
 * The calls below run on any thread, never block and allocate nothing. Out arguments
 * are written only on success; a tensor may be its own out argument. All return 0 or
 *
 *   -EINVAL  an argument is NULL, or the tensor is none: dtype unknown, rank 0 or above
 *            RP_MAX_DIMS, a dim or stride below 1, more bytes than an address reaches,
 *            an RP_FP4E2M1 view that isn't made of whole bytes
 *
 * and what is said at each.
 */

/*
 * Describe `data` as a contiguous row-major host tensor.
 *
 * data        remains the caller's and must outlive every use of the view.
 * shape       `rank` dims.
 */
RP_API int rp_tensor_host(struct rp_tensor *out, void *data, enum rp_dtype dtype,
			  uint32_t rank, const int64_t *shape);

/*
 * t[i]: the i-th part along dim 0, which is dropped. A view always keeps one dim: t[i]
 * of a rank-1 tensor has the shape {1}.
 *
 * i           negative counts from the end: -1 is the last.
 *
 * Returns     -ERANGE  i is outside dim 0
 */
RP_API int rp_tensor_index(const struct rp_tensor *t, int64_t i, struct rp_tensor *out);

/*
 * Keep `count` indices of one dim: start, start + step, ...
 *
 * start       0 or more; negative ones do not count from the end here.
 * count       at least 1, as `step` is.
 *
 * Returns     -ERANGE  the first or the last of them is outside the dim
 *             -EINVAL  also: no such dim, count or step below 1
 */
RP_API int rp_tensor_slice(const struct rp_tensor *t, uint32_t dim, int64_t start,
			   int64_t count, int64_t step, struct rp_tensor *out);

/*
 * The same elements in another shape. Only a contiguous tensor has one.
 *
 * Returns     -EINVAL  also: t is not contiguous, or the element counts differ
 */
RP_API int rp_tensor_reshape(const struct rp_tensor *t, uint32_t rank,
			     const int64_t *shape, struct rp_tensor *out);

/* Whether the elements lie row-major without gaps. False for what is no tensor. */
RP_API bool rp_tensor_contiguous(const struct rp_tensor *t);

/* How many elements the view has. */
RP_API int rp_tensor_elements(const struct rp_tensor *t, int64_t *elements_out);

/* Bytes of its elements when packed: what a copy of the view moves. */
RP_API int rp_tensor_bytes(const struct rp_tensor *t, size_t *bytes_out);

#ifdef __cplusplus
}
#endif

#endif
