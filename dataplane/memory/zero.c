/* SPDX-License-Identifier: MIT */
#include "memory/zero.h"

#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

#if defined(__x86_64__)

/* `to` aligned to 64, bytes a multiple of 64. */
static void stream_sse2(uint8_t *to, size_t bytes)
{
	const __m128i zero = _mm_setzero_si128();

	for (; bytes; bytes -= 64, to += 64) {
		_mm_stream_si128((__m128i *)to, zero);
		_mm_stream_si128((__m128i *)(to + 16), zero);
		_mm_stream_si128((__m128i *)(to + 32), zero);
		_mm_stream_si128((__m128i *)(to + 48), zero);
	}
}

__attribute__((target("avx512f"))) static void stream_avx512(uint8_t *to, size_t bytes)
{
	const __m512i zero = _mm512_setzero_si512();

	for (; bytes; bytes -= 64, to += 64)
		_mm512_stream_si512((__m512i *)to, zero);
}

static void stream(uint8_t *to, size_t bytes)
{
	/* The compiler's start-up code has asked the CPU already. */
	if (__builtin_cpu_supports("avx512f"))
		stream_avx512(to, bytes);
	else
		stream_sse2(to, bytes);
	/* Weakly ordered stores lie outside every release. */
	_mm_sfence();
}

#else

static void stream(uint8_t *to, size_t bytes)
{
	memset(to, 0, bytes);
}

#endif

enum rp_reset_engine rpi_zero_engine(size_t bytes)
{
	return bytes < RPI_ZERO_AROUND_BYTES ? RP_RESET_MEMSET : RP_RESET_STREAM;
}

static void zero_around(uint8_t *to, size_t bytes)
{
	size_t head = -(uintptr_t)to & 63;
	size_t body;

	if (head > bytes)
		head = bytes;
	memset(to, 0, head);
	to += head;
	bytes -= head;
	body = bytes & ~(size_t)63;
	stream(to, body);
	memset(to + body, 0, bytes - body);
}

static void zero_from(uint8_t *to, size_t bytes, const void *chunk)
{
	while (bytes) {
		size_t part = bytes < RPI_ZERO_CHUNK_BYTES ? bytes : RPI_ZERO_CHUNK_BYTES;

		memcpy(to, chunk, part);
		to += part;
		bytes -= part;
	}
}

void rpi_zero(void *to, size_t bytes, enum rp_reset_engine engine, const void *chunk)
{
	if (engine == RP_RESET_AUTO)
		engine = rpi_zero_engine(bytes);
	if (engine == RP_RESET_CHUNK && chunk)
		zero_from(to, bytes, chunk);
	else if (engine == RP_RESET_STREAM)
		zero_around(to, bytes);
	else
		memset(to, 0, bytes);
}
