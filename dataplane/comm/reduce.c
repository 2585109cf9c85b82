/* SPDX-License-Identifier: MIT */
#include "comm/reduce.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include <ringplane/comm.h>

#include "base/cpu.h"
#include "comm/half.h"
#include "memory/copy.h"

/* What is worked on at a time: stays in the first cache, with room for the rows. */
#define BLOCK_BYTES 4096u

typedef void (*combine_fn)(void *out, const void *a, const void *b, size_t n);
typedef void (*widen_fn)(float *out, const void *in, size_t n);
typedef void (*narrow_fn)(void *out, const float *in, size_t n);

/* Each by enum rp_reduce_op. */
struct engine {
	combine_fn f32[4], i32[4], i64[4], i8[4], u8[4];
	widen_fn widen[2]; /* float16, bfloat16 */
	narrow_fn narrow[2];
};

/* Elements at any address, of memory that holds whatever it holds. */
#define ELEMENT(name, type) typedef type name __attribute__((aligned(1), may_alias))
ELEMENT(f32, float);
ELEMENT(i32, int32_t);
ELEMENT(u32, uint32_t);
ELEMENT(i64, int64_t);
ELEMENT(u64, uint64_t);
ELEMENT(i8, int8_t);
ELEMENT(u8, uint8_t);
ELEMENT(u16, uint16_t);

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
/* Builds that don't vectorise are to be built all the same. */
#pragma clang diagnostic ignored "-Wpass-failed"
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

#if defined(__x86_64__)
#define ENGINE	 avx512
#define TARGET	 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define WIDE_F16 1
#include "comm/reduce_engine.h"

#define ENGINE	 avx2
#define TARGET	 __attribute__((target("avx2,f16c")))
#define WIDE_F16 1
#include "comm/reduce_engine.h"
#endif

#define ENGINE plain
#define TARGET
#define WIDE_F16 0
#include "comm/reduce_engine.h"

static const struct {
	const char *name;
	const struct engine *engine;
} engines[] = {
#if defined(__x86_64__)
	{ "avx512", &engine_avx512 },
	{ "avx2", &engine_avx2 },
#endif
	{ "plain", &engine_plain },
};

#define ENGINE_COUNT (sizeof(engines) / sizeof(engines[0]))

static bool has(const struct engine *engine)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (engine == &engine_avx512)
		return __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") &&
		       __builtin_cpu_supports("avx512vl");
	if (engine == &engine_avx2) /* every processor with it has F16C */
		return __builtin_cpu_supports("avx2");
#endif
	return engine == &engine_plain;
}

/* Index + 1 of the engine in use; 0: not chosen yet. Every thread would choose the same
 * one. */
static _Atomic unsigned chosen;

bool rpi_reduce_choose(const char *name)
{
	unsigned i;

	for (i = 0; i < ENGINE_COUNT; i++) {
		if ((name && strcmp(name, engines[i].name)) || !has(engines[i].engine))
			continue;
		/* Relaxed: the tables are constant. */
		atomic_store_explicit(&chosen, i + 1, memory_order_relaxed);
		return true;
	}
	return false;
}

static unsigned index_in_use(void)
{
	unsigned idx = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (rpi_unlikely(!idx)) {
		rpi_reduce_choose(NULL);
		idx = atomic_load_explicit(&chosen, memory_order_relaxed);
	}
	return idx - 1;
}

const char *rpi_reduce_engine(void)
{
	return engines[index_in_use()].name;
}

static bool is_half(uint32_t dtype)
{
	return dtype == RP_FLOAT16 || dtype == RP_BFLOAT16;
}

/* NULL for what can't be reduced; that of float32 for the 16-bit floats. */
static combine_fn find(const struct engine *engine, uint32_t dtype, uint32_t op)
{
	if (op > RP_PROD)
		return NULL;
	switch (dtype) {
	case RP_FLOAT32:
	case RP_FLOAT16:
	case RP_BFLOAT16:
		return engine->f32[op];
	case RP_INT32:
		return engine->i32[op];
	case RP_INT64:
		return engine->i64[op];
	case RP_INT8:
		return engine->i8[op];
	case RP_UINT8:
		return engine->u8[op];
	default:
		return NULL;
	}
}

bool rpi_reduce_can(uint32_t dtype, uint32_t op)
{
	return find(&engine_plain, dtype, op);
}

/* Where a block of the result is made: in place, or in `block` to be streamed out. */
static void put_block(void *out, const void *block, size_t bytes)
{
	if (out != block)
		rpi_copy_stream(out, block, bytes);
}

struct reduction {
	const void *const *rows;
	uint32_t row_count;
	uint32_t size; /* bytes of an element */
	combine_fn combine;
	widen_fn widen;
	narrow_fn narrow;
};

static const void *row_at(const struct reduction *r, uint32_t row, size_t first)
{
	return (const uint8_t *)r->rows[row] + first * r->size;
}

/* All rows are read before `to` is written: it may be one of them. */
static void reduce_block(const struct reduction *r, void *to, size_t first, size_t n)
{
	_Alignas(RPI_CACHE_LINE) uint8_t sum[BLOCK_BYTES];
	const void *left = row_at(r, 0, first);
	uint32_t row;

	for (row = 1; row < r->row_count; row++) {
		void *out = row + 1 < r->row_count ? sum : to;

		r->combine(out, left, row_at(r, row, first), n);
		left = sum;
	}
}

static void reduce_half_block(const struct reduction *r, void *to, size_t first, size_t n)
{
	_Alignas(RPI_CACHE_LINE) float sum[BLOCK_BYTES / sizeof(float)];
	_Alignas(RPI_CACHE_LINE) float next[BLOCK_BYTES / sizeof(float)];
	uint32_t row;

	r->widen(sum, row_at(r, 0, first), n);
	for (row = 1; row < r->row_count; row++) {
		r->widen(next, row_at(r, row, first), n);
		r->combine(sum, sum, next, n);
	}
	r->narrow(to, sum, n);
}

static void reduce_blocks(const struct reduction *r, uint8_t *out, size_t count,
			  bool half, bool around)
{
	_Alignas(RPI_CACHE_LINE) uint8_t block[BLOCK_BYTES];
	size_t step = BLOCK_BYTES / (half ? sizeof(float) : r->size);
	size_t first, n;

	for (first = 0; first < count; first += n) {
		uint8_t *at = out + first * r->size;
		void *to = around ? block : at;

		n = count - first < step ? count - first : step;
		if (half)
			reduce_half_block(r, to, first, n);
		else
			reduce_block(r, to, first, n);
		put_block(at, to, n * r->size);
	}
}

void rpi_reduce(void *out, const void *const *rows, uint32_t row_count, size_t count,
		uint32_t dtype, uint32_t op, bool around)
{
	const struct engine *engine = engines[index_in_use()].engine;
	struct reduction r = {
		.rows = rows,
		.row_count = row_count,
		.size = rp_dtype_bits((enum rp_dtype)dtype) / 8,
		.combine = find(engine, dtype, op),
		.widen = engine->widen[dtype == RP_BFLOAT16],
		.narrow = engine->narrow[dtype == RP_BFLOAT16],
	};

	assert(r.combine); /* the call was checked */
	if (row_count == 1)
		memmove(out, rows[0], count * r.size);
	else if (row_count == 2 && !around && !is_half(dtype))
		r.combine(out, rows[0], rows[1], count);
	else
		reduce_blocks(&r, out, count, is_half(dtype), around);
	if (around)
		rpi_copy_stream_end();
}
