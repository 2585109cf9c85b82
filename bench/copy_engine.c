/* SPDX-License-Identifier: MIT */
#include "copy_engine.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "clock.h"
#include "copy_bed.h"
#include "memory/copy.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define KIB	      ((size_t)1 << 10)
#define MIB	      ((size_t)1 << 20)
#define RUN_BYTES_MAX ((uint64_t)16 << 30)

static const struct {
	const char *name;
	size_t bytes;
} sizes[] = {
	{ "64KiB", 64 * KIB }, { "256KiB", 256 * KIB }, { "1MiB", MIB },
	{ "4MiB", 4 * MIB },   { "16MiB", 16 * MIB },	{ "64MiB", 64 * MIB },
};

/* The first is the C library's, through the caches, and the others' limit. */
static const char *const engines[] = { "memcpy", "sse2", "avx2", "avx512" };

static struct engine_line {
	char limit[BENCH_NAME_BYTES];
	const char *engine;
	size_t bytes;
} lines[COUNT(engines) * COUNT(sizes)];

static int engine_setup(struct bench_case *c)
{
	const struct engine_line *line = c->arg;
	int err;

	if (line->limit[0] && !rpi_copy_choose(line->engine))
		return rpi_fail(BENCH_SKIP, "the processor has no %s", line->engine);
	rpi_copy_choose(NULL);
	err = copy_block_get(COPY_HOST_USUAL, line->bytes);
	if (err)
		return err;
	err = copy_block_get(COPY_DEVICE_USUAL, line->bytes);
	if (err)
		copy_block_put(COPY_HOST_USUAL);
	return err;
}

static void engine_teardown(struct bench_case *c)
{
	(void)c;
	copy_block_put(COPY_HOST_USUAL);
	copy_block_put(COPY_DEVICE_USUAL);
}

static void copy_once(const struct engine_line *line, struct bench_round *round,
		      uint64_t i, uint64_t *ticks_out)
{
	uint8_t *from = copy_block_at(COPY_HOST_USUAL);
	uint8_t *to = copy_block_at(COPY_DEVICE_USUAL);
	size_t at = (size_t)i * 4096 % line->bytes;
	uint64_t word = round->seed + i, before, got;

	memcpy(from + at, &word, sizeof(word));
	before = bench_ticks();
	if (line->limit[0])
		rpi_copy_around(to, from, line->bytes);
	else
		memcpy(to, from, line->bytes);
	__asm__ __volatile__("" : : "r"(to) : "memory");
	*ticks_out = bench_ticks() - before;
	memcpy(&got, to + at, sizeof(got));
	if (got != word) {
		rpi_fail(-EIO, "%s: byte %zu has another word", line->engine, at);
		round->failures++;
	}
	round->work += word;
}

static int engine_round(struct bench_case *c, struct bench_round *round)
{
	const struct engine_line *line = c->arg;
	uint64_t ticks;

	if (line->limit[0])
		rpi_copy_choose(line->engine);
	copy_once(line, round, round->ops, &ticks);
	for (uint64_t i = 0; i < round->ops; i++) {
		copy_once(line, round, i, &ticks);
		bench_samples_add(round->samples, bench_ticks_ns(ticks));
	}
	rpi_copy_choose(NULL);
	return 0;
}

int copy_engine_plan(struct bench_plan *plan)
{
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(lines); i++) {
		const size_t size = i / COUNT(engines), engine = i % COUNT(engines);
		struct engine_line *line = &lines[i];
		struct bench_case c = { .unit = "GB/s",
					.per_sample = (double)sizes[size].bytes,
					.ops_max = RUN_BYTES_MAX / sizes[size].bytes,
					.arg = line,
					.setup = engine_setup,
					.round = engine_round,
					.teardown = engine_teardown };

		line->engine = engines[engine];
		line->bytes = sizes[size].bytes;
		rpi_format(c.name, sizeof(c.name), "copy.engine.%s.%s", engines[engine],
			   sizes[size].name);
		if (engine) {
			rpi_format(line->limit, sizeof(line->limit), "copy.engine.%s.%s",
				   engines[0], sizes[size].name);
			c.limits = line->limit;
		}
		err = bench_plan_add(plan, &c);
	}
	return err;
}
