/* SPDX-License-Identifier: MIT */
/* rpbench copy: bytes between the host and device memory. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "command.h"
#include "copy_bed.h"
#include "copy_engine.h"
#include "dispatch_bed.h"
#include "limit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KIB	     ((size_t)1 << 10)
#define MIB	     ((size_t)1 << 20)
#define LINES_MAX    128

/* The bare thing next to which a payload of a few lines is put. */
#define DISPATCH DISPATCH_SPIN

/* A payload up to this has DISPATCH as its limit: no second copy would be seen. */
#define LINE_BYTES ((size_t)64)

static const struct copy_size {
	const char *name;
	size_t bytes;
	bool rtt;
	bool quick; /* stays in a quick run */
} sizes[] = {
	{ "64B", LINE_BYTES, true, true },     { "4KiB", 4 * KIB, true, false },
	{ "64KiB", 64 * KIB, true, true },     { "1MiB", MIB, false, true },
	{ "16MiB", 16 * MIB, false, false },   { "64MiB", 64 * MIB, false, true },
	{ "256MiB", 256 * MIB, false, false },
};

/* The one that page kinds and numbers of chips are compared with. */
#define MAIN_BYTES (64 * MIB)

static const char *const ways[] = { [COPY_H2D] = "h2d", [COPY_D2H] = "d2h" };
static const char *const paths[] = {
	[COPY_STAGED] = "staged", [COPY_INHERITED] = "inherited", [COPY_FANOUT] = "fanout"
};
static const char *const page_suffixes[] = {
	[COPY_PAGES_USUAL] = "", [COPY_PAGES_4K] = ".4k", [COPY_PAGES_HUGE] = ".huge"
};

/* What the cases of a plan point to. */
static struct copy_line {
	struct copy_variant variant;
	char name[BENCH_NAME_BYTES], limit[BENCH_NAME_BYTES];
} lines[LINES_MAX];
static size_t line_count;

/* The limit of what goes to two chips is what one chip's is: one memcpy(). */
static void name_line(struct copy_line *line, const char *size)
{
	const struct copy_variant *v = &line->variant;
	const char *path = paths[v->path == COPY_FANOUT ? COPY_STAGED : v->path];
	const char *tail = v->rtt ? ".rtt" : page_suffixes[v->pages];

	rpi_format(line->name, sizeof(line->name), "copy.%s.%s.%s%s%s", ways[v->way],
		   paths[v->path], size, tail, v->chip_count > 1 ? ".2chips" : "");
	if (v->rtt && v->bytes <= LINE_BYTES)
		rpi_format(line->limit, sizeof(line->limit), DISPATCH);
	else
		rpi_format(line->limit, sizeof(line->limit), "copy.%s.%s.%s.%s%s",
			   v->rtt ? "relay" : "memcpy", ways[v->way], path, size, tail);
}

static int add(struct bench_plan *plan, const struct bench_options *options,
	       const struct copy_variant *variant, const char *size)
{
	struct copy_line *line = &lines[line_count++];

	assert(line_count <= LINES_MAX);
	line->variant = *variant;
	name_line(line, size);
	return copy_bed_plan(plan, options, &line->variant, line->name, line->limit);
}

/* Both ways, staged and inherited, by size. What rides in the command itself is the same
 * from whatever host memory. */
static int add_sizes(struct bench_plan *plan, const struct bench_options *options,
		     bool quick)
{
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(sizes) * 4; i++) {
		const struct copy_size *size = &sizes[i / 4];
		const struct copy_variant variant = {
			.bytes = size->bytes,
			.way = i & 1 ? COPY_D2H : COPY_H2D,
			.path = i & 2 ? COPY_INHERITED : COPY_STAGED,
			.chip_count = 1,
			.rtt = size->rtt,
		};

		if (size->bytes <= LINE_BYTES && variant.path == COPY_INHERITED)
			continue;
		if (!quick || size->quick)
			err = add(plan, options, &variant, size->name);
	}
	return err;
}

static int add_chips(struct bench_plan *plan, const struct bench_options *options,
		     bool quick)
{
	static const struct {
		enum copy_way way;
		enum copy_path path;
		bool quick;
	} kinds[] = {
		{ COPY_H2D, COPY_INHERITED, true }, { COPY_D2H, COPY_INHERITED, true },
		{ COPY_H2D, COPY_STAGED, false },   { COPY_D2H, COPY_STAGED, false },
		{ COPY_H2D, COPY_FANOUT, true },
	};
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(kinds); i++) {
		const struct copy_variant variant = { .bytes = MAIN_BYTES,
						      .way = kinds[i].way,
						      .path = kinds[i].path,
						      .chip_count = 2 };

		if (!quick || kinds[i].quick)
			err = add(plan, options, &variant, "64MiB");
	}
	return err;
}

static int add_pages(struct bench_plan *plan, const struct bench_options *options)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < 8; i++) {
		const struct copy_variant variant = {
			.bytes = MAIN_BYTES,
			.way = i & 1 ? COPY_D2H : COPY_H2D,
			.path = i & 2 ? COPY_INHERITED : COPY_STAGED,
			.pages = i & 4 ? COPY_PAGES_HUGE : COPY_PAGES_4K,
			.chip_count = 1,
		};

		err = add(plan, options, &variant, "64MiB");
	}
	return err;
}

static int copy_plan(struct bench_plan *plan, const struct bench_options *options)
{
	/* A pattern names what a quick run would leave out. */
	bool quick = options->quick && !options->only;
	int err;

	line_count = 0;
	err = dispatch_bed_plan_spin(plan);
	if (!err)
		err = add_sizes(plan, options, quick);
	if (!err)
		err = add_chips(plan, options, quick);
	if (!err && !quick)
		err = add_pages(plan, options);
	if (!err && !quick)
		err = copy_engine_plan(plan);
	return err;
}

const struct bench_command bench_copy_command = {
	.name = "copy",
	.summary = "bytes to and from device memory",
	.plan = copy_plan,
};
