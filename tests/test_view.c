/* SPDX-License-Identifier: MIT */
/* Tensors, their parts and their refusals; normal form; strided copies. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ringplane/error.h>

#include "memory/view.h"

static char memory[1 << 14];

/* The call left `want`, and a line that holds `text`. */
#define assert_refused(want, text, call)                                        \
	do {                                                                    \
		assert_int_equal(want, call);                                   \
		if (!strstr(rp_last_error(), text))                             \
			fail_msg("\"%s\" lacks \"%s\"", rp_last_error(), text); \
	} while (0)

static struct rp_tensor host(enum rp_dtype dtype, uint32_t rank, const int64_t *shape)
{
	struct rp_tensor t;

	assert_int_equal(0, rp_tensor_host(&t, memory, dtype, rank, shape));
	return t;
}

static void every_dtype_has_a_name_and_a_size(void **state)
{
	static const struct {
		enum rp_dtype dtype;
		const char *name;
		uint32_t bits;
	} cases[] = {
		{ RP_FLOAT32, "float32", 32 },	  { RP_FLOAT16, "float16", 16 },
		{ RP_BFLOAT16, "bfloat16", 16 },  { RP_INT8, "int8", 8 },
		{ RP_INT16, "int16", 16 },	  { RP_INT32, "int32", 32 },
		{ RP_INT64, "int64", 64 },	  { RP_UINT8, "uint8", 8 },
		{ RP_UINT16, "uint16", 16 },	  { RP_UINT32, "uint32", 32 },
		{ RP_UINT64, "uint64", 64 },	  { RP_BOOL, "bool", 8 },
		{ RP_FP8E4M3FN, "fp8e4m3fn", 8 }, { RP_FP8E8M0, "fp8e8m0", 8 },
		{ RP_FP4E2M1, "fp4e2m1", 4 },	  { (enum rp_dtype)0, "?", 0 },
		{ RP_DTYPE_END, "?", 0 },	  { (enum rp_dtype)UINT32_MAX, "?", 0 },
	};
	uint32_t known = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(cases[i].name, rp_dtype_name(cases[i].dtype));
		assert_int_equal(cases[i].bits, rp_dtype_bits(cases[i].dtype));
		known += cases[i].bits != 0;
	}
	assert_int_equal(15, known);
	assert_int_equal(15, RP_DTYPE_END - 1);
}

static void a_host_tensor_is_row_major(void **state)
{
	struct rp_tensor t = host(RP_FLOAT32, 3, (const int64_t[]){ 2, 3, 4 });
	int64_t elements;
	size_t bytes;

	(void)state;
	assert_ptr_equal(memory, t.data);
	assert_int_equal(0, t.resident);
	assert_int_equal(12, t.strides[0]);
	assert_int_equal(4, t.strides[1]);
	assert_int_equal(1, t.strides[2]);
	assert_true(rp_tensor_contiguous(&t));
	assert_int_equal(0, rp_tensor_elements(&t, &elements));
	assert_int_equal(24, elements);
	assert_int_equal(0, rp_tensor_bytes(&t, &bytes));
	assert_int_equal(96, bytes);
	t = host(RP_FP4E2M1, 2, (const int64_t[]){ 3, 6 });
	assert_int_equal(0, rp_tensor_bytes(&t, &bytes));
	assert_int_equal(9, bytes);
}

static void a_bad_host_tensor_is_refused_by_dim_and_value(void **state)
{
	const int64_t big = INT64_C(1) << 40;
	const struct {
		const char *text;
		enum rp_dtype dtype;
		uint32_t rank;
		int64_t shape[6];
	} cases[] = {
		{ "dtype 0", (enum rp_dtype)0, 1, { 1 } },
		{ "dtype 16", RP_DTYPE_END, 1, { 1 } },
		{ "rank 0", RP_INT8, 0, { 1 } },
		{ "rank 6", RP_INT8, 6, { 1, 1, 1, 1, 1, 1 } },
		{ "rank 4294967295", RP_INT8, UINT32_MAX, { 1 } },
		{ "shape[0] 0,", RP_INT8, 1, { 0 } },
		{ "shape[1] -3,", RP_INT8, 2, { 2, -3 } },
		{ "shape[4] 0,", RP_INT8, 5, { 1, 1, 1, 1, 0 } },
		{ "shape[1] -9223372036854775808,", RP_INT8, 2, { 2, INT64_MIN } },
		{ "shape[0] 9223372036854775807 ", RP_INT8, 1, { INT64_MAX } },
		{ "shape[1] 1099511627776 ", RP_INT8, 2, { big, big } },
		{ "shape[2] 1099511627776 ", RP_INT8, 3, { 1 << 20, 1 << 20, big } },
		{ "shape[1] 524288 ", RP_INT64, 2, { big, 1 << 19 } },
		{ "shape[0] 3,", RP_FP4E2M1, 1, { 3 } },
		{ "shape[1] 1,", RP_FP4E2M1, 2, { 4, 1 } },
	};
	struct rp_tensor t, before;

	(void)state;
	memset(&t, 0x5a, sizeof(t));
	before = t;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_refused(-EINVAL, cases[i].text,
			       rp_tensor_host(&t, memory, cases[i].dtype, cases[i].rank,
					      cases[i].shape));
		assert_memory_equal(&before, &t, sizeof(t));
	}
	assert_refused(-EINVAL, "out NULL",
		       rp_tensor_host(NULL, memory, RP_INT8, 1, cases[0].shape));
	assert_refused(-EINVAL, "data NULL",
		       rp_tensor_host(&t, NULL, RP_INT8, 1, cases[0].shape));
	assert_refused(-EINVAL, "shape NULL",
		       rp_tensor_host(&t, memory, RP_INT8, 1, NULL));
	assert_refused(-EINVAL, "last address",
		       rp_tensor_host(&t, (void *)(UINTPTR_MAX - 3), RP_INT8, 1,
				      (const int64_t[]){ 4 }));
	assert_memory_equal(&before, &t, sizeof(t));
}

static void a_tensor_filled_by_hand_is_checked(void **state)
{
	const int64_t big = INT64_C(1) << 40;
	const struct {
		const char *text;
		struct rp_tensor t;
	} cases[] = {
		{ "dtype 0", { .data = memory } },
		{ "dtype 4294967295", { .data = memory, .dtype = UINT32_MAX } },
		{ "rank 0", { .data = memory, .dtype = RP_INT8 } },
		{ "rank 6", { .data = memory, .dtype = RP_INT8, .rank = 6 } },
		{ "shape[0] 0,", { memory, 0, RP_INT8, 1, { 0 }, { 1 } } },
		{ "strides[0] 0,", { memory, 0, RP_INT8, 1, { 4 }, { 0 } } },
		{ "strides[1] -1,", { memory, 0, RP_INT8, 2, { 4, 4 }, { 4, -1 } } },
		{ "strides[1] 0,", { memory, 0, RP_INT8, 2, { 4, 1 }, { 4, 0 } } },
		{ "strides[0] 9223372036854775807 ",
		  { memory, 0, RP_INT8, 1, { 2 }, { INT64_MAX } } },
		{ "strides[1] 1099511627776 ",
		  { memory, 0, RP_INT8, 2, { 4, 1 << 30 }, { 1, big } } },
		{ "strides[1] 9223372036854775807 ",
		  { memory, 0, RP_INT64, 2, { 4, 3 }, { 1, INT64_MAX } } },
		{ "data NULL", { NULL, 0, RP_INT8, 1, { 4 }, { 1 } } },
		{ "last address",
		  { (void *)(UINTPTR_MAX - 8), 0, RP_INT8, 1, { 4 }, { 3 } } },
		{ "shape[0] 5,", { memory, 0, RP_FP4E2M1, 1, { 5 }, { 1 } } },
		{ "strides[0] 2,", { memory, 0, RP_FP4E2M1, 1, { 4 }, { 2 } } },
		{ "strides[0] 7,", { memory, 0, RP_FP4E2M1, 2, { 2, 4 }, { 7, 1 } } },
	};
	struct rp_tensor out;
	struct rpi_view view;
	int64_t elements;
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct rp_tensor *t = &cases[i].t;

		assert_refused(-EINVAL, cases[i].text, rp_tensor_index(t, 0, &out));
		assert_refused(-EINVAL, cases[i].text,
			       rp_tensor_slice(t, 0, 0, 1, 1, &out));
		assert_refused(-EINVAL, cases[i].text,
			       rp_tensor_reshape(t, 1, t->shape, &out));
		assert_refused(-EINVAL, cases[i].text, rp_tensor_elements(t, &elements));
		assert_refused(-EINVAL, cases[i].text, rp_tensor_bytes(t, &bytes));
		assert_refused(-EINVAL, cases[i].text,
			       rpi_view_from_tensor("test", t, &view));
		assert_false(rp_tensor_contiguous(t));
	}
}

/* One step further is too far. */
static void the_longest_reach_is_the_bound(void **state)
{
	const int64_t most = RPI_VIEW_BYTES_MAX / 8 * 8;
	struct rp_tensor t = { memory, 0, RP_INT8, 1, { 2 }, { most - 1 } };
	struct rpi_view v;

	(void)state;
	assert_int_equal(0, rpi_view_from_tensor("test", &t, &v));
	assert_int_equal(most, v.span_bytes);
	t.strides[0]++;
	assert_refused(-EINVAL, "strides[0]", rpi_view_from_tensor("test", &t, &v));
	assert_int_equal(0, rp_tensor_host(&t, memory, RP_INT8, 1, &most));
	assert_refused(
		-EINVAL, "shape[0]",
		rp_tensor_host(&t, memory, RP_INT8, 1, (const int64_t[]){ most + 1 }));
}

static void nulls_are_refused(void **state)
{
	struct rp_tensor t = host(RP_INT8, 1, (const int64_t[]){ 4 }), out;
	int64_t elements;
	size_t bytes;

	(void)state;
	assert_refused(-EINVAL, "tensor NULL", rp_tensor_index(NULL, 0, &out));
	assert_refused(-EINVAL, "tensor NULL", rp_tensor_slice(NULL, 0, 0, 1, 1, &out));
	assert_refused(-EINVAL, "tensor NULL", rp_tensor_reshape(NULL, 1, t.shape, &out));
	assert_refused(-EINVAL, "tensor NULL", rp_tensor_elements(NULL, &elements));
	assert_refused(-EINVAL, "tensor NULL", rp_tensor_bytes(NULL, &bytes));
	assert_false(rp_tensor_contiguous(NULL));
	assert_refused(-EINVAL, "out NULL", rp_tensor_index(&t, 0, NULL));
	assert_refused(-EINVAL, "out NULL", rp_tensor_slice(&t, 0, 0, 1, 1, NULL));
	assert_refused(-EINVAL, "out NULL", rp_tensor_reshape(&t, 1, t.shape, NULL));
	assert_refused(-EINVAL, "shape NULL", rp_tensor_reshape(&t, 1, NULL, &out));
	assert_refused(-EINVAL, "elements_out NULL", rp_tensor_elements(&t, NULL));
	assert_refused(-EINVAL, "bytes_out NULL", rp_tensor_bytes(&t, NULL));
}

static void an_index_drops_the_first_dim(void **state)
{
	static const struct {
		int64_t i;
		int want;
		ptrdiff_t offset;
	} cases[] = {
		{ 0, 0, 0 },
		{ 2, 0, 48 },
		{ -1, 0, 48 },
		{ -3, 0, 0 },
		{ 3, -ERANGE, 0 },
		{ -4, -ERANGE, 0 },
		{ INT64_MAX, -ERANGE, 0 },
		{ INT64_MIN, -ERANGE, 0 },
	};
	struct rp_tensor t = host(RP_INT16, 3, (const int64_t[]){ 3, 4, 3 }), part;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(cases[i].want, rp_tensor_index(&t, cases[i].i, &part));
		if (cases[i].want)
			continue;
		assert_ptr_equal(memory + cases[i].offset, part.data);
		assert_int_equal(2, part.rank);
		assert_int_equal(4, part.shape[0]);
		assert_int_equal(3, part.shape[1]);
		assert_int_equal(3, part.strides[0]);
		assert_int_equal(1, part.strides[1]);
	}
}

static void the_last_dim_stays_when_it_is_indexed(void **state)
{
	struct rp_tensor t = host(RP_INT32, 1, (const int64_t[]){ 5 });

	(void)state;
	/* Into itself, as a loop over parts would. */
	assert_int_equal(0, rp_tensor_index(&t, -2, &t));
	assert_ptr_equal(memory + 12, t.data);
	assert_int_equal(1, t.rank);
	assert_int_equal(1, t.shape[0]);
	assert_int_equal(0, rp_tensor_index(&t, 0, &t));
	assert_int_equal(1, t.rank);
	assert_refused(-ERANGE, "i 1, expected -1 to 0", rp_tensor_index(&t, 1, &t));
}

static void a_slice_stays_within_its_dim(void **state)
{
	static const struct {
		uint32_t dim;
		int64_t start, count, step;
		int want;
	} cases[] = {
		{ 0, 0, 4, 1, 0 },
		{ 0, 3, 1, 1, 0 },
		{ 0, 3, 1, INT64_MAX, 0 },
		{ 0, 0, 2, 3, 0 },
		{ 1, 1, 3, 2, 0 },
		{ 0, 4, 1, 1, -ERANGE },
		{ 0, -1, 1, 1, -ERANGE },
		{ 0, INT64_MIN, 1, 1, -ERANGE },
		{ 0, INT64_MAX, INT64_MAX, 1, -ERANGE },
		{ 0, 0, 5, 1, -ERANGE },
		{ 0, 1, 4, 1, -ERANGE },
		{ 0, 0, 3, 2, -ERANGE },
		{ 0, 0, 2, 4, -ERANGE },
		{ 0, 1, 2, INT64_MAX, -ERANGE },
		{ 0, 1, INT64_MAX, INT64_MAX, -ERANGE },
		{ 2, 0, 1, 1, -EINVAL },
		{ UINT32_MAX, 0, 1, 1, -EINVAL },
		{ 0, 0, 0, 1, -EINVAL },
		{ 0, 0, -1, 1, -EINVAL },
		{ 0, 0, 1, 0, -EINVAL },
		{ 0, 3, 1, -1, -EINVAL },
	};
	struct rp_tensor t = host(RP_INT16, 2, (const int64_t[]){ 4, 6 });

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rp_tensor part, before;
		uint32_t dim = cases[i].dim;

		memset(&part, 0x5a, sizeof(part));
		before = part;
		assert_int_equal(cases[i].want,
				 rp_tensor_slice(&t, dim, cases[i].start, cases[i].count,
						 cases[i].step, &part));
		if (cases[i].want) {
			assert_memory_equal(&before, &part, sizeof(part));
			continue;
		}
		assert_ptr_equal(memory + 2 * cases[i].start * t.strides[dim], part.data);
		assert_int_equal(cases[i].count, part.shape[dim]);
		if (cases[i].count > 1)
			assert_int_equal(cases[i].step * t.strides[dim],
					 part.strides[dim]);
		assert_int_equal(t.shape[1 - dim], part.shape[1 - dim]);
		assert_int_equal(t.strides[1 - dim], part.strides[1 - dim]);
		/* What a call has made, every call takes. */
		assert_int_equal(0, rp_tensor_index(&part, 0, &part));
	}
}

static void packed_nibbles_are_cut_at_bytes_only(void **state)
{
	static const struct {
		uint32_t dim;
		int64_t start, count, step;
		int want;
	} cases[] = {
		{ 1, 2, 4, 1, 0 },	 { 0, 1, 2, 2, 0 },	  { 1, 1, 4, 1, -EINVAL },
		{ 1, 2, 3, 1, -EINVAL }, { 1, 0, 4, 2, -EINVAL }, { 1, 0, 1, 1, -EINVAL },
	};
	struct rp_tensor t = host(RP_FP4E2M1, 2, (const int64_t[]){ 4, 8 }), part;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(cases[i].want,
				 rp_tensor_slice(&t, cases[i].dim, cases[i].start,
						 cases[i].count, cases[i].step, &part));
	assert_int_equal(0, rp_tensor_index(&t, 3, &part));
	assert_ptr_equal(memory + 12, part.data);
	assert_refused(-EINVAL, "one element of fp4e2m1",
		       rp_tensor_index(&part, 0, &part));
	assert_int_equal(0, rp_tensor_slice(&t, 1, 2, 6, 1, &part));
	assert_ptr_equal(memory + 1, part.data);
	assert_false(rp_tensor_contiguous(&part));
	assert_int_equal(0, rp_tensor_reshape(&t, 2, (const int64_t[]){ 2, 16 }, &part));
	assert_refused(-EINVAL, "even",
		       rp_tensor_reshape(&t, 2, (const int64_t[]){ 32, 1 }, &part));
}

static void only_a_contiguous_tensor_is_reshaped(void **state)
{
	struct rp_tensor t = host(RP_INT8, 3, (const int64_t[]){ 4, 3, 2 }), part;

	(void)state;
	assert_int_equal(0, rp_tensor_slice(&t, 0, 1, 2, 1, &part));
	assert_int_equal(0,
			 rp_tensor_reshape(&part, 2, (const int64_t[]){ 6, 2 }, &part));
	assert_ptr_equal(memory + 6, part.data);
	assert_int_equal(2, part.rank);
	assert_int_equal(2, part.strides[0]);
	assert_refused(-EINVAL, "13 elements, expected 24",
		       rp_tensor_reshape(&t, 1, (const int64_t[]){ 13 }, &part));
	assert_refused(-EINVAL, "rank 6",
		       rp_tensor_reshape(&t, 6, (const int64_t[]){ 1 }, &part));
	assert_int_equal(0, rp_tensor_slice(&t, 1, 0, 2, 1, &part));
	assert_refused(-EINVAL, "gaps",
		       rp_tensor_reshape(&part, 1, (const int64_t[]){ 16 }, &part));
}

static void strides_of_single_indices_do_not_count(void **state)
{
	struct rp_tensor t = { memory, 0, RP_INT8, 3, { 1, 3, 1 }, { 77, 1, INT64_MAX } };
	struct rpi_view v;

	(void)state;
	assert_true(rp_tensor_contiguous(&t));
	assert_int_equal(0, rpi_view_from_tensor("test", &t, &v));
	assert_int_equal(3, v.span_bytes);
	rpi_view_normalise(&v);
	assert_int_equal(0, v.rank);
	assert_int_equal(3, v.run_bytes);
}

static void a_part_of_resident_memory_moves_its_offset(void **state)
{
	struct rp_tensor t = { NULL, 7, RP_FLOAT32, 2, { 4, 8 }, { 8, 1 } };

	(void)state;
	assert_int_equal(0, rp_tensor_index(&t, 1, &t));
	assert_int_equal(32, (uintptr_t)t.data);
	assert_int_equal(7, t.resident);
	assert_int_equal(0, rp_tensor_slice(&t, 0, 2, 2, 1, &t));
	assert_int_equal(40, (uintptr_t)t.data);
}

static void the_normal_form_has_long_runs_and_few_dims(void **state)
{
	static const struct {
		const char *name;
		struct rp_tensor t;
		int64_t run_bytes;
		uint32_t rank;
		int64_t shape[2], stride_bytes[2];
	} cases[] = {
		{ "contiguous",
		  { memory, 0, RP_INT32, 3, { 2, 3, 4 }, { 12, 4, 1 } },
		  96,
		  0,
		  { 0 },
		  { 0 } },
		{ "left half",
		  { memory, 0, RP_INT32, 2, { 4, 3 }, { 6, 1 } },
		  12,
		  1,
		  { 4 },
		  { 24 } },
		{ "left half of two planes",
		  { memory, 0, RP_INT32, 3, { 2, 4, 3 }, { 24, 6, 1 } },
		  12,
		  1,
		  { 8 },
		  { 24 } },
		{ "tile of two planes",
		  { memory, 0, RP_INT32, 3, { 2, 3, 3 }, { 24, 6, 1 } },
		  12,
		  2,
		  { 2, 3 },
		  { 96, 24 } },
		{ "even columns",
		  { memory, 0, RP_INT16, 2, { 4, 3 }, { 6, 2 } },
		  2,
		  1,
		  { 12 },
		  { 4 } },
		{ "even columns of an odd row",
		  { memory, 0, RP_INT16, 2, { 4, 3 }, { 7, 2 } },
		  2,
		  2,
		  { 4, 3 },
		  { 14, 4 } },
		{ "one column",
		  { memory, 0, RP_INT16, 3, { 2, 4, 1 }, { 24, 6, 1 } },
		  2,
		  1,
		  { 8 },
		  { 12 } },
		{ "transposed, whose order matters",
		  { memory, 0, RP_INT8, 2, { 3, 4 }, { 1, 3 } },
		  1,
		  2,
		  { 3, 4 },
		  { 1, 3 } },
		{ "packed nibbles",
		  { memory, 0, RP_FP4E2M1, 2, { 3, 4 }, { 8, 1 } },
		  2,
		  1,
		  { 3 },
		  { 4 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uintptr_t lowest, past;
		struct rpi_view v;
		int64_t bytes;
		size_t want_bytes;

		assert_int_equal(0, rpi_view_from_tensor("test", &cases[i].t, &v));
		assert_int_equal(0, rp_tensor_bytes(&cases[i].t, &want_bytes));
		bytes = rpi_view_bytes(&v);
		assert_int_equal(want_bytes, bytes);
		rpi_view_normalise(&v);
		assert_int_equal(bytes, rpi_view_bytes(&v));
		if (v.run_bytes != cases[i].run_bytes || v.rank != cases[i].rank)
			fail_msg("%s: run %" PRId64 ", rank %" PRIu32, cases[i].name,
				 v.run_bytes, v.rank);
		for (uint32_t k = 0; k < v.rank; k++)
			if (v.shape[k] != cases[i].shape[k] ||
			    v.stride_bytes[k] != cases[i].stride_bytes[k])
				fail_msg("%s: dim %" PRIu32, cases[i].name, k);
		bytes = v.run_bytes;
		for (uint32_t k = 0; k < v.rank; k++)
			bytes += (v.shape[k] - 1) * v.stride_bytes[k];
		rpi_view_extent(&v, &lowest, &past);
		assert_int_equal((uintptr_t)memory, lowest);
		assert_int_equal(bytes, past - lowest);
	}
}

/* The truth for copies: byte addresses, element by element, in row-major order. */
static int64_t addresses(const struct rp_tensor *t, const char **out)
{
	int64_t at[RP_MAX_DIMS] = { 0 }, bits = rp_dtype_bits(t->dtype), n = 0;
	uint32_t k;

	do {
		int64_t element = 0;

		for (k = 0; k < t->rank; k++)
			element += at[k] * t->strides[k];
		/* Of two nibbles the first names the byte. */
		for (int64_t byte = 0; byte * 8 < bits && element * bits % 8 == 0; byte++)
			out[n++] = (const char *)t->data + element * bits / 8 + byte;
		for (k = t->rank; k-- > 0;) {
			if (++at[k] < t->shape[k])
				break;
			at[k] = 0;
		}
	} while (k < t->rank);
	return n;
}

static void fill(char *bytes, size_t count, uint32_t salt)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (char)((i + salt) * 2654435761u >> 13);
}

static void copies_move_each_element_of_a_view(const struct rp_tensor *t)
{
	static const char *at[sizeof(memory)];
	static char packed[sizeof(memory) + 1], want[sizeof(memory)];
	int64_t n = addresses(t, at);
	struct rpi_view v;

	assert_int_equal(0, rpi_view_from_tensor("test", t, &v));
	assert_int_equal(n, rpi_view_bytes(&v));

	fill(memory, sizeof(memory), 1);
	packed[n] = 0x5a;
	rpi_view_pack(packed, &v);
	for (int64_t i = 0; i < n; i++)
		assert_int_equal(*at[i], packed[i]);
	assert_int_equal(0x5a, packed[n]);

	/* And back, with the bytes around left alone. */
	fill(packed, (size_t)n, 99);
	memcpy(want, memory, sizeof(want));
	for (int64_t i = 0; i < n; i++)
		want[at[i] - memory] = packed[i];
	rpi_view_unpack(&v, packed);
	assert_memory_equal(want, memory, sizeof(want));
}

static void copies_are_right_for_every_dtype_and_rank(void **state)
{
	static const int64_t shape[RP_MAX_DIMS] = { 4, 4, 4, 4, 8 };

	(void)state;
	for (uint32_t dtype = 1; dtype < RP_DTYPE_END; dtype++) {
		for (uint32_t rank = 1; rank <= RP_MAX_DIMS; rank++) {
			struct rp_tensor t = host((enum rp_dtype)dtype, rank,
						  shape + RP_MAX_DIMS - rank);

			copies_move_each_element_of_a_view(&t);
			/* Gaps in one dim after the other, from the inside out. */
			for (uint32_t k = rank; k-- > 0;) {
				bool fp4 = dtype == RP_FP4E2M1 && k == rank - 1;

				assert_int_equal(0, rp_tensor_slice(&t, k, fp4 ? 2 : 1, 2,
								    fp4 ? 1 : k % 2 + 1,
								    &t));
				copies_move_each_element_of_a_view(&t);
			}
		}
	}
}

static void copies_follow_the_order_of_the_dims(void **state)
{
	struct rp_tensor t = { memory, 0, RP_INT16, 3, { 3, 2, 4 }, { 1, 12, 3 } };

	(void)state;
	copies_move_each_element_of_a_view(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_dtype_has_a_name_and_a_size),
		cmocka_unit_test(a_host_tensor_is_row_major),
		cmocka_unit_test(a_bad_host_tensor_is_refused_by_dim_and_value),
		cmocka_unit_test(a_tensor_filled_by_hand_is_checked),
		cmocka_unit_test(the_longest_reach_is_the_bound),
		cmocka_unit_test(nulls_are_refused),
		cmocka_unit_test(an_index_drops_the_first_dim),
		cmocka_unit_test(the_last_dim_stays_when_it_is_indexed),
		cmocka_unit_test(a_slice_stays_within_its_dim),
		cmocka_unit_test(packed_nibbles_are_cut_at_bytes_only),
		cmocka_unit_test(only_a_contiguous_tensor_is_reshaped),
		cmocka_unit_test(strides_of_single_indices_do_not_count),
		cmocka_unit_test(a_part_of_resident_memory_moves_its_offset),
		cmocka_unit_test(the_normal_form_has_long_runs_and_few_dims),
		cmocka_unit_test(copies_are_right_for_every_dtype_and_rank),
		cmocka_unit_test(copies_follow_the_order_of_the_dims),
	};

	return cmocka_run_group_tests_name("test_view", tests, NULL, NULL);
}
