/* SPDX-License-Identifier: MIT */
#include "memory/copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

typedef void (*copy_fn)(uint8_t *to, const uint8_t *from, size_t bytes);

struct engine {
	const char *name;
	copy_fn copy; /* `to` aligned to 64, bytes a multiple of 256 */
};

#if defined(__x86_64__)

static void copy_sse2(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t i;

	for (; bytes; bytes -= 64, to += 64, from += 64)
		for (i = 0; i < 64; i += 16)
			_mm_stream_si128((__m128i *)(to + i),
					 _mm_loadu_si128((const __m128i *)(from + i)));
}

__attribute__((target("avx2"))) static void copy_avx2(uint8_t *to, const uint8_t *from,
						      size_t bytes)
{
	for (; bytes; bytes -= 128, to += 128, from += 128) {
		__m256i a = _mm256_loadu_si256((const __m256i *)from);
		__m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));
		__m256i c = _mm256_loadu_si256((const __m256i *)(from + 64));
		__m256i d = _mm256_loadu_si256((const __m256i *)(from + 96));

		_mm256_stream_si256((__m256i *)to, a);
		_mm256_stream_si256((__m256i *)(to + 32), b);
		_mm256_stream_si256((__m256i *)(to + 64), c);
		_mm256_stream_si256((__m256i *)(to + 96), d);
	}
}

__attribute__((target("avx512f"))) static void copy_avx512(uint8_t *to,
							   const uint8_t *from,
							   size_t bytes)
{
	for (; bytes; bytes -= 256, to += 256, from += 256) {
		__m512i a = _mm512_loadu_si512(from);
		__m512i b = _mm512_loadu_si512(from + 64);
		__m512i c = _mm512_loadu_si512(from + 128);
		__m512i d = _mm512_loadu_si512(from + 192);

		_mm512_stream_si512((__m512i *)to, a);
		_mm512_stream_si512((__m512i *)(to + 64), b);
		_mm512_stream_si512((__m512i *)(to + 128), c);
		_mm512_stream_si512((__m512i *)(to + 192), d);
	}
}

static const struct engine engines[] = {
	{ "avx512", copy_avx512 },
	{ "avx2", copy_avx2 },
	{ "sse2", copy_sse2 },
};

static int has(const struct engine *engine)
{
	__builtin_cpu_init();
	if (engine->copy == copy_avx512)
		return __builtin_cpu_supports("avx512f");
	if (engine->copy == copy_avx2)
		return __builtin_cpu_supports("avx2");
	return 1;
}

/* Weakly ordered stores lie outside every release: fence them for whoever publishes
 * the bytes next. */
void rpi_copy_stream_end(void)
{
	_mm_sfence();
}

#else

static void copy_plain(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static const struct engine engines[] = { { "memcpy", copy_plain } };

static int has(const struct engine *engine)
{
	(void)engine;
	return 1;
}

void rpi_copy_stream_end(void)
{
}

#endif

#define ENGINE_COUNT (sizeof(engines) / sizeof(engines[0]))

/* Index + 1 of the engine in use; 0: not chosen yet. Every thread would choose the same
 * one. */
static _Atomic unsigned chosen;

static const struct engine *engine_in_use(void)
{
	unsigned idx = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (rpi_unlikely(!idx)) {
		rpi_copy_choose(NULL);
		idx = atomic_load_explicit(&chosen, memory_order_relaxed);
	}
	return &engines[idx - 1];
}

int rpi_copy_choose(const char *name)
{
	unsigned i;

	for (i = 0; i < ENGINE_COUNT; i++) {
		if ((name && strcmp(name, engines[i].name)) || !has(&engines[i]))
			continue;
		atomic_store_explicit(&chosen, i + 1, memory_order_relaxed);
		return 1;
	}
	return 0;
}

const char *rpi_copy_engine(void)
{
	return engine_in_use()->name;
}

void rpi_copy_stream(void *to, const void *from, size_t bytes)
{
	size_t head = -(uintptr_t)to & 63;
	uint8_t *at = to;
	const uint8_t *source = from;
	size_t body;

	if (bytes < 1024) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(at, source, head);
	at += head;
	source += head;
	bytes -= head;
	body = bytes & ~(size_t)255;
	engine_in_use()->copy(at, source, body);
	memcpy(at + body, source + body, bytes - body);
}

void rpi_copy_around(void *to, const void *from, size_t bytes)
{
	rpi_copy_stream(to, from, bytes);
	rpi_copy_stream_end();
}

void rpi_copy_stage(void *to, const void *from, size_t bytes, size_t whole)
{
	if (whole >= RPI_COPY_AROUND_BYTES)
		rpi_copy_around(to, from, bytes);
	else
		memcpy(to, from, bytes);
}
