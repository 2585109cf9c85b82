/* SPDX-License-Identifier: MIT */
/* rpbench reset: what it costs that a dispatch finds its windows zeroed. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "command.h"
#include "crew.h"
#include "reset_bed.h"
#include "reset_derive.h"
#include "reset_zero.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KIB	     ((size_t)1 << 10)
#define MIB	     ((size_t)1 << 20)
#define LINES_MAX    256
#define LIMITS_BYTES 192

/* Bytes that the samples of one run zero at most, so that --ops can't take hours. */
#define RUN_BYTES_MAX ((uint64_t)4 << 30)

/* Above this, what zeroes a window is a rate. */
#define TIMED_BYTES RESET_OWN_BYTES

/* What is measured of a window size; each is a line, or one for each engine. */
enum {
	ZERO = 1 << 0,	  /* plain loops */
	OFF = 1 << 1,	  /* dispatch, nothing is reset */
	RESET = 1 << 2,	  /* dispatch with a reset: a time, or a bandwidth */
	ENGINES = 1 << 3, /* the same with each engine */
	SIGNALS = 1 << 4, /* dispatch that resets one page and keeps the rest */
	FRESH = 1 << 5,	  /* dispatch that allocates and releases */
	EAGER = 1 << 6,	  /* dispatch after host work, reset meanwhile */
	SPARSE = 1 << 7,  /* loops and resets where little was written */
	ADDED = 1 << 8,	  /* derived: RESET less OFF */
};

/* What a dispatch without a domain writes and looks at where no size is named. */
#define BARE_BYTES (4 * KIB)

#define SMALL	   (ZERO | OFF | RESET | ADDED)
#define LARGE	   (ZERO | RESET)

static const struct grid {
	size_t bytes;
	const char *size;
	uint32_t chip_count;
	unsigned int quick, full;
} grid[] = {
	{ 4 * KIB, "4KiB", 1, SMALL, SMALL | FRESH | ENGINES },
	{ 64 * KIB, "64KiB", 1, SMALL, SMALL | FRESH | ENGINES | SPARSE },
	{ MIB, "1MiB", 1, LARGE | FRESH, SMALL | FRESH | ENGINES | SIGNALS | EAGER },
	{ MIB, "1MiB", 2, LARGE | FRESH, SMALL | FRESH },
	{ 16 * MIB, "16MiB", 1, LARGE | ENGINES | EAGER | OFF | SIGNALS,
	  SMALL | ENGINES | EAGER | SIGNALS | FRESH | SPARSE },
	{ 16 * MIB, "16MiB", 2, LARGE, SMALL | ENGINES | FRESH | EAGER },
	{ 64 * MIB, "64MiB", 1, LARGE, SMALL | ENGINES | EAGER },
	{ 64 * MIB, "64MiB", 2, 0, LARGE },
	{ 256 * MIB, "256MiB", 1, 0, LARGE | ENGINES },
	{ 4 * KIB, "4KiB", 2, 0, SMALL },
	{ 64 * KIB, "64KiB", 2, 0, SMALL },
	{ 4 * KIB, "4KiB", 4, 0, SMALL },
	{ MIB, "1MiB", 4, 0, LARGE | FRESH },
	{ 16 * MIB, "16MiB", 4, 0, LARGE },
};

static const struct {
	const char *suffix;
	enum rp_reset_engine engine;
} engines[] = {
	{ ".memset", RP_RESET_MEMSET },
	{ ".stream", RP_RESET_STREAM },
	{ ".chunk", RP_RESET_CHUNK },
	{ ".ahead", RP_RESET_AHEAD },
};

/* What the cases of a plan point to. */
static struct reset_line {
	struct reset_variant variant;
	struct reset_zero zero;
	char name[BENCH_NAME_BYTES], limits[LIMITS_BYTES];
} lines[LINES_MAX];
static size_t line_count;

static struct reset_line *new_line(void)
{
	assert(line_count < LINES_MAX);
	return memset(&lines[line_count++], 0, sizeof(lines[0]));
}

static const char *chips_suffix(uint32_t chip_count)
{
	static const char *const suffixes[] = { "", "", ".2chips", ".3chips", ".4chips" };

	return suffixes[chip_count];
}

static uint64_t ops_max(const struct grid *at, uint64_t most)
{
	const uint64_t bytes = (uint64_t)at->bytes * at->chip_count;

	/* Without a domain there is nothing to zero. */
	return bytes && RUN_BYTES_MAX / bytes < most ? RUN_BYTES_MAX / bytes : most;
}

/* A rate counts the bytes of all windows. */
static void set_unit(struct bench_case *c, const struct grid *at)
{
	c->unit = at->bytes > TIMED_BYTES ? "GB/s" : "ns";
	c->per_sample = (double)at->bytes * at->chip_count;
}

static int add(struct bench_plan *plan, struct bench_case *c,
	       const struct reset_line *line)
{
	rpi_format(c->name, sizeof(c->name), "%s", line->name);
	if (line->limits[0])
		c->limits = line->limits;
	return bench_plan_add(plan, c);
}

static void name_loops(char *text, size_t bytes, const struct grid *at, bool sparse)
{
	size_t used = 0;

	for (size_t i = 0; i < COUNT(engines); i++)
		used += (size_t)rpi_format(
			text + used, bytes - used, "%sreset.zero.%s%s%s%s", i ? "|" : "",
			at->size, engines[i].suffix, sparse ? ".sparse" : "",
			chips_suffix(at->chip_count));
}

static int add_loops(struct bench_plan *plan, const struct grid *at, bool sparse)
{
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(engines); i++) {
		struct reset_line *line = new_line();
		struct bench_case c = { .ops_max = ops_max(at, CREW_OPS_MAX),
					.arg = &line->zero,
					.setup = reset_zero_setup,
					.round = reset_zero_round,
					.teardown = reset_zero_teardown,
					.enter = reset_zero_enter };

		line->zero = (struct reset_zero){ .bytes = at->bytes,
						  .process_count = at->chip_count,
						  .engine = engines[i].engine,
						  .sparse = sparse,
						  .own = at->chip_count == 1 &&
							 at->bytes <= RESET_OWN_BYTES };
		rpi_format(line->name, sizeof(line->name), "reset.zero.%s%s%s%s",
			   at->size, engines[i].suffix, sparse ? ".sparse" : "",
			   chips_suffix(at->chip_count));
		set_unit(&c, at);
		err = add(plan, &c, line);
	}
	return err;
}

static struct bench_case dispatch_case(const struct grid *at, struct reset_line *line)
{
	return (struct bench_case){ .unit = "ns",
				    .ops_max = ops_max(at, BENCH_OPS_MAX),
				    .arg = &line->variant,
				    .setup = reset_bed_setup,
				    .round = reset_look_round,
				    .teardown = reset_bed_teardown,
				    .enter = reset_bed_enter,
				    .leave = reset_bed_leave };
}

/* A dispatch as a time: `what` is the middle of its name. */
static int add_dispatch(struct bench_plan *plan, const struct grid *at, const char *what,
			const char *limit, const struct reset_variant *variant)
{
	struct reset_line *line = new_line();
	struct bench_case c = dispatch_case(at, line);

	line->variant = *variant;
	line->variant.chip_count = at->chip_count;
	line->variant.bytes = at->bytes;
	rpi_format(line->name, sizeof(line->name), "reset.%s.%s%s", at->size, what,
		   chips_suffix(at->chip_count));
	if (limit)
		rpi_format(line->limits, sizeof(line->limits), "%s%s", limit,
			   chips_suffix(at->chip_count));
	return add(plan, &c, line);
}

/* A dispatch with a reset of the whole window. */
static int add_reset(struct bench_plan *plan, const struct grid *at,
		     enum rp_reset_engine engine, const char *suffix, bool sparse)
{
	struct reset_line *line = new_line();
	struct bench_case c = dispatch_case(at, line);

	line->variant = (struct reset_variant){ .policy = RESET_ALL,
						.engine = engine,
						.chip_count = at->chip_count,
						.bytes = at->bytes,
						.sparse = sparse };
	set_unit(&c, at);
	if (at->bytes > TIMED_BYTES) {
		rpi_format(line->name, sizeof(line->name), "reset.%s%s.bandwidth%s%s",
			   at->size, chips_suffix(at->chip_count), suffix,
			   sparse ? ".sparse" : "");
		name_loops(line->limits, sizeof(line->limits), at, sparse);
	} else {
		rpi_format(line->name, sizeof(line->name), "reset.%s.reset%s%s%s",
			   at->size, suffix, sparse ? ".sparse" : "",
			   chips_suffix(at->chip_count));
	}
	return add(plan, &c, line);
}

static int add_resets(struct bench_plan *plan, const struct grid *at, unsigned int what)
{
	int err = what & RESET ? add_reset(plan, at, RP_RESET_AUTO, "", false) : 0;

	for (size_t i = 0; !err && what & ENGINES && i < COUNT(engines); i++)
		err = add_reset(plan, at, engines[i].engine, engines[i].suffix, false);
	if (!err && what & SPARSE)
		err = add_loops(plan, at, true);
	if (!err && what & SPARSE)
		err = add_reset(plan, at, RP_RESET_AUTO, "", true);
	return err;
}

/* The host works for as long as zeroing takes; the second has nothing reset. */
static int add_eager(struct bench_plan *plan, const struct grid *at)
{
	int err = add_dispatch(
		plan, at, "eager", NULL,
		&(struct reset_variant){ .policy = RESET_EAGER, .works = true });

	return err ? err
		   : add_dispatch(plan, at, "eager.off", NULL,
				  &(struct reset_variant){ .policy = RESET_OFF,
							   .works = true });
}

/* A domain and no reset, beside no domain and a look at as much memory: what the look
 * itself costs grows with the size. */
static int add_off(struct bench_plan *plan, const struct grid *at)
{
	bool own = at->bytes > BARE_BYTES;
	char limit[BENCH_NAME_BYTES] = "reset.nodomain";
	int err = 0;

	if (own) {
		rpi_format(limit, sizeof(limit), "reset.%s.nodomain", at->size);
		err = add_dispatch(plan, at, "nodomain", NULL,
				   &(struct reset_variant){ .policy = RESET_NO_DOMAIN });
	}
	return err ? err
		   : add_dispatch(plan, at, "off", limit,
				  &(struct reset_variant){ .policy = RESET_OFF });
}

static int add_size(struct bench_plan *plan, const struct grid *at, unsigned int what)
{
	int err = what & ZERO ? add_loops(plan, at, false) : 0;

	if (!err && what & OFF)
		err = add_off(plan, at);
	if (!err)
		err = add_resets(plan, at, what);
	if (!err && what & SIGNALS)
		err = add_dispatch(plan, at, "keep", NULL,
				   &(struct reset_variant){ .policy = RESET_SIGNALS });
	if (!err && what & FRESH)
		err = add_dispatch(plan, at, "fresh", NULL,
				   &(struct reset_variant){ .policy = RESET_FRESH });
	if (!err && what & EAGER)
		err = add_eager(plan, at);
	return err;
}

/* The dispatch that everything is held against: no domain at all. */
static int add_bare(struct bench_plan *plan, uint32_t chip_count)
{
	const struct grid at = { .chip_count = chip_count };
	struct reset_line *line = new_line();
	struct bench_case c = dispatch_case(&at, line);

	c.ops_max = 0;
	line->variant.chip_count = chip_count;
	line->variant.bytes = BARE_BYTES;
	rpi_format(line->name, sizeof(line->name), "reset.nodomain%s",
		   chips_suffix(chip_count));
	return add(plan, &c, line);
}

static int derive_size(struct bench_plan *plan, const struct grid *at, unsigned int what)
{
	const struct reset_size size = { .name = at->size,
					 .chips = chips_suffix(at->chip_count),
					 .bytes = (double)at->bytes * at->chip_count,
					 .timed = at->bytes <= TIMED_BYTES };
	int err = what & ZERO ? reset_derive_zero(plan, &size) : 0;

	if (!err && what & ADDED)
		err = reset_derive_added(plan, &size);
	if (!err && what & SIGNALS && what & OFF)
		err = reset_derive_less(plan, &size, "keep.added", "keep", "off");
	if (!err && what & FRESH)
		err = reset_derive_less(plan, &size, "nonpersistent", "fresh", NULL);
	if (!err && what & EAGER)
		err = reset_derive_less(plan, &size, "eager.left", "eager", "eager.off");
	return err;
}

static int reset_plan(struct bench_plan *plan, const struct bench_options *options)
{
	/* A pattern names what a quick run would leave out. */
	bool quick = options->quick && !options->only, bare[CREW_MAX + 1] = { 0 };
	int err = 0;

	line_count = 0;
	reset_derive_begin();
	for (size_t i = 0; !err && i < COUNT(grid); i++) {
		unsigned int what = quick ? grid[i].quick : grid[i].full;

		if (what && !bare[grid[i].chip_count])
			err = add_bare(plan, grid[i].chip_count);
		bare[grid[i].chip_count] |= what != 0;
		if (!err)
			err = add_size(plan, &grid[i], what);
		if (!err)
			err = derive_size(plan, &grid[i], what);
	}
	return err;
}

const struct bench_command bench_reset_command = {
	.name = "reset",
	.summary = "windows that read zero when a dispatch begins",
	.plan = reset_plan,
	.finish = reset_derive_finish,
};
