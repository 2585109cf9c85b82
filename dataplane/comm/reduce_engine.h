/* SPDX-License-Identifier: MIT */
/*
 * The loops of one engine; included once for each, with
 *
 *	ENGINE   its name, which ends every name in here
 *	TARGET   what the compiler may use
 *	WIDE_F16 1: the processor converts float16, eight at a time
 *
 * Plain loops, which the compiler vectorises: `out` may be `a` or `b` exactly, and each
 * element depends on the same element alone.
 */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define LOCAL(name)  PASTE(name, ENGINE)

#define LOOP(name, type, x)                                                     \
	static TARGET void LOCAL(name)(void *out, const void *a, const void *b, \
				       size_t n)                                \
	{                                                                       \
		const type *p = a, *q = b;                                      \
		__typeof__(type) *o = out;                                      \
		size_t i;                                                       \
                                                                                \
		INDEPENDENT                                                     \
		for (i = 0; i < n; i++) {                                       \
			type v = p[i], w = q[i];                                \
                                                                                \
			o[i] = (type)(x);                                       \
		}                                                               \
	}

/* Sums and products of signed integers are those of unsigned ones: they wrap. */
#define LOOPS(type, utype)                    \
	LOOP(sum_##type, utype, v + w)        \
	LOOP(max_##type, type, v > w ? v : w) \
	LOOP(min_##type, type, v < w ? v : w) \
	LOOP(prod_##type, utype, (v * w))

LOOP(sum_f32, f32, v + w)
/* A NaN in `a` is kept; one in `b` compares false and is taken. */
LOOP(max_f32, f32, ((v > w) | (v != v)) ? v : w)
LOOP(min_f32, f32, ((v < w) | (v != v)) ? v : w)
LOOP(prod_f32, f32, (v * w))
LOOPS(i32, u32)
LOOPS(i64, u64)
LOOPS(i8, u8)
LOOP(max_u8, u8, v > w ? v : w)
LOOP(min_u8, u8, v < w ? v : w)

static TARGET void LOCAL(widen_bf16)(float *out, const void *in, size_t n)
{
	const u16 *p = in;
	size_t i;

	INDEPENDENT
	for (i = 0; i < n; i++)
		out[i] = rpi_bf16_widen(p[i]);
}

static TARGET void LOCAL(narrow_bf16)(void *out, const float *in, size_t n)
{
	u16 *o = out;
	size_t i;

	INDEPENDENT
	for (i = 0; i < n; i++)
		o[i] = rpi_bf16_narrow(in[i]);
}

static TARGET void LOCAL(widen_f16)(float *out, const void *in, size_t n)
{
	const u16 *p = in;
	size_t i = 0;

#if WIDE_F16
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(out + i,
				 _mm256_cvtph_ps(_mm_loadu_si128(
					 (const __m128i *)(const void *)(p + i))));
#endif
	INDEPENDENT
	for (; i < n; i++)
		out[i] = rpi_f16_widen(p[i]);
}

static TARGET void LOCAL(narrow_f16)(void *out, const float *in, size_t n)
{
	u16 *o = out;
	size_t i = 0;

#if WIDE_F16
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128(
			(__m128i *)(void *)(o + i),
			_mm256_cvtps_ph(_mm256_loadu_ps(in + i),
					_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
	INDEPENDENT
	for (; i < n; i++)
		o[i] = rpi_f16_narrow(in[i]);
}

static const struct engine LOCAL(engine) = {
	.f32 = { LOCAL(sum_f32), LOCAL(max_f32), LOCAL(min_f32), LOCAL(prod_f32) },
	.i32 = { LOCAL(sum_i32), LOCAL(max_i32), LOCAL(min_i32), LOCAL(prod_i32) },
	.i64 = { LOCAL(sum_i64), LOCAL(max_i64), LOCAL(min_i64), LOCAL(prod_i64) },
	.i8 = { LOCAL(sum_i8), LOCAL(max_i8), LOCAL(min_i8), LOCAL(prod_i8) },
	.u8 = { LOCAL(sum_i8), LOCAL(max_u8), LOCAL(min_u8), LOCAL(prod_i8) },
	.widen = { LOCAL(widen_f16), LOCAL(widen_bf16) },
	.narrow = { LOCAL(narrow_f16), LOCAL(narrow_bf16) },
};

#undef PASTE_
#undef PASTE
#undef LOCAL
#undef LOOP
#undef LOOPS
#undef ENGINE
#undef TARGET
#undef WIDE_F16
