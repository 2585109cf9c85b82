/* SPDX-License-Identifier: MIT */
/* Runs a plan: every case in turn, in thin slices, so that what the host does to
 * the machine meets a figure and its limit alike. */
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

#include "case.h"
#include "options.h"
#include "result.h"

/* How the time was spent, for the header of a report. */
struct bench_pace {
	unsigned int run_count; /* complete ones; fewer than asked if time ran out */
	double run_ms;		/* aimed at, for a case in a run */
	double warm_ms;
};

/*
 * The caller has been pinned and has a result for no name of the plan. On return
 * every case has a result; failures stand in the results. Negative errno only
 * where nothing could be measured at all.
 */
int bench_runner_run(struct bench_plan *plan, const struct bench_options *options,
		     struct bench_results *results, struct bench_pace *pace_out);

#endif
