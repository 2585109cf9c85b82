/* SPDX-License-Identifier: MIT */
#include "reset_derive.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "result.h"
#include "sample.h"

#define DERIVED_MAX 128
#define LOOPS_BYTES 192
#define RUNS_MAX    1024

static struct derived {
	char name[BENCH_NAME_BYTES], limit[BENCH_NAME_BYTES];
	char of[LOOPS_BYTES]; /* parted by '|': the fastest of them */
	char less[BENCH_NAME_BYTES];
	char needs[2 * LOOPS_BYTES];
	double bytes;
} derived[DERIVED_MAX];
static size_t derived_count;

void reset_derive_begin(void)
{
	derived_count = 0;
}

static struct derived *new_derived(const struct reset_size *size)
{
	struct derived *d = &derived[derived_count++];

	assert(derived_count <= DERIVED_MAX);
	memset(d, 0, sizeof(*d));
	d->bytes = size->bytes;
	return d;
}

static int add(struct bench_plan *plan, struct derived *d)
{
	rpi_format(d->needs, sizeof(d->needs), "%s%s%s", d->of, d->less[0] ? "|" : "",
		   d->less);
	return bench_plan_derive(plan, d->name, "ns", d->limit[0] ? d->limit : NULL,
				 d->needs);
}

static void limit_by_zero(struct derived *d, const struct reset_size *size)
{
	rpi_format(d->limit, sizeof(d->limit), "reset.zero.%s%s", size->name,
		   size->chips);
}

int reset_derive_zero(struct bench_plan *plan, const struct reset_size *size)
{
	static const char *const loops[] = { "memset", "stream", "chunk", "ahead" };
	struct derived *d = new_derived(size);
	size_t used = 0;

	rpi_format(d->name, sizeof(d->name), "reset.zero.%s%s", size->name, size->chips);
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
		used += (size_t)rpi_format(d->of + used, sizeof(d->of) - used,
					   "%sreset.zero.%s.%s%s", i ? "|" : "",
					   size->name, loops[i], size->chips);
	return add(plan, d);
}

int reset_derive_added(struct bench_plan *plan, const struct reset_size *size)
{
	struct derived *d = new_derived(size);

	rpi_format(d->name, sizeof(d->name), "reset.%s.added%s", size->name, size->chips);
	if (size->timed)
		rpi_format(d->of, sizeof(d->of), "reset.%s.reset%s", size->name,
			   size->chips);
	else
		rpi_format(d->of, sizeof(d->of), "reset.%s%s.bandwidth", size->name,
			   size->chips);
	rpi_format(d->less, sizeof(d->less), "reset.%s.off%s", size->name, size->chips);
	limit_by_zero(d, size);
	return add(plan, d);
}

int reset_derive_less(struct bench_plan *plan, const struct reset_size *size,
		      const char *name, const char *of, const char *less)
{
	struct derived *d = new_derived(size);

	rpi_format(d->name, sizeof(d->name), "reset.%s.%s%s", size->name, name,
		   size->chips);
	rpi_format(d->of, sizeof(d->of), "reset.%s.%s%s", size->name, of, size->chips);
	if (less)
		rpi_format(d->less, sizeof(d->less), "reset.%s.%s%s", size->name, less,
			   size->chips);
	else
		rpi_format(d->less, sizeof(d->less), "reset.nodomain%s", size->chips);
	limit_by_zero(d, size);
	return add(plan, d);
}

/* The time of a run, in ns, of a line of either unit. */
static double run_ns(const struct bench_result *result, size_t run, double bytes)
{
	double value = result->runs[run].p50;

	return bench_unit_is_rate(result->unit) ? bytes / value : value;
}

static double median_ns(const struct bench_result *result, double bytes)
{
	double values[RUNS_MAX];
	size_t n = 0;

	for (size_t run = 0; run < result->run_count && n < RUNS_MAX; run++)
		values[n++] = run_ns(result, run, bytes);
	return bench_median(values, n);
}

/* The one of those names with the shortest median; NULL when none was measured. */
static const struct bench_result *fastest(const struct bench_results *results,
					  const char *names, double bytes)
{
	const struct bench_result *best = NULL;
	char copy[LOOPS_BYTES], *next = copy, *name;

	rpi_format(copy, sizeof(copy), "%s", names);
	while ((name = strsep(&next, "|"))) {
		const struct bench_result *result = bench_result_find(results, name);

		if (result && result->run_count &&
		    (!best || median_ns(result, bytes) < median_ns(best, bytes)))
			best = result;
	}
	return best;
}

static int finish_one(const struct derived *d, struct bench_results *results)
{
	struct bench_result *line = bench_result_find(results, d->name);
	const struct bench_result *of = fastest(results, d->of, d->bytes);
	const struct bench_result *less = d->less[0] ? bench_result_find(results, d->less)
						     : NULL;
	size_t run_count;
	int err = 0;

	if (!line || !of || (d->less[0] && !less))
		return 0;
	run_count = less && less->run_count < of->run_count ? less->run_count
							    : of->run_count;
	for (size_t run = 0; !err && run < run_count; run++) {
		struct bench_run got = { .p50 = run_ns(of, run, d->bytes),
					 .p99 = (double)NAN,
					 .p999 = (double)NAN,
					 .max = (double)NAN };

		if (less)
			got.p50 -= run_ns(less, run, d->bytes);
		err = bench_result_run(line, &got);
	}
	line->ops = of->ops;
	rpi_format(line->text, sizeof(line->text), "%s%s%s", of->name,
		   less ? " less " : "", less ? less->name : "");
	return err;
}

int reset_derive_finish(struct bench_results *results,
			const struct bench_options *options)
{
	int err = 0;

	(void)options;
	for (size_t i = 0; !err && i < derived_count; i++)
		err = finish_one(&derived[i], results);
	return err;
}
