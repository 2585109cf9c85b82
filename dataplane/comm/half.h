/* SPDX-License-Identifier: MIT */
/*
 * The 16-bit floats, one at a time, in arithmetic that vectorises. Narrowing rounds to
 * the nearest, ties to even. A NaN stays one, quiet, with the upper bits of its payload:
 * the same that the processor's own instructions do.
 */
#ifndef RPI_COMM_HALF_H
#define RPI_COMM_HALF_H

#include <stdint.h>

static inline float rpi_float_of(uint32_t bits)
{
	union {
		uint32_t bits;
		float value;
	} both = { .bits = bits };

	return both.value;
}

static inline uint32_t rpi_bits_of(float value)
{
	union {
		float value;
		uint32_t bits;
	} both = { .value = value };

	return both.bits;
}

static inline float rpi_bf16_widen(uint16_t half)
{
	return rpi_float_of((uint32_t)half << 16);
}

static inline uint16_t rpi_bf16_narrow(float value)
{
	uint32_t bits = rpi_bits_of(value);
	uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
	uint32_t quiet = bits | 0x400000;
	uint32_t nan = (bits & 0x7fffffff) > 0x7f800000;

	return (uint16_t)((nan ? quiet : rounded) >> 16);
}

static inline float rpi_f16_widen(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t rest = (uint32_t)(half & 0x7fff);
	/* Exponents as they are, too small by 112; a product puts that right, for
	 * denormals too. */
	uint32_t finite = rpi_bits_of(rpi_float_of(rest << 13) * 0x1p112f);
	uint32_t infinite = rest << 13 | 0x7f800000 | (rest > 0x7c00 ? 0x400000 : 0);

	return rpi_float_of(sign | (rest >= 0x7c00 ? infinite : finite));
}

static inline uint16_t rpi_f16_narrow(float value)
{
	uint32_t bits = rpi_bits_of(value);
	uint32_t sign = bits >> 16 & 0x8000;
	uint32_t rest = bits & 0x7fffffff;
	/* The exponent moves down by 112; rounding may carry into it, up to infinity. */
	uint32_t normal = (rest + (UINT32_C(0xc8000000) + 0xfff) + (rest >> 13 & 1)) >>
			  13;
	/* Below 2^-14: the sum with 0.5 has its last bit where the half's is. */
	uint32_t small = rpi_bits_of(rpi_float_of(rest) + 0.5f) - 0x3f000000;
	uint32_t large = rest > 0x7f800000 ? 0x7e00 | (rest >> 13 & 0x3ff) : 0x7c00;
	uint32_t out = rest < 0x38800000 ? small : normal;

	return (uint16_t)(sign | (rest >= 0x47800000 ? large : out));
}

#endif
