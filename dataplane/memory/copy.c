/* SPDX-License-Identifier: MIT */
#include "memory/copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"

/*
 * Memory is further away than one stream of loads can ask for ahead: prefetchers stop at
 * the end of a 4 KiB page and begin anew in the next. So four pages are copied side by
 * side, and each has its own stream, with the same lines of the next four asked for into
 * the second cache. Within a page whole lines are written one after the other, so that
 * each leaves its write-combining buffer full. A line asked for past the end of the
 * source costs nothing but the asking: it never faults.
 */
#define PAGE_BYTES  4096
#define PAGE_COUNT  4
#define BLOCK_BYTES ((size_t)PAGE_COUNT * PAGE_BYTES)

/* What the engines copy one after the other of what is less than a block. */
#define STEP_BYTES 128

/* Not worth the fence. */
#define SMALL_BYTES 1024

typedef void (*copy_fn)(uint8_t *to, const uint8_t *from, size_t bytes);

struct engine {
	const char *name;
	/* `to` aligned to 64; bytes a multiple of BLOCK_BYTES, and of STEP_BYTES */
	copy_fn blocks, steps;
};

/* Where there is nothing better. */
static void copy_plain(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

#if defined(__x86_64__)

static inline void ask_ahead(const uint8_t *line)
{
	_mm_prefetch((const char *)line + BLOCK_BYTES, _MM_HINT_T1);
}

/* Lines that an engine copies of a page before it goes on to the next one were tried:
 * two are best with 64-byte registers, one with smaller ones. */
static inline void line_sse2(uint8_t *to, const uint8_t *from)
{
	__m128i a = _mm_loadu_si128((const __m128i *)from);
	__m128i b = _mm_loadu_si128((const __m128i *)(from + 16));
	__m128i c = _mm_loadu_si128((const __m128i *)(from + 32));
	__m128i d = _mm_loadu_si128((const __m128i *)(from + 48));

	_mm_stream_si128((__m128i *)to, a);
	_mm_stream_si128((__m128i *)(to + 16), b);
	_mm_stream_si128((__m128i *)(to + 32), c);
	_mm_stream_si128((__m128i *)(to + 48), d);
}

static void blocks_sse2(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t at, page;

	for (; bytes; bytes -= BLOCK_BYTES, to += BLOCK_BYTES, from += BLOCK_BYTES)
		for (at = 0; at < PAGE_BYTES; at += 64)
			for (page = at; page < BLOCK_BYTES; page += PAGE_BYTES) {
				ask_ahead(from + page);
				line_sse2(to + page, from + page);
			}
}

static void steps_sse2(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (; bytes; bytes -= 64, to += 64, from += 64)
		line_sse2(to, from);
}

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline void line_avx2(uint8_t *to, const uint8_t *from)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)from);
	__m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));

	_mm256_stream_si256((__m256i *)to, a);
	_mm256_stream_si256((__m256i *)(to + 32), b);
}

AVX2 static void blocks_avx2(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t at, page;

	for (; bytes; bytes -= BLOCK_BYTES, to += BLOCK_BYTES, from += BLOCK_BYTES)
		for (at = 0; at < PAGE_BYTES; at += 64)
			for (page = at; page < BLOCK_BYTES; page += PAGE_BYTES) {
				ask_ahead(from + page);
				line_avx2(to + page, from + page);
			}
}

AVX2 static void steps_avx2(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (; bytes; bytes -= 64, to += 64, from += 64)
		line_avx2(to, from);
}

#define AVX512 __attribute__((target("avx512f")))

AVX512 static inline void pair_avx512(uint8_t *to, const uint8_t *from)
{
	__m512i a = _mm512_loadu_si512(from);
	__m512i b = _mm512_loadu_si512(from + 64);

	_mm512_stream_si512((void *)to, a);
	_mm512_stream_si512((void *)(to + 64), b);
}

AVX512 static void blocks_avx512(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t at, page;

	for (; bytes; bytes -= BLOCK_BYTES, to += BLOCK_BYTES, from += BLOCK_BYTES)
		for (at = 0; at < PAGE_BYTES; at += 128)
			for (page = at; page < BLOCK_BYTES; page += PAGE_BYTES) {
				ask_ahead(from + page);
				ask_ahead(from + page + 64);
				pair_avx512(to + page, from + page);
			}
}

AVX512 static void steps_avx512(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (; bytes; bytes -= 128, to += 128, from += 128)
		pair_avx512(to, from);
}

static const struct engine engines[] = {
	{ "avx512", blocks_avx512, steps_avx512 },
	{ "avx2", blocks_avx2, steps_avx2 },
	{ "sse2", blocks_sse2, steps_sse2 },
	{ "memcpy", copy_plain, copy_plain },
};

static int has(const struct engine *engine)
{
	__builtin_cpu_init();
	if (engine->blocks == blocks_avx512)
		return __builtin_cpu_supports("avx512f");
	if (engine->blocks == blocks_avx2)
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

static const struct engine engines[] = { { "memcpy", copy_plain, copy_plain } };

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
	const struct engine *engine = engine_in_use();
	size_t head = -(uintptr_t)to & 63;
	uint8_t *at = to;
	const uint8_t *source = from;
	size_t part;

	if (bytes < SMALL_BYTES) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(at, source, head);
	at += head;
	source += head;
	bytes -= head;
	part = bytes & ~(BLOCK_BYTES - 1);
	engine->blocks(at, source, part);
	at += part;
	source += part;
	bytes -= part;
	part = bytes & ~(size_t)(STEP_BYTES - 1);
	engine->steps(at, source, part);
	memcpy(at + part, source + part, bytes - part);
}

void rpi_copy_around(void *to, const void *from, size_t bytes)
{
	rpi_copy_stream(to, from, bytes);
	rpi_copy_stream_end();
}

/* What passes through the caches of two cores on its way: the source, the pieces in
 * flight, the target. At four times what one core's own holds, nothing of it is still
 * there when it would be wanted again. */
#define AROUND_FACTOR	  4
#define AROUND_BYTES_MIN  ((size_t)2 << 20)
#define AROUND_BYTES_MAX  ((size_t)16 << 20)
#define AROUND_BYTES_ELSE ((size_t)4 << 20)

/* Of the largest cache that a core has for itself; 0 or less: unknown. */
static long own_cache_bytes(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
	return sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
	return 0;
#endif
}

/* 0: not asked for yet. Every thread would find the same. */
static _Atomic size_t around_bytes;

size_t rpi_copy_around_for(long cache_bytes)
{
	size_t bytes;

	if (cache_bytes <= 0)
		return AROUND_BYTES_ELSE;
	if ((size_t)cache_bytes > AROUND_BYTES_MAX / AROUND_FACTOR)
		return AROUND_BYTES_MAX;
	bytes = AROUND_FACTOR * (size_t)cache_bytes;
	return bytes < AROUND_BYTES_MIN ? AROUND_BYTES_MIN : bytes;
}

size_t rpi_copy_around_bytes(void)
{
	size_t bytes = atomic_load_explicit(&around_bytes, memory_order_relaxed);

	if (rpi_unlikely(!bytes)) {
		bytes = rpi_copy_around_for(own_cache_bytes());
		atomic_store_explicit(&around_bytes, bytes, memory_order_relaxed);
	}
	return bytes;
}

void rpi_copy_setup(void)
{
	engine_in_use();
	rpi_copy_around_bytes();
}

void rpi_copy_stage(void *to, const void *from, size_t bytes, size_t whole)
{
	if (whole >= rpi_copy_around_bytes())
		rpi_copy_around(to, from, bytes);
	else
		memcpy(to, from, bytes);
}
