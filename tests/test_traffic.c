/* SPDX-License-Identifier: MIT */
/* What crosses between host and chip, and in which direction: tensors and scalars. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define WORDS 64

static void an_input_is_not_copied_back(void **state)
{
	int64_t *x = bed_shared(WORDS * 8, 0);
	struct rp_worker_stats before, after;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	for (int i = 0; i < WORDS; i++)
		x[i] = i;
	/* ENTRY_FILL_HALF writes whatever it is given. */
	before = bed_stats(&bed);
	assert_ok(RUN_ONE(&bed, ENTRY_FILL_HALF, rp_in(TENSOR(x, RP_INT64, WORDS))));
	after = bed_stats(&bed);
	for (int i = 0; i < WORDS; i++)
		assert_int_equal(x[i], i);
	assert_int_equal(after.bytes_to_device - before.bytes_to_device, WORDS * 8);
	assert_int_equal(after.copies_to_device - before.copies_to_device, 1);
	assert_int_equal(after.bytes_from_device, before.bytes_from_device);
	assert_int_equal(after.bytes_zeroed, before.bytes_zeroed);
	bed_close(&bed);
	rp_shared_free(x);
}

static void an_output_starts_as_zero_and_is_not_uploaded(void **state)
{
	uint8_t *y = bed_shared(WORDS * 8, 0xff);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_stats stats;
		struct bed bed;

		memset(y, 0xff, WORDS * 8);
		bed_open_unified(&bed, 1, unified);
		assert_ok(RUN_ONE(&bed, ENTRY_FILL_HALF,
				  rp_out(TENSOR(y, RP_INT64, WORDS))));
		for (int i = 0; i < WORDS * 8; i++)
			assert_int_equal(y[i], i < WORDS * 4 ? 0x11 : 0);
		stats = bed_stats(&bed);
		assert_int_equal(stats.bytes_to_device, 0);
		assert_int_equal(stats.bytes_zeroed, WORDS * 8);
		assert_int_equal(stats.bytes_from_device, unified ? 0 : WORDS * 8);
		assert_int_equal(stats.copies_from_device, !unified);
		bed_close(&bed);
	}
	rp_shared_free(y);
}

static void an_inout_crosses_both_ways(void **state)
{
	int64_t *z = bed_shared(WORDS * 8, 0);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_stats stats;
		struct bed bed;

		bed_open_unified(&bed, 1, unified);
		for (int i = 0; i < WORDS; i++)
			z[i] = 100 * i;
		for (int round = 0; round < 5; round++)
			assert_ok(RUN_ONE(&bed, ENTRY_ADD,
					  rp_inout(TENSOR(z, RP_INT64, WORDS)),
					  rp_arg_i64(3)));
		for (int i = 0; i < WORDS; i++)
			assert_int_equal(z[i], 100 * i + 15);
		stats = bed_stats(&bed);
		assert_int_equal(stats.bytes_to_device, unified ? 0 : 5 * WORDS * 8);
		assert_int_equal(stats.bytes_from_device, unified ? 0 : 5 * WORDS * 8);
		assert_int_equal(stats.copies_to_device, unified ? 0 : 5);
		assert_int_equal(stats.bytes_zeroed, 0);
		assert_int_equal(stats.tasks, 5);
		bed_close(&bed);
	}
	rp_shared_free(z);
}

static void every_dtype_makes_the_round_trip(void **state)
{
	enum {
		BYTES = 4 * 6 * 8
	};
	uint8_t *x = bed_shared(BYTES, 0);
	uint8_t *y = bed_shared(BYTES, 0);

	(void)state;
	for (int i = 0; i < BYTES; i++)
		x[i] = (uint8_t)(i * 37 + 11);
	for (int unified = 0; unified < 2; unified++) {
		struct bed bed;

		bed_open_unified(&bed, 1, unified);
		for (int dtype = RP_FLOAT32; dtype < RP_DTYPE_END; dtype++) {
			struct rp_tensor from = TENSOR(x, (enum rp_dtype)dtype, 4, 6);
			struct rp_tensor to = TENSOR(y, (enum rp_dtype)dtype, 4, 6);
			size_t bytes;

			memset(y, 0xaa, BYTES);
			assert_ok(rp_tensor_bytes(&from, &bytes));
			assert_ok(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)));
			assert_memory_equal(x, y, bytes);
			for (size_t i = bytes; i < BYTES; i++)
				assert_int_equal(y[i], 0xaa);
			/* And through strides: every other row, some columns. */
			memset(y, 0xaa, BYTES);
			assert_ok(rp_tensor_slice(&from, 0, 1, 2, 2, &from));
			assert_ok(rp_tensor_slice(&to, 0, 0, 2, 3, &to));
			assert_ok(rp_tensor_slice(&from, 1, 0, 4, 1, &from));
			assert_ok(rp_tensor_slice(&to, 1, 2, 4, 1, &to));
			assert_ok(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)));
			for (int64_t i = 0; i < bed_elements(&from); i++)
				assert_memory_equal(bed_at(&to, i), bed_at(&from, i),
						    bed_element_bytes(&from));
		}
		bed_close(&bed);
	}
	rp_shared_free(x);
	rp_shared_free(y);
}

/* Columns of a matrix: gathered, worked on, scattered; their neighbours untouched. */
static void columns_are_gathered_and_scattered(void **state)
{
	enum {
		ROWS = 7,
		COLUMNS = 9
	};
	int64_t *m = bed_shared(ROWS * COLUMNS * 8, 0);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct bed bed;

		bed_open_unified(&bed, 1, unified);
		for (int64_t first = 0; first < COLUMNS; first += 2) {
			int64_t count = 1 + first % 3;
			int64_t step = first < 4 ? 2 : 1;
			struct rp_tensor view = TENSOR(m, RP_INT64, ROWS, COLUMNS);
			struct rp_worker_stats before = bed_stats(&bed);
			struct rp_worker_stats after;

			if (first + (count - 1) * step >= COLUMNS)
				continue;
			assert_ok(rp_tensor_slice(&view, 1, first, count, step, &view));
			for (int i = 0; i < ROWS * COLUMNS; i++)
				m[i] = i;
			assert_ok(RUN_ONE(&bed, ENTRY_ADD, rp_inout(view),
					  rp_arg_i64(1000)));
			for (int i = 0; i < ROWS * COLUMNS; i++) {
				int64_t at = i % COLUMNS - first;
				bool inside = at >= 0 && at % step == 0 &&
					      at / step < count;

				assert_int_equal(m[i], inside ? 1000 + i : i);
			}
			after = bed_stats(&bed);
			assert_int_equal(after.bytes_to_device - before.bytes_to_device,
					 unified ? 0 : ROWS * count * 8);
			/* As an output the rest of the matrix stays as well. */
			assert_ok(RUN_ONE(&bed, ENTRY_ADD, rp_out(view), rp_arg_i64(-5)));
			for (int i = 0; i < ROWS * COLUMNS; i++) {
				int64_t at = i % COLUMNS - first;
				bool inside = at >= 0 && at % step == 0 &&
					      at / step < count;

				assert_int_equal(m[i], inside ? -5 : i);
			}
		}
		bed_close(&bed);
	}
	rp_shared_free(m);
}

static void an_entry_sees_device_memory_or_the_callers_view(void **state)
{
	int64_t *m = bed_shared(8 * 8 * 8, 0);
	struct rp_tensor view = TENSOR(m, RP_INT64, 8, 8);

	(void)state;
	assert_ok(rp_tensor_slice(&view, 1, 3, 2, 1, &view));
	for (int unified = 0; unified < 2; unified++) {
		const struct rp_tensor *seen = &board->seen.args[0].u.tensor;
		struct bed bed;

		bed_open_unified(&bed, 1, unified);
		assert_ok(RUN_ONE(&bed, ENTRY_SEE, rp_inout(view)));
		assert_int_equal(board->seen.args[0].access, RP_INOUT);
		assert_int_equal(seen->rank, 2);
		assert_int_equal(seen->shape[0], 8);
		assert_int_equal(seen->shape[1], 2);
		assert_int_equal(seen->dtype, RP_INT64);
		if (unified) {
			assert_ptr_equal(seen->data, view.data);
			assert_int_equal(seen->strides[0], 8);
		} else {
			assert_ptr_not_equal(seen->data, view.data);
			assert_int_equal(seen->strides[0], 2);
		}
		assert_int_equal(seen->strides[1], 1);
		bed_close(&bed);
	}
	rp_shared_free(m);
}

static void views_of_five_dims_are_accepted(void **state)
{
	int64_t *x = bed_shared(2 * 3 * 2 * 2 * 4 * 8, 0);
	int64_t *y = bed_shared(2 * 3 * 2 * 2 * 2 * 8, 0);
	struct rp_tensor from = TENSOR(x, RP_INT64, 2, 3, 2, 2, 4);
	struct rp_tensor to = TENSOR(y, RP_INT64, 2, 3, 2, 2, 2);
	struct bed bed;

	(void)state;
	for (int i = 0; i < 96; i++)
		x[i] = i;
	bed_open(&bed, 1);
	assert_ok(rp_tensor_slice(&from, 4, 1, 2, 2, &from));
	assert_ok(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)));
	for (int i = 0; i < 48; i++)
		assert_int_equal(y[i], i / 2 * 4 + 1 + i % 2 * 2);
	from.rank = 6;
	assert_int_equal(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)), -EINVAL);
	assert_says("rp_run_task", "rank", "6");
	bed_close(&bed);
	rp_shared_free(x);
	rp_shared_free(y);
}

static const struct rp_param scalar_params[] = {
	{ .name = "f32", .kind = RP_ARG_SCALAR, .dtype = RP_FLOAT32 },
	{ .name = "i8", .kind = RP_ARG_SCALAR, .dtype = RP_INT8 },
	{ .name = "i16", .kind = RP_ARG_SCALAR, .dtype = RP_INT16 },
	{ .name = "i32", .kind = RP_ARG_SCALAR, .dtype = RP_INT32 },
	{ .name = "i64", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
	{ .name = "u8", .kind = RP_ARG_SCALAR, .dtype = RP_UINT8 },
	{ .name = "u16", .kind = RP_ARG_SCALAR, .dtype = RP_UINT16 },
	{ .name = "u32", .kind = RP_ARG_SCALAR, .dtype = RP_UINT32 },
	{ .name = "u64", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	{ .name = "bool", .kind = RP_ARG_SCALAR, .dtype = RP_BOOL },
};

static void scalars_of_every_kind_arrive(void **state)
{
	struct rp_arg args[] = {
		rp_arg_f32(-1.5f),
		rp_arg_bits(RP_INT8, 0x80),
		rp_arg_bits(RP_INT16, 0x8001),
		rp_arg_i32(-7),
		rp_arg_i64(INT64_MIN),
		rp_arg_bits(RP_UINT8, 0xff),
		rp_arg_bits(RP_UINT16, 0xfffe),
		rp_arg_u32(UINT32_MAX),
		rp_arg_u64(UINT64_MAX),
		rp_arg_bits(RP_BOOL, 1),
	};
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	bed_describe(&desc, "scalars", scalar_params, COUNT(scalar_params));
	desc.orchestrate = NULL;
	desc.entries += ENTRY_SEE;
	desc.entry_count = 1;
	bed_prepare(&bed, &desc, &options);
	assert_ok(rp_worker_run(bed.worker, NULL, args, COUNT(args), NULL));
	assert_int_equal(board->seen.nargs, COUNT(args));
	for (size_t i = 0; i < COUNT(args); i++) {
		const struct rp_scalar *seen = &board->seen.args[i].u.scalar;

		assert_int_equal(board->seen.args[i].kind, RP_ARG_SCALAR);
		assert_int_equal(board->seen.args[i].access, 0);
		assert_int_equal(seen->dtype, scalar_params[i].dtype);
		assert_int_equal(seen->value.bits, args[i].u.scalar.value.bits);
	}
	assert_true(board->seen.args[0].u.scalar.value.f32 == -1.5f);
	assert_int_equal(board->seen.args[3].u.scalar.value.i32, -7);
	assert_int_equal(board->seen.args[9].u.scalar.value.boolean, 1);
	/* Each of them, off by one dtype. */
	for (size_t i = 0; i < COUNT(args); i++) {
		struct rp_arg spoilt[COUNT(args)];

		memcpy(spoilt, args, sizeof(args));
		spoilt[i].u.scalar.dtype = args[(i + 1) % COUNT(args)].u.scalar.dtype;
		assert_int_equal(
			rp_worker_run(bed.worker, NULL, spoilt, COUNT(args), NULL),
			-EINVAL);
		assert_says("scalar", scalar_params[i].name, "expected",
			    rp_dtype_name((enum rp_dtype)scalar_params[i].dtype));
	}
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(an_input_is_not_copied_back),
		PROCESS_TEST(an_output_starts_as_zero_and_is_not_uploaded),
		PROCESS_TEST(an_inout_crosses_both_ways),
		PROCESS_TEST(every_dtype_makes_the_round_trip),
		PROCESS_TEST(columns_are_gathered_and_scattered),
		PROCESS_TEST(an_entry_sees_device_memory_or_the_callers_view),
		PROCESS_TEST(views_of_five_dims_are_accepted),
		PROCESS_TEST(scalars_of_every_kind_arrive),
	};

	return cmocka_run_group_tests_name("traffic", tests, NULL, NULL);
}
