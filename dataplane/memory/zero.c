/* SPDX-License-Identifier: MIT */
/* Loops that zero. Never: a system call, an allocation, a lock, a log. */
#include "memory/zero.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

#define LINE_BYTES ((size_t)RPI_CACHE_LINE)

#if defined(__x86_64__)

/* Lines are asked for so far ahead of the store. */
#define AHEAD_BYTES ((size_t)2048)

/* `to` aligned to a line, bytes a multiple of one; so for all loops here. */
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

/*
 * Stores alone wait for their lines a few at a time when another core has them. A read
 * ahead of each brings in more at once: up to twice as fast then, and no slower where
 * this core has written the lines itself. Asking for them as if to write is slower.
 */
static void store_sse2(uint8_t *to, size_t bytes)
{
	const __m128i zero = _mm_setzero_si128();

	for (; bytes; bytes -= 64, to += 64) {
		__builtin_prefetch(to + AHEAD_BYTES);
		_mm_store_si128((__m128i *)to, zero);
		_mm_store_si128((__m128i *)(to + 16), zero);
		_mm_store_si128((__m128i *)(to + 32), zero);
		_mm_store_si128((__m128i *)(to + 48), zero);
	}
}

__attribute__((target("avx512f"))) static void store_avx512(uint8_t *to, size_t bytes)
{
	const __m512i zero = _mm512_setzero_si512();

	for (; bytes; bytes -= 64, to += 64) {
		__builtin_prefetch(to + AHEAD_BYTES);
		_mm512_store_si512((__m512i *)to, zero);
	}
}

/* The compiler's start-up code has asked the CPU already. */
static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f");
}

static void stream(uint8_t *to, size_t bytes)
{
	if (has_avx512())
		stream_avx512(to, bytes);
	else
		stream_sse2(to, bytes);
	/* Weakly ordered stores lie outside every release. */
	_mm_sfence();
}

/* What follows the range may be a peer's: nothing of it is asked for. */
static void store_ahead(uint8_t *to, size_t bytes)
{
	size_t last = bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES;
	size_t at;

	for (at = 0; at < last; at += LINE_BYTES)
		__builtin_prefetch(to + at);
	if (has_avx512())
		store_avx512(to, bytes - last);
	else
		store_sse2(to, bytes - last);
	memset(to + bytes - last, 0, last);
}

/* Measured on Intel's, where a read ahead does not cost the write another trip. */
static bool ahead_pays(void)
{
	return has_avx512() && __builtin_cpu_is("intel");
}

#else

static void stream(uint8_t *to, size_t bytes)
{
	memset(to, 0, bytes);
}

static void store_ahead(uint8_t *to, size_t bytes)
{
	memset(to, 0, bytes);
}

static bool ahead_pays(void)
{
	return false;
}

#endif

enum rp_reset_engine rpi_zero_engine(size_t bytes)
{
	if (bytes >= RPI_ZERO_AROUND_BYTES)
		return RP_RESET_STREAM;
	return bytes >= RPI_ZERO_AHEAD_BYTES && ahead_pays() ? RP_RESET_AHEAD
							     : RP_RESET_MEMSET;
}

/* Whole lines by `loop`, what lies before and after them by memset(). */
static void zero_lines(uint8_t *to, size_t bytes, void (*loop)(uint8_t *, size_t))
{
	size_t head = -(uintptr_t)to & (LINE_BYTES - 1);
	size_t body;

	if (head > bytes)
		head = bytes;
	memset(to, 0, head);
	to += head;
	bytes -= head;
	body = bytes & ~(LINE_BYTES - 1);
	loop(to, body);
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
		zero_lines(to, bytes, stream);
	else if (engine == RP_RESET_AHEAD)
		zero_lines(to, bytes, store_ahead);
	else
		memset(to, 0, bytes);
}
