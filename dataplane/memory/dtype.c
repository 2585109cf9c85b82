/* SPDX-License-Identifier: MIT */
/* The dtypes, what makes a tensor, and tensors as a whole; parts of one are in view.c. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "memory/view.h"

static const char *const names[RP_DTYPE_END] = {
	[0] = "?",
	[RP_FLOAT32] = "float32",
	[RP_FLOAT16] = "float16",
	[RP_BFLOAT16] = "bfloat16",
	[RP_INT8] = "int8",
	[RP_INT16] = "int16",
	[RP_INT32] = "int32",
	[RP_INT64] = "int64",
	[RP_UINT8] = "uint8",
	[RP_UINT16] = "uint16",
	[RP_UINT32] = "uint32",
	[RP_UINT64] = "uint64",
	[RP_BOOL] = "bool",
	[RP_FP8E4M3FN] = "fp8e4m3fn",
	[RP_FP8E8M0] = "fp8e8m0",
	[RP_FP4E2M1] = "fp4e2m1",
};

const char *rp_dtype_name(enum rp_dtype dtype)
{
	return names[(uint32_t)dtype < RP_DTYPE_END ? dtype : 0];
}

uint32_t rp_dtype_bits(enum rp_dtype dtype)
{
	uint32_t order = rpi_dtype_order((uint32_t)dtype);

	return order ? 1u << order : 0;
}

/* The bound in elements; a multiple of 8, so that it never rounds up in bytes. */
static inline int64_t elements_max(uint32_t order)
{
	return RPI_VIEW_BYTES_MAX >> order << 3;
}

/* All but the strides and the address. */
static inline int check_shape(const char *call, const struct rp_tensor *t)
{
	const uint32_t order = rpi_dtype_order(t->dtype);
	int64_t elements = 1, most;

	if (!order)
		return rpi_fail(-EINVAL, "%s: dtype %" PRIu32 ", expected 1 to %d", call,
				t->dtype, RP_DTYPE_END - 1);
	most = elements_max(order);
	if (t->rank < 1 || t->rank > RP_MAX_DIMS)
		return rpi_fail(-EINVAL, "%s: rank %" PRIu32 ", expected 1 to %d", call,
				t->rank, RP_MAX_DIMS);
	for (uint32_t k = 0; k < t->rank; k++) {
		if (t->shape[k] < 1)
			return rpi_fail(-EINVAL,
					"%s: shape[%" PRIu32 "] %" PRId64
					", expected 1 or more",
					call, k, t->shape[k]);
		if (__builtin_mul_overflow(elements, t->shape[k], &elements) ||
		    elements > most)
			return rpi_fail(
				-EINVAL,
				"%s: shape[%" PRIu32 "] %" PRId64
				" makes the tensor too large, expected at most %" PRId64
				" elements of %s",
				call, k, t->shape[k], most, rp_dtype_name(t->dtype));
	}
	return 0;
}

/* Whole bytes only: a nibble shared by two views could not be written by one. */
static int check_fp4(const char *call, const struct rp_tensor *t)
{
	uint32_t last = t->rank - 1;

	if (t->shape[last] % 2)
		return rpi_fail(-EINVAL,
				"%s: shape[%" PRIu32 "] %" PRId64
				", expected an even last dim of fp4e2m1",
				call, last, t->shape[last]);
	if (t->strides[last] != 1)
		return rpi_fail(-EINVAL,
				"%s: strides[%" PRIu32 "] %" PRId64
				", expected 1 in the last dim of fp4e2m1",
				call, last, t->strides[last]);
	for (uint32_t k = 0; k < last; k++)
		if (t->shape[k] > 1 && t->strides[k] % 2)
			return rpi_fail(-EINVAL,
					"%s: strides[%" PRIu32 "] %" PRId64
					", expected an even one for fp4e2m1",
					call, k, t->strides[k]);
	return 0;
}

/* The rest, once the shape is good. */
static inline int check_place(const char *call, const struct rp_tensor *t)
{
	const int64_t most = elements_max(rpi_dtype_order(t->dtype));
	int64_t last_element = 0;
	uintptr_t span;

	for (uint32_t k = 0; k < t->rank; k++) {
		int64_t step;

		if (t->strides[k] < 1)
			return rpi_fail(-EINVAL,
					"%s: strides[%" PRIu32 "] %" PRId64
					", expected 1 or more",
					call, k, t->strides[k]);
		if (__builtin_mul_overflow(t->shape[k] - 1, t->strides[k], &step) ||
		    __builtin_add_overflow(last_element, step, &last_element) ||
		    last_element >= most)
			return rpi_fail(-EINVAL,
					"%s: strides[%" PRIu32 "] %" PRId64
					" reach too far, expected at most %" PRId64
					" elements of %s",
					call, k, t->strides[k], most,
					rp_dtype_name(t->dtype));
	}
	if (t->dtype == RP_FP4E2M1 && check_fp4(call, t))
		return -EINVAL;

	span = (uintptr_t)rpi_dtype_bytes(t->dtype, last_element + 1);
	if (!t->resident && !t->data)
		return rpi_fail(-EINVAL, "%s: data NULL, expected an address", call);
	if ((uintptr_t)t->data > UINTPTR_MAX - span)
		return rpi_fail(-EINVAL,
				"%s: data %p + %" PRIuPTR
				" bytes, expected to end below the last address",
				call, t->data, span);
	return 0;
}

int rpi_tensor_check(const char *call, const struct rp_tensor *t)
{
	int err;

	if (!t)
		return rpi_fail(-EINVAL, "%s: tensor NULL, expected a tensor", call);
	err = check_shape(call, t);
	return err ? err : check_place(call, t);
}

/* Row-major strides for a shape that has been checked. */
static void fill_strides(struct rp_tensor *t)
{
	int64_t stride = 1;

	for (uint32_t k = t->rank; k-- > 0;) {
		t->strides[k] = stride;
		stride *= t->shape[k];
	}
}

/* Turn *t, whose data, resident and dtype are set, into a contiguous tensor. */
static int lay_out(const char *call, struct rp_tensor *t, uint32_t rank,
		   const int64_t *shape)
{
	int err;

	if (!shape)
		return rpi_fail(-EINVAL, "%s: shape NULL, expected %" PRIu32 " dims",
				call, rank);
	t->rank = rank;
	memset(t->shape, 0, sizeof(t->shape));
	memset(t->strides, 0, sizeof(t->strides));
	/* A bad rank is reported by check_shape(), which then reads no dim. */
	if (rank <= RP_MAX_DIMS)
		memcpy(t->shape, shape, rank * sizeof(*shape));
	err = check_shape(call, t);
	if (err)
		return err;
	fill_strides(t);
	return check_place(call, t);
}

int rp_tensor_host(struct rp_tensor *out, void *data, enum rp_dtype dtype, uint32_t rank,
		   const int64_t *shape)
{
	struct rp_tensor t = { .data = data, .dtype = (uint32_t)dtype };
	int err;

	if (!out)
		return rpi_fail(-EINVAL, "tensor_host: out NULL, expected a tensor");
	err = lay_out("tensor_host", &t, rank, shape);
	if (err)
		return err;
	*out = t;
	return 0;
}

static int64_t count_elements(const struct rp_tensor *t)
{
	int64_t elements = 1;

	for (uint32_t k = 0; k < t->rank; k++)
		elements *= t->shape[k];
	return elements;
}

int rp_tensor_reshape(const struct rp_tensor *t, uint32_t rank, const int64_t *shape,
		      struct rp_tensor *out)
{
	struct rp_tensor r;
	int err = rpi_tensor_check("tensor_reshape", t);

	if (err)
		return err;
	if (!out)
		return rpi_fail(-EINVAL, "tensor_reshape: out NULL, expected a tensor");
	if (!rpi_tensor_row_major(t))
		return rpi_fail(
			-EINVAL,
			"tensor_reshape: tensor with gaps, expected a contiguous one");
	r = *t;
	err = lay_out("tensor_reshape", &r, rank, shape);
	if (err)
		return err;
	if (count_elements(&r) != count_elements(t))
		return rpi_fail(-EINVAL,
				"tensor_reshape: shape of %" PRId64
				" elements, expected %" PRId64,
				count_elements(&r), count_elements(t));
	*out = r;
	return 0;
}

bool rp_tensor_contiguous(const struct rp_tensor *t)
{
	return !rpi_tensor_check("tensor_contiguous", t) && rpi_tensor_row_major(t);
}

int rp_tensor_elements(const struct rp_tensor *t, int64_t *elements_out)
{
	int err = rpi_tensor_check("tensor_elements", t);

	if (err)
		return err;
	if (!elements_out)
		return rpi_fail(-EINVAL, "tensor_elements: elements_out NULL, expected a "
					 "place for the count");
	*elements_out = count_elements(t);
	return 0;
}

int rp_tensor_bytes(const struct rp_tensor *t, size_t *bytes_out)
{
	int err = rpi_tensor_check("tensor_bytes", t);

	if (err)
		return err;
	if (!bytes_out)
		return rpi_fail(-EINVAL, "tensor_bytes: bytes_out NULL, expected a place "
					 "for the size");
	*bytes_out = (size_t)rpi_dtype_bytes(t->dtype, count_elements(t));
	return 0;
}
