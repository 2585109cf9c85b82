/* SPDX-License-Identifier: MIT */
/* rpbench dispatch: what it costs to have a chip do nothing. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "command.h"
#include "dispatch_bed.h"
#include "sample.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))

#define LINE	      "limits.pingpong.line"
#define PAYLOAD	      "limits.pingpong.payload"
#define SLEEPERS      "limits.futex|limits.eventfd"

#define TASKS_PATTERN "dispatch.tasks.[0-9]*"

/* In the order of their turns: a limit next to what is held against it. NULL for the
 * round: a limit. */
static const struct dispatch_variant variants[] = {
	{ .name = LINE },
	{ .name = "dispatch.spin.rtt",
	  .limits = LINE,
	  .wait = RP_WAIT_SPIN,
	  .round = dispatch_run_round },
	{ .name = "dispatch.hybrid.rtt", .limits = LINE, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.1", .task_count = 1, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.2", .task_count = 2, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.4", .task_count = 4, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.8", .task_count = 8, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.16", .task_count = 16, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.32", .task_count = 32, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.64", .task_count = 64, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.128", .task_count = 128, .round = dispatch_run_round },
	{ .name = "dispatch.tasks.256", .task_count = 256, .round = dispatch_run_round },
	{ .name = "limits.slotring" },
	{ .name = "dispatch.submit", .round = dispatch_submit_round },
	{ .name = "dispatch.pipelined",
	  .limits = "dispatch.hybrid.rtt",
	  .round = dispatch_pipelined_round },
	{ .name = PAYLOAD },
	{ .name = "dispatch.args.1",
	  .limits = PAYLOAD,
	  .pair_count = 1,
	  .round = dispatch_args_round },
	{ .name = "dispatch.args.4",
	  .limits = PAYLOAD,
	  .pair_count = 4,
	  .round = dispatch_args_round },
	{ .name = "limits.futex" },
	{ .name = "limits.eventfd" },
	{ .name = "dispatch.block.rtt",
	  .limits = SLEEPERS,
	  .wait = RP_WAIT_BLOCK,
	  .round = dispatch_run_round },
	{ .name = "dispatch.spin.rtt.2chips",
	  .wait = RP_WAIT_SPIN,
	  .chip_count = 2,
	  .task_count = 2,
	  .round = dispatch_run_round },
	{ .name = "dispatch.block.rtt.8chips",
	  .wait = RP_WAIT_BLOCK,
	  .place = BENCH_PLACE_ANY,
	  .chip_count = 8,
	  .task_count = 8,
	  .round = dispatch_run_round },
	{ .name = "dispatch.hybrid.rtt.8chips",
	  .limits = "dispatch.block.rtt.8chips",
	  .place = BENCH_PLACE_ANY,
	  .chip_count = 8,
	  .task_count = 8,
	  .round = dispatch_run_round },
	{ .name = "dispatch.wakes.5us", .gap_ns = 5000, .round = dispatch_gap_round },
	{ .name = "dispatch.wakes.100us", .gap_ns = 100000, .round = dispatch_gap_round },
	{ .name = "dispatch.wakes.1ms", .gap_ns = 1000000, .round = dispatch_gap_round },
};

static int dispatch_plan(struct bench_plan *plan, const struct bench_options *options)
{
	int err = 0;

	(void)options;
	for (size_t i = 0; !err && i < COUNT(variants); i++)
		err = dispatch_bed_plan(plan, &variants[i]);
	if (!err)
		err = bench_plan_derive(plan, "dispatch.pipelined.rate", "1/s", NULL,
					"dispatch.pipelined");
	if (!err)
		err = bench_plan_derive(plan, "dispatch.tasks.fixed", "ns", LINE,
					TASKS_PATTERN);
	if (!err)
		err = bench_plan_derive(plan, "dispatch.tasks.marginal", "ns", NULL,
					TASKS_PATTERN);
	return err;
}

/* A rate has no value where its time has none. */
static double rate_of(double ns)
{
	return ns > 0.0 ? 1e9 / ns : (double)NAN;
}

static int finish_rate(struct bench_results *results)
{
	const struct bench_result *times =
		bench_result_find(results, "dispatch.pipelined");
	struct bench_result *rate = bench_result_find(results, "dispatch.pipelined.rate");
	int err = 0;

	if (!times || !rate)
		return 0;
	rate->ops = times->ops;
	for (size_t i = 0; !err && i < times->run_count; i++) {
		const struct bench_run *run = &times->runs[i];
		struct bench_run inverse = { .p50 = rate_of(run->p50),
					     .p99 = rate_of(run->p99),
					     .p999 = rate_of(run->p999),
					     .max = rate_of(run->max) };

		err = bench_result_run(rate, &inverse);
	}
	return err;
}

/* The runs of so many tasks each, as far as all of them were measured. */
struct series {
	const struct bench_result *result[COUNT(variants)];
	double tasks[COUNT(variants)];
	size_t count, run_count;
};

static void find_series(const struct bench_results *results, struct series *s)
{
	s->count = 0;
	s->run_count = SIZE_MAX;
	for (size_t i = 0; i < COUNT(variants); i++) {
		const struct dispatch_variant *v = &variants[i];
		const struct bench_result *result = bench_result_find(results, v->name);

		if (!v->task_count || v->chip_count || !result || !result->run_count)
			continue;
		s->result[s->count] = result;
		s->tasks[s->count++] = v->task_count;
		if (result->run_count < s->run_count)
			s->run_count = result->run_count;
	}
	if (s->count < 2)
		s->run_count = 0;
}

static int add_fitted(struct bench_result *line, double value, const struct series *s)
{
	const struct bench_run run = {
		.p50 = value, .p99 = (double)NAN, .p999 = (double)NAN, .max = (double)NAN
	};

	if (!line)
		return 0;
	rpi_format(line->text, sizeof(line->text),
		   "fitted to the medians of %.0f to %.0f tasks in each run", s->tasks[0],
		   s->tasks[s->count - 1]);
	return bench_result_run(line, &run);
}

static int finish_tasks(struct bench_results *results)
{
	struct bench_result *fixed = bench_result_find(results, "dispatch.tasks.fixed");
	struct bench_result *marginal =
		bench_result_find(results, "dispatch.tasks.marginal");
	struct series s;
	int err = 0;

	find_series(results, &s);
	for (size_t run = 0; !err && run < s.run_count; run++) {
		double ns[COUNT(variants)], part, slope;

		for (size_t i = 0; i < s.count; i++)
			ns[i] = s.result[i]->runs[run].p50;
		err = bench_fit_line(s.tasks, ns, s.count, &part, &slope);
		if (!err)
			err = add_fitted(fixed, part, &s);
		if (!err)
			err = add_fitted(marginal, slope, &s);
	}
	return err;
}

static int dispatch_finish(struct bench_results *results,
			   const struct bench_options *options)
{
	int err = finish_rate(results);

	(void)options;
	return err ? err : finish_tasks(results);
}

const struct bench_command bench_dispatch_command = {
	.name = "dispatch",
	.summary = "what it costs to have chips run an empty entry",
	.plan = dispatch_plan,
	.finish = dispatch_finish,
};
