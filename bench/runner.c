/* SPDX-License-Identifier: MIT */
/*
 * A run of a case is SLICES pieces; in each round every case does one piece.
 * With four slices a limit and the case that is judged by it are never further
 * apart than a quarter of a run. A short stretch before each piece goes to other
 * samples: it brings back the caches that the case before has taken.
 */
#include "runner.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "progress.h"

#define SLICES	      4

#define RUN_MS	      150.0 /* for a case in a run, in full */
#define WARM_MS	      50.0
#define QUICK_MS      8000.0 /* for all cases and runs together */
#define QUICK_WARM_MS 10.0
#define QUICK_END_MS  10500.0 /* no further slice begins after this */
#define QUICK_ALL_MS  10000.0 /* all runs are planned to be over by then */
#define QUICK_MIN_MS  10.0    /* for a case in a run, however late it is */
#define HURRY	      16      /* a slice after the end is so much smaller */
#define PRIME_OPS     1000

struct lane {
	struct bench_case *c;
	struct bench_result *result;
	struct bench_samples samples;
	uint64_t ops; /* in a run */
	uint64_t work;
	bool open, alive;
};

struct runner {
	const struct bench_options *options;
	struct bench_results *results;
	struct bench_pace pace;
	struct lane *lanes;
	size_t lane_count;
	struct bench_samples scratch; /* warm-up and priming */
	unsigned int turns;	      /* slices that each lane has done */
	uint64_t turn_ns, work_ns;    /* the last turn, and what rounds took of it */
	uint64_t begin_ns;
};

static bool time_is_up(const struct runner *r)
{
	return r->options->quick &&
	       (double)(rpi_now_ns() - r->begin_ns) > QUICK_END_MS * 1e6;
}

static void lane_fail(struct lane *lane, int err)
{
	char text[BENCH_TEXT_BYTES];

	rpi_format(text, sizeof(text), "%s",
		   rp_last_error()[0] ? rp_last_error() : strerror(-err));
	bench_result_fail(lane->result, text);
	lane->alive = false;
}

static int lane_open(struct runner *r, struct lane *lane, struct bench_case *c)
{
	int err;

	lane->c = c;
	c->options = r->options;
	lane->result = bench_result_add(r->results, c->name, c->unit, c->limits);
	if (!lane->result)
		return -ENOMEM;
	lane->result->batch = c->batch > 1 ? c->batch : 1;
	rpi_error_set("");
	err = c->setup ? c->setup(c) : 0;
	if (err == BENCH_SKIP) {
		lane->result->skipped = true;
		rpi_format(lane->result->text, sizeof(lane->result->text), "%s",
			   rp_last_error());
	} else if (err) {
		lane_fail(lane, err);
	} else {
		lane->open = lane->alive = true;
	}
	return 0;
}

/* Do `ops` into `samples`; negative errno after the lane has been marked. */
static int lane_round(struct runner *r, struct lane *lane, struct bench_samples *samples,
		      uint64_t ops, bool counted)
{
	struct bench_round round = { .ops = ops,
				     .seed = r->options->seed,
				     .samples = samples };
	int err;

	rpi_error_set("");
	err = lane->c->round(lane->c, &round);
	/* What fails in warm-up has failed too; only its time does not count. */
	lane->result->failures += round.failures;
	if (round.failures && !lane->result->text[0])
		rpi_format(lane->result->text, sizeof(lane->result->text), "%s",
			   rp_last_error());
	if (counted) {
		lane->result->retries += round.retries;
		lane->work = (lane->work ^ round.work) * 0x100000001b3u;
	}
	if (err)
		lane_fail(lane, err);
	return err;
}

static int lane_enter(struct lane *lane)
{
	int err;

	rpi_error_set("");
	err = lane->c->enter ? lane->c->enter(lane->c) : 0;
	if (err)
		lane_fail(lane, err);
	return err;
}

static void set_ops(const struct runner *r, struct lane *lane, double per_op_ns)
{
	uint64_t most = lane->c->ops_max ? lane->c->ops_max : BENCH_OPS_MAX;
	double wish = r->options->ops ? (double)r->options->ops
				      : r->pace.run_ms * 1e6 / per_op_ns;

	lane->ops = wish < 1.0 ? 1 : wish > (double)most ? most : (uint64_t)wish;
}

/* Doubles the operations until warm_ms are spent, then knows how many a run has: by
 * all rounds but the slowest, which may have met something else on its CPU. */
static void lane_work_in(struct runner *r, struct lane *lane)
{
	uint64_t begin = rpi_now_ns(), before = begin, after, slowest_ns = 0;
	uint64_t most = lane->c->ops_max ? lane->c->ops_max : BENCH_OPS_MAX;
	uint64_t ops = 1, done = 0, slowest_ops = 0;
	double counted_ns = 0.0;

	do {
		r->scratch.count = 0;
		if (lane_round(r, lane, &r->scratch, ops, false))
			return;
		after = rpi_now_ns();
		done += ops;
		if (after - before >= slowest_ns) {
			slowest_ns = after - before;
			slowest_ops = ops;
		}
		counted_ns = (double)(after - begin - slowest_ns);
		if (ops < most)
			ops *= 2;
		before = after;
		/* With the operations given it is enough to have done as many. */
		if (r->options->quick && r->options->ops && done >= r->options->ops)
			break;
	} while (done == slowest_ops ||
		 (counted_ns < r->pace.warm_ms * 1e6 && !time_is_up(r)));
	set_ops(r, lane, counted_ns / (double)(done - slowest_ops));
}

static void lane_warm_up(struct runner *r, struct lane *lane)
{
	if (lane_enter(lane))
		return;
	lane_work_in(r, lane);
	if (lane->c->leave)
		lane->c->leave(lane->c);
	if (lane->alive && bench_samples_init(&lane->samples, lane->ops))
		lane_fail(lane, -ENOMEM);
}

/* What a quick run needs besides its operations is known after a turn only, and so
 * is what other processes take. */
static void shrink_to_fit(struct runner *r)
{
	double turns_left = (double)SLICES * r->options->run_count - ++r->turns;
	double left_ns = QUICK_ALL_MS * 1e6 - (double)(rpi_now_ns() - r->begin_ns);
	double scale;

	if (!r->options->quick || r->options->ops || turns_left <= 0.0)
		return;
	scale = (left_ns / turns_left - (double)(r->turn_ns - r->work_ns)) /
		(double)r->work_ns;
	if (scale >= 1.0)
		return;
	/* Fewer runs are better than runs of next to nothing. */
	scale = fmax(scale, QUICK_MIN_MS / r->pace.run_ms);
	if (scale >= 1.0)
		return;
	r->pace.run_ms *= scale;
	for (size_t i = 0; i < r->lane_count; i++)
		if (r->lanes[i].ops > SLICES)
			r->lanes[i].ops =
				(uint64_t)fmax((double)r->lanes[i].ops * scale, SLICES);
}

static void lane_slice(struct runner *r, struct lane *lane, unsigned int slice)
{
	uint64_t ops = lane->ops * (slice + 1) / SLICES - lane->ops * slice / SLICES;
	uint64_t prime, begin;

	if (!lane->alive || !ops)
		return;
	if (time_is_up(r))
		ops = (ops + HURRY - 1) / HURRY;
	prime = ops / 8 < PRIME_OPS ? ops / 8 : PRIME_OPS;
	if (lane_enter(lane))
		return;
	begin = rpi_now_ns();
	r->scratch.count = 0;
	if (!prime || !lane_round(r, lane, &r->scratch, prime, false))
		lane_round(r, lane, &lane->samples, ops, true);
	r->work_ns += rpi_now_ns() - begin;
	if (lane->c->leave)
		lane->c->leave(lane->c);
}

/* From a time of one sample to the unit of the case. */
static double to_unit(const struct bench_case *c, double ns)
{
	if (!bench_unit_is_rate(c->unit) || !isfinite(ns))
		return ns;
	if (ns <= 0.0)
		return (double)NAN;
	return c->per_sample / ns * (strcmp(c->unit, "GB/s") ? 1e9 : 1.0);
}

static void lane_end_run(struct lane *lane)
{
	struct bench_quantiles q;
	struct bench_run run;

	lane->result->ops = lane->ops;
	if (lane->alive && !bench_samples_quantiles(&lane->samples, &q)) {
		run.p50 = to_unit(lane->c, q.p50);
		run.p99 = to_unit(lane->c, q.p99);
		run.p999 = to_unit(lane->c, q.p999);
		run.max = to_unit(lane->c, q.max);
		if (bench_result_run(lane->result, &run))
			lane_fail(lane, -ENOMEM);
	}
	lane->samples.count = 0;
}

/* One run of every case; false when the time was up before its end. A run that
 * is not whole is thrown away: it would weigh slices unevenly. */
static bool run_once(struct runner *r, unsigned int run)
{
	for (unsigned int slice = 0; slice < SLICES; slice++) {
		uint64_t begin = rpi_now_ns();

		r->work_ns = 0;
		for (size_t i = 0; i < r->lane_count; i++) {
			struct lane *lane = &r->lanes[i];

			/* The first run is finished in any case, in a hurry. */
			if (run && time_is_up(r))
				return false;
			bench_progress("run %u of %u  %s", run + 1, r->options->run_count,
				       lane->c->name);
			lane_slice(r, lane, slice);
		}
		r->turn_ns = rpi_now_ns() - begin;
		shrink_to_fit(r);
	}
	for (size_t i = 0; i < r->lane_count; i++)
		lane_end_run(&r->lanes[i]);
	return true;
}

static int open_lanes(struct runner *r, struct bench_plan *plan)
{
	for (size_t i = 0; i < plan->case_count; i++) {
		bench_progress("set-up  %s", plan->cases[i].name);
		if (lane_open(r, &r->lanes[i], &plan->cases[i]))
			return -ENOMEM;
		r->lane_count++;
	}
	return 0;
}

static void close_lanes(struct runner *r)
{
	for (size_t i = 0; i < r->lane_count; i++) {
		struct lane *lane = &r->lanes[i];

		if (lane->open && lane->c->teardown)
			lane->c->teardown(lane->c);
		if (lane->open && !lane->result->failures)
			rpi_format(lane->result->text, sizeof(lane->result->text), "%s",
				   lane->c->remark);
		bench_samples_free(&lane->samples);
		r->results->work = (r->results->work ^ lane->work) * 0x100000001b3u;
	}
}

static void set_pace(struct runner *r, size_t case_count)
{
	const struct bench_options *o = r->options;

	r->pace.run_ms = RUN_MS;
	r->pace.warm_ms = WARM_MS;
	if (!o->quick || !case_count)
		return;
	r->pace.run_ms = fmin(RUN_MS, QUICK_MS / (double)(case_count * o->run_count));
	r->pace.warm_ms = QUICK_WARM_MS;
}

int bench_runner_run(struct bench_plan *plan, const struct bench_options *options,
		     struct bench_results *results, struct bench_pace *pace_out)
{
	struct runner r = { .options = options,
			    .results = results,
			    .begin_ns = rpi_now_ns() };
	int err;

	set_pace(&r, plan->case_count);
	r.lanes = calloc(plan->case_count + 1, sizeof(*r.lanes));
	if (!r.lanes)
		return rpi_fail(-ENOMEM, "runner: no memory for %zu cases",
				plan->case_count);
	err = bench_samples_init(&r.scratch, BENCH_OPS_MAX);
	if (!err)
		err = open_lanes(&r, plan);
	for (size_t i = 0; !err && i < r.lane_count; i++) {
		bench_progress("warm-up  %s", r.lanes[i].c->name);
		if (r.lanes[i].alive)
			lane_warm_up(&r, &r.lanes[i]);
	}
	while (!err && r.pace.run_count < options->run_count &&
	       run_once(&r, r.pace.run_count))
		r.pace.run_count++;
	bench_progress_erase();
	close_lanes(&r);
	bench_samples_free(&r.scratch);
	free(r.lanes);
	*pace_out = r.pace;
	return err;
}
