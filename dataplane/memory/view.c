/* SPDX-License-Identifier: MIT */
/*
 * Parts of a tensor, its compact form in bytes, and strided copies.
 *
 * Never: a system call, an allocation, a lock, a log line.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "memory/view.h"

/* Move to an element that lies whole bytes away. An integer sum: for resident memory
 * data is an offset, which may start at 0. */
static void move_data(struct rp_tensor *t, int64_t elements)
{
	t->data = (void *)((uintptr_t)t->data +
			   (uintptr_t)rpi_dtype_bytes(t->dtype, elements));
}

int rp_tensor_index(const struct rp_tensor *t, int64_t i, struct rp_tensor *out)
{
	struct rp_tensor part;
	int err = rpi_tensor_check("tensor_index", t);

	if (err)
		return err;
	if (!out)
		return rpi_fail(-EINVAL, "tensor_index: out NULL, expected a tensor");
	if (i < -t->shape[0] || i >= t->shape[0])
		return rpi_fail(-ERANGE,
				"tensor_index: i %" PRId64 ", expected %" PRId64
				" to %" PRId64,
				i, -t->shape[0], t->shape[0] - 1);
	if (t->rank == 1 && t->dtype == RP_FP4E2M1)
		return rpi_fail(-EINVAL, "tensor_index: one element of fp4e2m1, expected "
					 "a part made of whole bytes");
	part.data = t->data;
	part.resident = t->resident;
	part.dtype = t->dtype;
	part.rank = t->rank > 1 ? t->rank - 1 : 1;
	move_data(&part, (i < 0 ? i + t->shape[0] : i) * t->strides[0]);
	/* All of them: a count that is known is a few moves, another a call. */
	for (uint32_t k = 1; k < RP_MAX_DIMS; k++) {
		part.shape[k - 1] = t->shape[k];
		part.strides[k - 1] = t->strides[k];
	}
	part.shape[RP_MAX_DIMS - 1] = part.strides[RP_MAX_DIMS - 1] = 0;
	if (t->rank == 1) {
		part.shape[0] = 1;
		part.strides[0] = t->strides[0];
	}
	*out = part;
	return 0;
}

/* What is left to ask when dim is the last one of an RP_FP4E2M1 tensor. */
static int check_fp4_slice(int64_t start, int64_t count, int64_t step)
{
	if (step != 1)
		return rpi_fail(-EINVAL,
				"tensor_slice: step %" PRId64
				", expected 1 in the last dim of fp4e2m1",
				step);
	if (start % 2 || count % 2)
		return rpi_fail(-EINVAL,
				"tensor_slice: start %" PRId64 " and count %" PRId64
				", expected even ones in the last dim of fp4e2m1",
				start, count);
	return 0;
}

int rp_tensor_slice(const struct rp_tensor *t, uint32_t dim, int64_t start, int64_t count,
		    int64_t step, struct rp_tensor *out)
{
	int err = rpi_tensor_check("tensor_slice", t);
	struct rp_tensor part;

	if (err)
		return err;
	if (!out)
		return rpi_fail(-EINVAL, "tensor_slice: out NULL, expected a tensor");
	if (dim >= t->rank)
		return rpi_fail(-EINVAL,
				"tensor_slice: dim %" PRIu32 ", expected 0 to %" PRIu32,
				dim, t->rank - 1);
	if (count < 1 || step < 1)
		return rpi_fail(-EINVAL,
				"tensor_slice: count %" PRId64 " and step %" PRId64
				", expected 1 or more",
				count, step);
	if (start < 0 || start >= t->shape[dim])
		return rpi_fail(-ERANGE,
				"tensor_slice: start %" PRId64 ", expected 0 to %" PRId64,
				start, t->shape[dim] - 1);
	if (count - 1 > (t->shape[dim] - 1 - start) / step)
		return rpi_fail(-ERANGE,
				"tensor_slice: start %" PRId64 ", count %" PRId64
				", step %" PRId64 ", expected to end within %" PRId64,
				start, count, step, t->shape[dim]);
	if (t->dtype == RP_FP4E2M1 && dim == t->rank - 1 &&
	    check_fp4_slice(start, count, step))
		return -EINVAL;

	part = *t;
	move_data(&part, start * t->strides[dim]);
	part.shape[dim] = count;
	/* Of one index the step says nothing, and may be any number. */
	if (count > 1)
		part.strides[dim] *= step;
	*out = part;
	return 0;
}

/* Two elements a byte, in the last dim: its runs are bytes. */
static __attribute__((cold, noinline)) void fill_pairs(const struct rp_tensor *t,
						       struct rpi_view *out)
{
	const uint32_t last = t->rank - 1;

	out->run_bytes = 1;
	for (uint32_t k = 0; k < last; k++) {
		out->shape[k] = t->shape[k];
		out->stride_bytes[k] = t->shape[k] > 1 ? t->strides[k] / 2 : 1;
	}
	out->shape[last] = t->shape[last] / 2;
	out->stride_bytes[last] = 1;
}

static RPI_ALWAYS_INLINE void fill_elements(const struct rp_tensor *t,
					    struct rpi_view *out)
{
	const int64_t bytes = rpi_dtype_bytes(t->dtype, 1);

	out->run_bytes = bytes;
	for (uint32_t k = 0; k < t->rank; k++) {
		out->shape[k] = t->shape[k];
		/* The stride of a single index is never used, and may be any number;
		 * 1 keeps the product small. */
		out->stride_bytes[k] = t->shape[k] > 1 ? t->strides[k] * bytes : 1;
	}
}

int rpi_view_from_tensor(const char *call, const struct rp_tensor *t,
			 struct rpi_view *out)
{
	int err = rpi_tensor_check(call, t);

	if (rpi_unlikely(err))
		return err;
	out->base = (uintptr_t)t->data;
	out->rank = t->rank;
	if (rpi_likely(t->dtype != RP_FP4E2M1))
		fill_elements(t, out);
	else
		fill_pairs(t, out);
	out->span_bytes = out->run_bytes;
	for (uint32_t k = 0; k < out->rank; k++)
		out->span_bytes += (out->shape[k] - 1) * out->stride_bytes[k];
	return 0;
}

void rpi_view_normalise(struct rpi_view *view)
{
	struct rpi_view in = *view;
	uint32_t rank = RP_MAX_DIMS;

	/* From the inside out, into the back of the arrays, then moved to the front. */
	for (uint32_t k = in.rank; k-- > 0;) {
		int64_t n = in.shape[k];
		int64_t stride = in.stride_bytes[k];

		if (n == 1)
			continue;
		if (rank == RP_MAX_DIMS && stride == in.run_bytes) {
			in.run_bytes *= n;
			continue;
		}
		if (rank < RP_MAX_DIMS &&
		    stride == view->shape[rank] * view->stride_bytes[rank]) {
			view->shape[rank] *= n;
			continue;
		}
		rank--;
		view->shape[rank] = n;
		view->stride_bytes[rank] = stride;
	}
	view->run_bytes = in.run_bytes;
	view->rank = RP_MAX_DIMS - rank;
	memmove(view->shape, view->shape + rank, view->rank * sizeof(view->shape[0]));
	memmove(view->stride_bytes, view->stride_bytes + rank,
		view->rank * sizeof(view->stride_bytes[0]));
	for (uint32_t k = view->rank; k < RP_MAX_DIMS; k++)
		view->shape[k] = view->stride_bytes[k] = 0;
}

int64_t rpi_view_bytes(const struct rpi_view *view)
{
	int64_t bytes = view->run_bytes;

	for (uint32_t k = 0; k < view->rank; k++)
		bytes *= view->shape[k];
	return bytes;
}

/*
 * n runs from src to dst, each side with its own stride. The sizes of single elements
 * are written out so that the compiler sees a constant.
 */
static void copy_runs(char *restrict dst, int64_t dst_stride, const char *restrict src,
		      int64_t src_stride, int64_t n, int64_t run_bytes)
{
#define COPY_LOOP(bytes)                \
	for (int64_t i = 0; i < n; i++) \
	memcpy(dst + i * dst_stride, src + i * src_stride, (size_t)(bytes))

	switch (run_bytes) {
	case 1:
		COPY_LOOP(1);
		break;
	case 2:
		COPY_LOOP(2);
		break;
	case 4:
		COPY_LOOP(4);
		break;
	case 8:
		COPY_LOOP(8);
		break;
	default:
		COPY_LOOP(run_bytes);
	}
#undef COPY_LOOP
}

/* Step to the next row, a row being the innermost dim. False after the last one. */
static bool next_row(const struct rpi_view *v, int64_t at[RP_MAX_DIMS], char **row)
{
	for (uint32_t k = v->rank ? v->rank - 1 : 0; k-- > 0;) {
		if (++at[k] < v->shape[k]) {
			*row += v->stride_bytes[k];
			return true;
		}
		*row -= (v->shape[k] - 1) * v->stride_bytes[k];
		at[k] = 0;
	}
	return false;
}

static void copy_view(const struct rpi_view *given, char *packed, bool to_view)
{
	int64_t at[RP_MAX_DIMS] = { 0 };
	struct rpi_view v = *given;
	int64_t n, stride;
	char *row;

	rpi_view_normalise(&v);
	row = (char *)v.base;
	n = v.rank ? v.shape[v.rank - 1] : 1;
	stride = v.rank ? v.stride_bytes[v.rank - 1] : 0;
	do {
		if (to_view)
			copy_runs(row, stride, packed, v.run_bytes, n, v.run_bytes);
		else
			copy_runs(packed, v.run_bytes, row, stride, n, v.run_bytes);
		packed += n * v.run_bytes;
	} while (next_row(&v, at, &row));
}

void rpi_view_pack(void *packed, const struct rpi_view *view)
{
	copy_view(view, packed, false);
}

void rpi_view_unpack(const struct rpi_view *view, const void *packed)
{
	/* Only read through in this direction. */
	copy_view(view, (char *)(uintptr_t)packed, true);
}
