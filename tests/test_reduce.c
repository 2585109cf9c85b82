/* SPDX-License-Identifier: MIT */
/* Reductions against one element at a time, written apart from the library. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ringplane/comm.h>

#include "comm/half.h"
#include "comm/reduce.h"

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

#define ROWS_MAX   5
#define COUNT_MAX  5000
#define ROW_BYTES  (COUNT_MAX * 8 + 128)
#define GUARD_BYTE 0xc3

static const char *const engines[] = { "avx512", "avx2", "plain" };

static const enum rp_dtype dtypes[] = { RP_FLOAT32, RP_FLOAT16, RP_BFLOAT16, RP_INT32,
					RP_INT64,   RP_INT8,	RP_UINT8 };

static uint64_t random_word(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* --- 16-bit floats, by the book ---------------------------------------------------- */

/* exponent bits e, mantissa bits m: the value of a half. */
static double half_value(uint16_t half, int e, int m)
{
	int exponent = half >> m & ((1 << e) - 1);
	int mantissa = half & ((1 << m) - 1);
	int bias = (1 << (e - 1)) - 1;
	double value;

	if (exponent == (1 << e) - 1)
		value = mantissa ? (double)NAN : (double)INFINITY;
	else if (!exponent)
		value = ldexp(mantissa, 1 - bias - m);
	else
		value = ldexp(mantissa + (1 << m), exponent - bias - m);
	return half >> 15 ? -value : value;
}

/* The nearest half, ties to even, of a number that is no NaN. */
static uint16_t half_nearest(double value, int e, int m)
{
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	int bias = (1 << (e - 1)) - 1;
	uint16_t largest = (uint16_t)(((1 << e) - 1) << m);
	int exponent;
	double scaled;

	value = fabs(value);
	if (isinf(value))
		return sign | largest;
	frexp(value, &exponent);
	exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
	scaled = nearbyint(ldexp(value, m - exponent));
	value = ldexp(scaled, exponent - m);
	if (value >= ldexp(1, bias + 1))
		return sign | largest;
	frexp(value, &exponent);
	if (value == 0 || exponent - 1 < 1 - bias)
		return sign | (uint16_t)ldexp(value, m - (1 - bias));
	return sign | (uint16_t)((exponent - 1 + bias) << m) |
	       (uint16_t)(ldexp(value, m - (exponent - 1)) - (1 << m));
}

static uint16_t half_of(float value, bool brain)
{
	uint32_t bits = rpi_bits_of(value);

	if (!isnan(value))
		return half_nearest((double)value, brain ? 8 : 5, brain ? 7 : 10);
	if (brain)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits >> 16 & 0x8000) | 0x7e00 | (bits >> 13 & 0x3ff));
}

static void every_half_widens_to_its_value(void **state)
{
	(void)state;
	for (uint32_t half = 0; half <= UINT16_MAX; half++) {
		float f16 = rpi_f16_widen((uint16_t)half);
		float bf16 = rpi_bf16_widen((uint16_t)half);
		double want = half_value((uint16_t)half, 5, 10);
		double brain = half_value((uint16_t)half, 8, 7);

		if (isnan(want))
			assert_true(isnan(f16));
		else if (rpi_bits_of((float)want) != rpi_bits_of(f16))
			fail_msg("float16 %04x is %a, expected %a", half, (double)f16,
				 want);
		if (isnan(brain))
			assert_true(isnan(bf16));
		else
			assert_int_equal(rpi_bits_of((float)brain), rpi_bits_of(bf16));
	}
}

static void check_narrow(float value)
{
	uint16_t f16 = rpi_f16_narrow(value), bf16 = rpi_bf16_narrow(value);

	if (f16 != half_of(value, false))
		fail_msg("float16 of %a (%08x) is %04x, expected %04x", (double)value,
			 rpi_bits_of(value), f16, half_of(value, false));
	if (bf16 != half_of(value, true))
		fail_msg("bfloat16 of %a (%08x) is %04x, expected %04x", (double)value,
			 rpi_bits_of(value), bf16, half_of(value, true));
}

static void a_float_narrows_to_the_nearest_half(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (uint32_t half = 0; half <= UINT16_MAX; half++) {
		/* Around each half and around the middle between two. */
		uint32_t f16 = rpi_bits_of(rpi_f16_widen((uint16_t)half));
		uint32_t centres[] = { f16, f16 + 0x1000, half << 16,
				       (half << 16) + 0x8000 };

		for (size_t k = 0; k < COUNT(centres); k++)
			for (int off = -2; off <= 2; off++)
				check_narrow(rpi_float_of(centres[k] + (uint32_t)off));
	}
	for (int i = 0; i < 200000; i++)
		check_narrow(rpi_float_of((uint32_t)random_word(&seed)));
	check_narrow(65519.996f);
	check_narrow(65520.0f);
	check_narrow(0x1p-25f);
	check_narrow(0x1.000002p-25f);
	check_narrow(0x1p-24f);
	check_narrow(0x1p-149f);
}

/* --- Rows ------------------------------------------------------------------------- */

static size_t size_of(enum rp_dtype dtype)
{
	return rp_dtype_bits(dtype) / 8;
}

static float combine_float(float v, float w, enum rp_reduce_op op)
{
	switch (op) {
	case RP_SUM:
		return v + w;
	case RP_PROD:
		return v * w;
	case RP_MAX:
		return isnan(v) ? v : isnan(w) ? w : v > w ? v : w;
	default:
		return isnan(v) ? v : isnan(w) ? w : v < w ? v : w;
	}
}

/* Unsigned arithmetic of 64 bits is right in the low ones for every integer. */
static uint64_t combine_word(uint64_t v, uint64_t w, enum rp_reduce_op op, bool is_signed)
{
	bool less = is_signed ? (int64_t)v < (int64_t)w : v < w;

	switch (op) {
	case RP_SUM:
		return v + w;
	case RP_PROD:
		return v * w;
	case RP_MAX:
		return less ? w : v;
	default:
		return less ? v : w;
	}
}

static uint64_t load_word(const uint8_t *at, enum rp_dtype dtype)
{
	uint64_t word = 0;

	memcpy(&word, at, size_of(dtype));
	if (dtype == RP_INT8)
		return (uint64_t)(int64_t)(int8_t)word;
	if (dtype == RP_INT32)
		return (uint64_t)(int64_t)(int32_t)word;
	return word;
}

static float load_float(const uint8_t *at, enum rp_dtype dtype)
{
	uint16_t half;
	float value;

	if (dtype == RP_FLOAT32) {
		memcpy(&value, at, sizeof(value));
		return value;
	}
	memcpy(&half, at, sizeof(half));
	/* A product of a zero and an infinity is the only NaN that has no operand. */
	return dtype == RP_FLOAT16 ? rpi_f16_widen(half) : rpi_bf16_widen(half);
}

static bool is_float(enum rp_dtype dtype)
{
	return dtype == RP_FLOAT32 || dtype == RP_FLOAT16 || dtype == RP_BFLOAT16;
}

/* One element of the result. */
static void expect(uint8_t *out, uint8_t *const *rows, uint32_t row_count, size_t i,
		   enum rp_dtype dtype, enum rp_reduce_op op)
{
	size_t at = i * size_of(dtype);

	if (row_count == 1) {
		memcpy(out, rows[0] + at, size_of(dtype));
	} else if (is_float(dtype)) {
		float value = load_float(rows[0] + at, dtype);
		uint16_t half;

		for (uint32_t r = 1; r < row_count; r++)
			value = combine_float(value, load_float(rows[r] + at, dtype), op);
		half = half_of(value, dtype == RP_BFLOAT16);
		if (dtype == RP_FLOAT32)
			memcpy(out, &value, sizeof(value));
		else
			memcpy(out, &half, sizeof(half));
	} else {
		uint64_t word = load_word(rows[0] + at, dtype);

		for (uint32_t r = 1; r < row_count; r++) {
			word = combine_word(word, load_word(rows[r] + at, dtype), op,
					    dtype != RP_UINT8);
			/* As it would be read back. */
			memcpy(out, &word, size_of(dtype));
			word = load_word(out, dtype);
		}
	}
}

/* A NaN's payload is the processor's affair. */
static bool same(const uint8_t *got, const uint8_t *want, enum rp_dtype dtype)
{
	if (!memcmp(got, want, size_of(dtype)))
		return true;
	return is_float(dtype) && isnan(load_float(got, dtype)) &&
	       isnan(load_float(want, dtype));
}

struct arena {
	uint8_t bytes[ROWS_MAX + 1][ROW_BYTES];
	uint8_t *rows[ROWS_MAX];
	uint8_t *out;
};

/* Numbers that meet each other: small ones, and now and then anything. */
static void fill(struct arena *arena, enum rp_dtype dtype, size_t count, uint64_t *seed)
{
	for (int r = 0; r < ROWS_MAX; r++)
		for (size_t i = 0; i < count; i++) {
			uint8_t *at = arena->rows[r] + i * size_of(dtype);
			uint64_t word = random_word(seed);
			float value = (float)((int)(word % 2001) - 1000) / 8;

			if (word >> 60 == 0)
				memcpy(at, &word, size_of(dtype));
			else if (dtype == RP_FLOAT32)
				memcpy(at, &value, sizeof(value));
			else if (is_float(dtype))
				memcpy(at,
				       &(uint16_t){
					       half_of(value, dtype == RP_BFLOAT16) },
				       2);
			else
				memcpy(at, &word, size_of(dtype));
		}
}

struct shape {
	uint32_t rows;
	size_t count;
	size_t shift; /* of each row against its line, in elements */
	int alias;    /* the row that the result replaces; -1 none */
	bool around;
};

static void check(const char *engine, enum rp_dtype dtype, enum rp_reduce_op op,
		  const struct shape *shape, uint64_t *seed)
{
	static struct arena arena;
	static uint8_t want[ROW_BYTES];
	size_t size = size_of(dtype);

	memset(&arena, GUARD_BYTE, sizeof(arena));
	for (int r = 0; r < ROWS_MAX; r++)
		arena.rows[r] =
			arena.bytes[r] + 64 + (shape->shift + (size_t)r) % 7 * size;
	arena.out = arena.bytes[ROWS_MAX] + 64 + shape->shift * size;
	if (shape->alias >= 0)
		arena.out = arena.rows[shape->alias];
	fill(&arena, dtype, shape->count, seed);
	for (size_t i = 0; i < shape->count; i++)
		expect(want + i * size, arena.rows, shape->rows, i, dtype, op);

	rpi_reduce(arena.out, (const void *const *)arena.rows, shape->rows, shape->count,
		   dtype, op, shape->around);
	for (size_t i = 0; i < shape->count; i++)
		if (!same(arena.out + i * size, want + i * size, dtype))
			fail_msg("%s, %s, op %d, %u rows of %zu, shift %zu, alias %d, "
				 "around %d: element %zu is wrong",
				 engine, rp_dtype_name(dtype), op, shape->rows,
				 shape->count, shape->shift, shape->alias, shape->around,
				 i);
	assert_int_equal(arena.out[-1], GUARD_BYTE);
	assert_int_equal(arena.out[shape->count * size], GUARD_BYTE);
}

static void every_reduction_agrees_with_one_element_at_a_time(void **state)
{
	static const size_t counts[] = { 1,   2,   3,	5,   7,	   8,	 9,    15,
					 16,  17,  31,	63,  64,   65,	 127,  128,
					 129, 255, 511, 513, 1023, 1025, 2049, 4097 };
	uint64_t seed = 3;
	int tried = 0;

	(void)state;
	for (size_t e = 0; e < COUNT(engines); e++) {
		if (!rpi_reduce_choose(engines[e]))
			continue;
		tried++;
		assert_string_equal(rpi_reduce_engine(), engines[e]);
		for (size_t d = 0; d < COUNT(dtypes); d++)
			for (int op = RP_SUM; op <= RP_PROD; op++)
				for (size_t c = 0; c < COUNT(counts); c++) {
					uint64_t dice = random_word(&seed);
					struct shape shape = {
						.rows = 1 + (uint32_t)(dice % ROWS_MAX),
						.count = counts[c],
						.shift = dice >> 8 & 7,
						.alias = -1,
						.around = dice >> 16 & 1,
					};

					check(engines[e], dtypes[d], op, &shape, &seed);
					shape.rows = 2;
					shape.around = false;
					check(engines[e], dtypes[d], op, &shape, &seed);
				}
	}
	assert_true(tried);
	rpi_reduce_choose(NULL);
}

static void the_result_may_replace_any_row(void **state)
{
	uint64_t seed = 4;

	(void)state;
	for (size_t e = 0; e < COUNT(engines); e++) {
		if (!rpi_reduce_choose(engines[e]))
			continue;
		for (size_t d = 0; d < COUNT(dtypes); d++)
			for (uint32_t rows = 1; rows <= ROWS_MAX; rows++)
				for (uint32_t alias = 0; alias < rows; alias++) {
					struct shape shape = {
						.rows = rows,
						.count = 1000 + rows * 37 + alias,
						.shift = alias,
						.alias = (int)alias,
						.around = rows & 1,
					};

					check(engines[e], dtypes[d], RP_SUM, &shape,
					      &seed);
					check(engines[e], dtypes[d], RP_MAX, &shape,
					      &seed);
				}
	}
	rpi_reduce_choose(NULL);
}

static void a_nan_of_any_row_comes_through(void **state)
{
	(void)state;
	for (size_t e = 0; e < COUNT(engines); e++) {
		if (!rpi_reduce_choose(engines[e]))
			continue;
		for (int op = RP_SUM; op <= RP_PROD; op++)
			for (int bad = 0; bad < 3; bad++) {
				float rows[3][33], out[33];
				const void *at[3] = { rows[0], rows[1], rows[2] };

				for (int r = 0; r < 3; r++)
					for (int i = 0; i < 33; i++)
						rows[r][i] = r == bad && i % 4 == 0
								     ? NAN
								     : (float)(r + i);
				rpi_reduce(out, at, 3, 33, RP_FLOAT32, (uint32_t)op,
					   false);
				for (int i = 0; i < 33; i++)
					assert_int_equal(isnan(out[i]) != 0, i % 4 == 0);
			}
	}
	rpi_reduce_choose(NULL);
}

static void what_cannot_be_reduced_is_known(void **state)
{
	(void)state;
	for (uint32_t dtype = 0; dtype <= RP_DTYPE_END; dtype++) {
		bool can = false;

		for (size_t d = 0; d < COUNT(dtypes); d++)
			can |= dtypes[d] == (enum rp_dtype)dtype;
		for (uint32_t op = RP_SUM; op <= RP_PROD; op++)
			assert_int_equal(rpi_reduce_can(dtype, op), can);
		assert_false(rpi_reduce_can(dtype, RP_PROD + 1));
	}
	assert_false(rpi_reduce_choose("none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_half_widens_to_its_value),
		cmocka_unit_test(a_float_narrows_to_the_nearest_half),
		cmocka_unit_test(every_reduction_agrees_with_one_element_at_a_time),
		cmocka_unit_test(the_result_may_replace_any_row),
		cmocka_unit_test(a_nan_of_any_row_comes_through),
		cmocka_unit_test(what_cannot_be_reduced_is_known),
	};

	return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
