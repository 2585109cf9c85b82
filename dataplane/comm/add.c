/* SPDX-License-Identifier: MIT */
#include "comm/add.h"

#include <stdatomic.h>
#include <string.h>

#include <ringplane/tensor.h>

#include "comm/half.h"

#define INTEGER_ADD(name, type)                                                   \
	static void name(void *to, const void *from, size_t count)                \
	{                                                                         \
		_Atomic __typeof__(type) *cells = to;                             \
		size_t i;                                                         \
                                                                                  \
		for (i = 0; i < count; i++) {                                     \
			type value;                                               \
                                                                                  \
			memcpy(&value, (const uint8_t *)from + i * sizeof(value), \
			       sizeof(value));                                    \
			atomic_fetch_add_explicit(&cells[i], value,               \
						  memory_order_relaxed);          \
		}                                                                 \
	}

/* bits: what is exchanged; widen and narrow: to float and back. */
#define FLOAT_ADD(name, bits, widen, narrow)                                           \
	static void name(void *to, const void *from, size_t count)                     \
	{                                                                              \
		_Atomic __typeof__(bits) *cells = to;                                  \
		size_t i;                                                              \
                                                                                       \
		for (i = 0; i < count; i++) {                                          \
			bits old =                                                     \
				atomic_load_explicit(&cells[i], memory_order_relaxed); \
			bits value, sum;                                               \
                                                                                       \
			memcpy(&value, (const uint8_t *)from + i * sizeof(value),      \
			       sizeof(value));                                         \
			do                                                             \
				sum = narrow(widen(old) + widen(value));               \
			while (!atomic_compare_exchange_weak_explicit(                 \
				&cells[i], &old, sum, memory_order_relaxed,            \
				memory_order_relaxed));                                \
		}                                                                      \
	}

INTEGER_ADD(add_i32, int32_t)
INTEGER_ADD(add_i16, int16_t)
INTEGER_ADD(add_i8, int8_t)
FLOAT_ADD(add_f32, uint32_t, rpi_float_of, rpi_bits_of)
FLOAT_ADD(add_f16, uint16_t, rpi_f16_widen, rpi_f16_narrow)
FLOAT_ADD(add_bf16, uint16_t, rpi_bf16_widen, rpi_bf16_narrow)

rpi_add_fn rpi_add_find(uint32_t dtype)
{
	switch (dtype) {
	case RP_FLOAT32:
		return add_f32;
	case RP_FLOAT16:
		return add_f16;
	case RP_BFLOAT16:
		return add_bf16;
	case RP_INT32:
		return add_i32;
	case RP_INT16:
		return add_i16;
	case RP_INT8:
		return add_i8;
	default:
		return NULL;
	}
}
