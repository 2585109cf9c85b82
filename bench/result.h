/* SPDX-License-Identifier: MIT */
/*
 * What was found: one result a name, with the figures of each of its runs.
 * Everything is in the unit of the result. A line of rates is made from times:
 * its p99 is the rate at the p99 of the time, so that in each line the columns
 * run from the usual to the bad.
 */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_NAME_BYTES 64
#define BENCH_TEXT_BYTES 256

/* One run; NAN stands for "there is none". */
struct bench_run {
	double p50, p99, p999, max;
};

struct bench_result {
	char name[BENCH_NAME_BYTES];
	char unit[8];			   /* "ns", "GB/s", "1/s" */
	char limits[2 * BENCH_NAME_BYTES]; /* names parted by '|'; the best counts */

	struct bench_run *runs;
	size_t run_count;
	uint64_t ops;	    /* samples in a run */
	unsigned int batch; /* operations behind one sample; above 1: their mean */
	uint64_t failures, retries;
	bool skipped;
	char text[BENCH_TEXT_BYTES]; /* why skipped, what failed, or a remark */

	/* Filled by bench_results_summarise(). NAN: none. */
	double median, p99, p999, max, p50_min, p50_max, limit, ratio;
	char limit_name[BENCH_NAME_BYTES]; /* the one of `limits` that was taken */
};

struct bench_results {
	struct bench_result **all;
	size_t count;
	uint64_t work; /* checksum of all that was measured */
};

bool bench_unit_is_rate(const char *unit);

/* Asserts that the name is new. NULL: no memory. */
struct bench_result *bench_result_add(struct bench_results *results, const char *name,
				      const char *unit, const char *limits);
struct bench_result *bench_result_find(const struct bench_results *results,
				       const char *name);

/* Append the figures of one run. 0 or -ENOMEM. */
int bench_result_run(struct bench_result *result, const struct bench_run *run);

/* Count a failure; the first text is kept. */
void bench_result_fail(struct bench_result *result, const char *text);

/*
 * Medians over runs, the spread, limit and ratio of every result. Percentiles are
 * never averaged: a p99 here is the median of the p99 that the runs had.
 */
int bench_results_summarise(struct bench_results *results);

uint64_t bench_results_failures(const struct bench_results *results);
void bench_results_free(struct bench_results *results);

#endif
