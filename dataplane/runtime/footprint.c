/* SPDX-License-Identifier: MIT */
#include "runtime/footprint.h"

#include <errno.h>

#include "base/error.h"

/* Bytes of an element; 0 for what takes the long way. */
static const uint8_t element_bytes[RP_DTYPE_END] = {
	[RP_FLOAT32] = 4,   [RP_FLOAT16] = 2, [RP_BFLOAT16] = 2, [RP_INT8] = 1,
	[RP_INT16] = 2,	    [RP_INT32] = 4,   [RP_INT64] = 8,	 [RP_UINT8] = 1,
	[RP_UINT16] = 2,    [RP_UINT32] = 4,  [RP_UINT64] = 8,	 [RP_BOOL] = 1,
	[RP_FP8E4M3FN] = 1, [RP_FP8E8M0] = 1, [RP_FP4E2M1] = 0,
};

/* Dims and strides below this make no product of the quick way wrap. */
#define QUICK_BITS 27

/* Elements of a view with gaps that the quick way takes: it may reach bytes twice. */
#define QUICK_ELEMENTS ((int64_t)1 << 34)

static __attribute__((noinline)) int long_way(const char *call, const struct rp_tensor *t,
					      struct rpi_view *out)
{
	int err = rpi_view_from_tensor(call, t, out);

	if (err)
		return err;
	rpi_view_normalise(out);
	return 0;
}

int rpi_footprint(const char *call, const struct rp_tensor *t, struct rpi_view *out)
{
	int64_t shape[RP_MAX_DIMS], stride[RP_MAX_DIMS]; /* innermost first */
	int64_t bytes = t->dtype < RP_DTYPE_END ? element_bytes[t->dtype] : 0;
	int64_t run = bytes, reach = 0, elements = 1;
	uint64_t large = 0;
	uint32_t rank = 0, k;

	if (rpi_unlikely(!bytes || t->rank - 1 >= RP_MAX_DIMS || !t->data))
		return long_way(call, t, out);
	for (k = t->rank; k-- > 0;) {
		int64_t n = t->shape[k], s = t->strides[k], step = s * bytes;

		/* Below 1 is large too. */
		large |= (uint64_t)(n - 1) | (uint64_t)(s - 1);
		if (rpi_unlikely(large >> QUICK_BITS || elements > QUICK_ELEMENTS))
			return long_way(call, t, out);
		if (n == 1)
			continue;
		elements *= n;
		if (!rank && step == run) {
			run *= n;
		} else if (rank && step == stride[rank - 1] * shape[rank - 1]) {
			reach += (n - 1) * step;
			shape[rank - 1] *= n;
		} else {
			reach += (n - 1) * step;
			shape[rank] = n;
			stride[rank++] = step;
		}
	}
	out->base = (uintptr_t)t->data;
	out->run_bytes = run;
	out->span_bytes = reach + run;
	out->rank = rank;
	out->pad0 = 0;
	for (k = 0; k < rank; k++) {
		out->shape[k] = shape[rank - 1 - k];
		out->stride_bytes[k] = stride[rank - 1 - k];
	}
	if (rpi_unlikely(elements > QUICK_ELEMENTS ||
			 out->base > UINTPTR_MAX - (uintptr_t)out->span_bytes))
		return long_way(call, t, out);
	return 0;
}

void rpi_footprint_lay_out(struct rp_tensor *t)
{
	int64_t stride = 1;
	uint32_t k;

	/* Any address will do until the real one is known; a product that wraps is
	 * refused by the check of the shape. */
	t->data = (void *)(uintptr_t)RPI_CACHE_LINE;
	for (k = t->rank < RP_MAX_DIMS ? t->rank : RP_MAX_DIMS; k-- > 0;) {
		t->strides[k] = stride;
		stride = (int64_t)((uint64_t)stride * (uint64_t)t->shape[k]);
	}
}
