/* SPDX-License-Identifier: MIT */
/* rpbench collective: what chips do together in the windows of a domain. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collective_bed.h"
#include "collective_copy.h"
#include "command.h"
#include "crew.h"
#include "limit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KIB	     ((size_t)1 << 10)
#define MIB	     ((size_t)1 << 20)
#define LINES_MAX    128
#define LINE	     "limits.pingpong.line"

/* Bytes that the samples of one run move at most, so that --ops can't take hours. */
#define RUN_BYTES_MAX ((uint64_t)4 << 30)

/* From this size on the limit is what moving the bytes takes. */
#define MOVED_BYTES MIB

static const struct grid {
	size_t bytes;
	const char *size;
	uint32_t chip_count;
	/* What is measured of it: collectives, then allreduces in other ways. */
	bool quick, kinds, ring, mesh, outside;
} grid[] = {
	{ 0, "", 2, .quick = true, .kinds = true },
	{ KIB, "1KiB", 2, .quick = true, .kinds = true, .ring = true, .mesh = true },
	{ MIB, "1MiB", 2, .quick = true, .kinds = true, .ring = true, .outside = true },
	{ 16 * MIB, "16MiB", 2, .quick = true, .ring = true, .outside = true },
	{ 64 * KIB, "64KiB", 2, .kinds = true },
	{ 64 * MIB, "64MiB", 2, .ring = true },
	{ 0, "", 4, .kinds = true },
	{ KIB, "1KiB", 4, .kinds = true, .ring = true },
	{ MIB, "1MiB", 4, .kinds = true, .ring = true, .mesh = true },
	{ 16 * MIB, "16MiB", 4, .ring = true, .mesh = true },
};

static const char *const kinds[] = {
	[COLLECTIVE_BARRIER] = "barrier",
	[COLLECTIVE_ALLREDUCE] = "allreduce",
	[COLLECTIVE_BROADCAST] = "broadcast",
	[COLLECTIVE_ALLGATHER] = "allgather",
	[COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
	[COLLECTIVE_ALL_TO_ALL] = "all_to_all",
};

/* What the cases of a plan point to. */
static struct line {
	struct collective_variant variant;
	struct collective_copy copy;
	char name[BENCH_NAME_BYTES], limit[BENCH_NAME_BYTES], copies[BENCH_NAME_BYTES];
	char bandwidth[BENCH_NAME_BYTES]; /* "": none */
} lines[LINES_MAX];
static size_t line_count;

static struct line *new_line(void)
{
	assert(line_count < LINES_MAX);
	return memset(&lines[line_count++], 0, sizeof(lines[0]));
}

/*
 * Bytes that the busiest rank reads and writes, in copies of `bytes`, each of which reads
 * and writes them: an allreduce reads its own and each other's, and writes the result.
 */
static double copies_of(const struct collective_variant *variant)
{
	double size = variant->chip_count;

	switch (variant->kind) {
	case COLLECTIVE_BARRIER:
		break;
	case COLLECTIVE_ALLREDUCE:
	case COLLECTIVE_REDUCE_SCATTER:
		return (size + 1.0) / 2.0;
	case COLLECTIVE_BROADCAST:
		return 1.0;
	case COLLECTIVE_ALLGATHER:
	case COLLECTIVE_ALL_TO_ALL:
		return size;
	}
	return 0.0;
}

/* Bytes that a rank has to send or receive, whatever the way: the bus bandwidth. */
static double sent_bytes(const struct collective_variant *variant)
{
	double size = variant->chip_count, bytes = (double)variant->bytes;

	switch (variant->kind) {
	case COLLECTIVE_BARRIER:
		break;
	case COLLECTIVE_ALLREDUCE:
		return bytes * 2.0 * (size - 1.0) / size;
	case COLLECTIVE_BROADCAST:
		return bytes;
	case COLLECTIVE_ALLGATHER:
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_ALL_TO_ALL:
		return bytes * (size - 1.0);
	}
	return 0.0;
}

static uint64_t ops_max(size_t bytes, uint32_t processes, uint64_t most)
{
	uint64_t ops = bytes ? RUN_BYTES_MAX / (bytes * processes) : most;

	return ops < most ? ops : most;
}

/* memcpy() of that size in that many processes, unless the plan has it. */
static int add_copy(struct bench_plan *plan, const struct grid *at)
{
	struct line *line = new_line();
	struct bench_case c = {
		.unit = "ns",
		.ops_max = ops_max(at->bytes, at->chip_count, CREW_OPS_MAX),
		.arg = &line->copy,
		.setup = collective_copy_setup,
		.round = collective_copy_round,
		.teardown = collective_copy_teardown,
		.enter = collective_copy_enter,
	};

	line->copy = (struct collective_copy){ at->bytes, at->chip_count };
	rpi_format(c.name, sizeof(c.name), "collective.copy.%s.%uchips", at->size,
		   at->chip_count);
	return bench_plan_add(plan, &c);
}

/* The time that the bytes need, and the rate at which they went. */
static int derive(struct bench_plan *plan, struct line *line, const struct grid *at)
{
	int err = 0;

	rpi_format(line->copies, sizeof(line->copies), "collective.copy.%s.%uchips",
		   at->size, at->chip_count);
	rpi_format(line->limit, sizeof(line->limit), "collective.bytes.%s.%s.%uchips",
		   kinds[line->variant.kind], at->size, at->chip_count);
	rpi_format(line->bandwidth, sizeof(line->bandwidth), "%s.bandwidth", line->name);
	if (!bench_plan_has(plan, line->limit))
		err = bench_plan_derive(plan, line->limit, "ns", NULL, line->copies);
	return err ? err
		   : bench_plan_derive(plan, line->bandwidth, "GB/s", NULL, line->name);
}

static int add(struct bench_plan *plan, const struct grid *at,
	       const struct collective_variant *variant, const char *suffix)
{
	struct line *line = new_line();
	struct bench_case c = {
		.unit = "ns",
		.limits = line->limit,
		.ops_max = ops_max(at->bytes, at->chip_count, COLLECTIVE_OPS_MAX),
		.arg = &line->variant,
		.setup = collective_bed_setup,
		.round = collective_bed_round,
		.teardown = collective_bed_teardown,
		.enter = collective_bed_enter,
		.leave = collective_bed_leave,
	};
	int err = 0;

	line->variant = *variant;
	line->variant.chip_count = at->chip_count;
	line->variant.bytes = at->bytes;
	rpi_format(line->name, sizeof(line->name), "collective.%s%s%s.%uchips%s",
		   kinds[variant->kind], at->size[0] ? "." : "", at->size, at->chip_count,
		   suffix);
	rpi_format(c.name, sizeof(c.name), "%s", line->name);
	rpi_format(line->limit, sizeof(line->limit), LINE);
	if (at->bytes >= MOVED_BYTES)
		err = derive(plan, line, at);
	return err ? err : bench_plan_add(plan, &c);
}

static int add_allreduce(struct bench_plan *plan, const struct grid *at,
			 enum rp_algorithm algorithm, bool outside, const char *suffix)
{
	return add(plan, at,
		   &(struct collective_variant){ .kind = COLLECTIVE_ALLREDUCE,
						 .algorithm = algorithm,
						 .outside = outside },
		   suffix);
}

static int add_kinds(struct bench_plan *plan, const struct grid *at)
{
	int err = 0;

	for (size_t kind = COLLECTIVE_BROADCAST; !err && kind < COUNT(kinds); kind++)
		err = add(plan, at,
			  &(struct collective_variant){
				  .kind = (enum collective_kind)kind },
			  "");
	return err;
}

static int add_size(struct bench_plan *plan, const struct grid *at)
{
	int err = 0;

	if (!at->bytes)
		return add(plan, at,
			   &(struct collective_variant){ .kind = COLLECTIVE_BARRIER },
			   "");
	if (at->bytes >= MOVED_BYTES)
		err = add_copy(plan, at);
	if (!err)
		err = add_allreduce(plan, at, RP_ALGORITHM_AUTO, false, "");
	if (!err && at->mesh)
		err = add_allreduce(plan, at, RP_ALGORITHM_MESH, false, ".mesh");
	if (!err && at->ring)
		err = add_allreduce(plan, at, RP_ALGORITHM_RING, false, ".ring");
	if (!err && at->outside)
		err = add_allreduce(plan, at, RP_ALGORITHM_AUTO, true, ".outside");
	if (!err && at->kinds)
		err = add_kinds(plan, at);
	return err;
}

static int collective_plan(struct bench_plan *plan, const struct bench_options *options)
{
	/* A pattern names what a quick run would leave out. */
	bool quick = options->quick && !options->only;
	int err = bench_limit_plan(plan, LINE);

	line_count = 0;
	for (size_t i = 0; !err && i < COUNT(grid); i++)
		if (!quick || grid[i].quick)
			err = add_size(plan, &grid[i]);
	return err;
}

/* Every run of `of`, its times multiplied by `factor`, or `factor` over them. */
static int take_runs(struct bench_result *line, const struct bench_result *of,
		     double factor, bool rate)
{
	int err = 0;

	line->ops = of->ops;
	for (size_t i = 0; !err && i < of->run_count; i++) {
		const struct bench_run *run = &of->runs[i];
		struct bench_run got = { .p50 = run->p50 * factor,
					 .p99 = run->p99 * factor,
					 .p999 = run->p999 * factor,
					 .max = run->max * factor };

		if (rate)
			got = (struct bench_run){ .p50 = factor / run->p50,
						  .p99 = factor / run->p99,
						  .p999 = factor / run->p999,
						  .max = factor / run->max };
		err = bench_result_run(line, &got);
	}
	return err;
}

static int finish_line(struct bench_results *results, const struct line *line)
{
	struct bench_result *limit = bench_result_find(results, line->limit);
	struct bench_result *bandwidth = bench_result_find(results, line->bandwidth);
	const struct bench_result *copies = bench_result_find(results, line->copies);
	const struct bench_result *own = bench_result_find(results, line->name);
	int err = 0;

	/* Several ways of one collective share a limit. */
	if (limit && copies && !limit->run_count) {
		err = take_runs(limit, copies, copies_of(&line->variant), false);
		rpi_format(limit->text, sizeof(limit->text), "%g times %s",
			   copies_of(&line->variant), line->copies);
	}
	if (!err && bandwidth && own)
		err = take_runs(bandwidth, own, sent_bytes(&line->variant), true);
	return err;
}

static int collective_finish(struct bench_results *results,
			     const struct bench_options *options)
{
	int err = 0;

	(void)options;
	for (size_t i = 0; !err && i < line_count; i++)
		if (lines[i].bandwidth[0])
			err = finish_line(results, &lines[i]);
	return err;
}

const struct bench_command bench_collective_command = {
	.name = "collective",
	.summary = "what chips do together in the windows of a domain",
	.plan = collective_plan,
	.finish = collective_finish,
};
