/* SPDX-License-Identifier: MIT */
#include "result.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sample.h"

bool bench_unit_is_rate(const char *unit)
{
	return strstr(unit, "/s") != NULL;
}

struct bench_result *bench_result_find(const struct bench_results *results,
				       const char *name)
{
	for (size_t i = 0; i < results->count; i++)
		if (!strcmp(results->all[i]->name, name))
			return results->all[i];
	return NULL;
}

struct bench_result *bench_result_add(struct bench_results *results, const char *name,
				      const char *unit, const char *limits)
{
	struct bench_result **grown, *result;

	assert(!bench_result_find(results, name));
	assert(strlen(name) < BENCH_NAME_BYTES);
	grown = realloc(results->all, (results->count + 1) * sizeof(*grown));
	if (!grown)
		goto no_memory;
	results->all = grown;
	result = calloc(1, sizeof(*result));
	if (!result)
		goto no_memory;
	rpi_format(result->name, sizeof(result->name), "%s", name);
	rpi_format(result->unit, sizeof(result->unit), "%s", unit);
	rpi_format(result->limits, sizeof(result->limits), "%s", limits ? limits : "");
	result->batch = 1;
	results->all[results->count++] = result;
	return result;

no_memory:
	rpi_fail(-ENOMEM, "results: no memory for %s", name);
	return NULL;
}

int bench_result_run(struct bench_result *result, const struct bench_run *run)
{
	struct bench_run *grown =
		realloc(result->runs, (result->run_count + 1) * sizeof(*grown));

	if (!grown)
		return rpi_fail(-ENOMEM, "results: no memory for a run of %s",
				result->name);
	result->runs = grown;
	result->runs[result->run_count++] = *run;
	return 0;
}

void bench_result_fail(struct bench_result *result, const char *text)
{
	if (!result->failures++)
		rpi_format(result->text, sizeof(result->text), "%s", text);
}

enum run_field {
	RUN_P50,
	RUN_P99,
	RUN_P999,
	RUN_MAX
};

static double run_value(const struct bench_run *run, enum run_field field)
{
	switch (field) {
	case RUN_P50:
		return run->p50;
	case RUN_P99:
		return run->p99;
	case RUN_P999:
		return run->p999;
	case RUN_MAX:
		break;
	}
	return run->max;
}

/* The values of one field over the runs that have it; how many. */
static size_t gather(const struct bench_result *result, enum run_field field,
		     double *values)
{
	size_t n = 0;

	for (size_t i = 0; i < result->run_count; i++) {
		double value = run_value(&result->runs[i], field);

		if (isfinite(value))
			values[n++] = value;
	}
	return n;
}

/* Median and spread of one result over its runs. `values` has room for all. */
static void summarise_runs(struct bench_result *result, double *values)
{
	bool rate = bench_unit_is_rate(result->unit);
	size_t n;

	result->p99 = bench_median(values, gather(result, RUN_P99, values));
	result->p999 = bench_median(values, gather(result, RUN_P999, values));

	/* The worst of all runs: the longest time, the lowest rate. */
	n = gather(result, RUN_MAX, values);
	result->max = n ? values[0] : (double)NAN;
	for (size_t i = 1; i < n; i++)
		result->max = rate ? fmin(result->max, values[i])
				   : fmax(result->max, values[i]);

	n = gather(result, RUN_P50, values);
	result->median = bench_median(values, n); /* sorts them */
	result->p50_min = n ? values[0] : (double)NAN;
	result->p50_max = n ? values[n - 1] : (double)NAN;
}

/* The best of the named limits that was measured in this run. */
static void choose_limit(const struct bench_results *results, struct bench_result *result)
{
	bool rate = bench_unit_is_rate(result->unit);
	char names[sizeof(result->limits)], *next = names, *name;

	result->limit = (double)NAN;
	result->ratio = (double)NAN;
	rpi_format(names, sizeof(names), "%s", result->limits);
	while ((name = strsep(&next, "|"))) {
		const struct bench_result *limit = bench_result_find(results, name);

		if (!limit || !isfinite(limit->median))
			continue;
		assert(!strcmp(limit->unit, result->unit));
		if (isfinite(result->limit) && (rate ? limit->median <= result->limit
						     : limit->median >= result->limit))
			continue;
		result->limit = limit->median;
		rpi_format(result->limit_name, sizeof(result->limit_name), "%s", name);
	}
	if (isfinite(result->limit) && result->limit > 0.0 && isfinite(result->median))
		result->ratio = result->median / result->limit;
}

int bench_results_summarise(struct bench_results *results)
{
	size_t most = 1;
	double *values;

	for (size_t i = 0; i < results->count; i++)
		if (results->all[i]->run_count > most)
			most = results->all[i]->run_count;
	values = calloc(most, sizeof(*values));
	if (!values)
		return rpi_fail(-ENOMEM, "results: no memory to summarise %zu runs",
				most);
	for (size_t i = 0; i < results->count; i++)
		summarise_runs(results->all[i], values);
	for (size_t i = 0; i < results->count; i++)
		choose_limit(results, results->all[i]);
	free(values);
	return 0;
}

uint64_t bench_results_failures(const struct bench_results *results)
{
	uint64_t failures = 0;

	for (size_t i = 0; i < results->count; i++)
		failures += results->all[i]->failures;
	return failures;
}

void bench_results_free(struct bench_results *results)
{
	for (size_t i = 0; i < results->count; i++) {
		free(results->all[i]->runs);
		free(results->all[i]);
	}
	free(results->all);
	memset(results, 0, sizeof(*results));
}
