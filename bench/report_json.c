/* SPDX-License-Identifier: MIT */
/*
 * {"machine": {...}, "results": [{...}, ...]}. A figure that does not exist is
 * null: JSON has neither NaN nor infinity.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>

#include "base/error.h"
#include "stored.h"

static json_t *number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text_or_null(const char *text)
{
	return text[0] ? bench_stored_string(text) : json_null();
}

static json_t *result_object(const struct bench_result *r)
{
	json_t *runs = json_array();

	for (size_t i = 0; runs && i < r->run_count; i++)
		json_array_append_new(runs, number(r->runs[i].p50));
	/* The six of the contract first. */
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o,"
			 " s:o, s:o, s:o, s:o, s:I, s:I, s:i, s:I, s:I, s:o, s:o, s:o}",
			 "name", r->name, "unit", r->unit, "median", number(r->median),
			 "p99", number(r->p99), "limit", number(r->limit), "ratio",
			 number(r->ratio), "p50_min", number(r->p50_min), "p50_max",
			 number(r->p50_max), "p999", number(r->p999), "max",
			 number(r->max), "runs", (json_int_t)r->run_count, "ops",
			 (json_int_t)r->ops, "batch", (int)r->batch, "failures",
			 (json_int_t)r->failures, "retries", (json_int_t)r->retries,
			 "limit_name", text_or_null(r->limit_name), "remark",
			 text_or_null(r->text), "run_p50", runs);
}

/* Names that this machine could not measure, each with its reason. */
static json_t *skipped_object(const struct bench_results *results)
{
	json_t *skipped = json_object();

	for (size_t i = 0; skipped && i < results->count; i++)
		if (results->all[i]->skipped)
			json_object_set_new(skipped, results->all[i]->name,
					    bench_stored_string(results->all[i]->text));
	return skipped;
}

static json_t *machine_object(const struct bench_report *report)
{
	const struct bench_machine *m = report->machine;
	const struct bench_options *o = report->options;
	char work[32], seed[32];

	rpi_format(work, sizeof(work), "%08" PRIx32,
		   (uint32_t)(report->results->work ^ report->results->work >> 32));
	rpi_format(seed, sizeof(seed), "%" PRIu64, o->seed);
	return json_pack(
		"{s:s, s:o, s:s, s:s, s:s, s:s, s:i, s:o, s:s, s:b, s:o, s:[i,i], s:s,"
		" s:b, s:s, s:o, s:b, s:o, s:i, s:o, s:o, s:s, s:s, s:o}",
		"version", m->version, "revision", text_or_null(m->revision), "compiler",
		m->compiler, "build_flags", m->build_flags, "cpu", m->cpu_model, "kernel",
		m->kernel, "cpus", m->cpu_count, "cpu_quota", number(m->cpu_quota),
		"pages", m->pages, "io_uring", (int)m->uring, "io_uring_reason",
		text_or_null(m->uring_reason), "pinned", o->cpu[BENCH_PARENT],
		o->cpu[BENCH_PEER], "relation", m->relation, "one_cpu",
		(int)bench_one_cpu(o), "clock", m->clock, "clock_ns", number(m->clock_ns),
		"quick", (int)o->quick, "warm_up_ms", number(report->pace->warm_ms),
		"runs", (int)report->pace->run_count, "run_ms",
		o->ops ? json_null() : number(report->pace->run_ms), "run_ops",
		o->ops ? json_integer((json_int_t)o->ops) : json_null(), "seed", seed,
		"work", work, "skipped", skipped_object(report->results));
}

json_t *bench_report_object(const struct bench_report *report)
{
	json_t *results = json_array();

	for (size_t i = 0; results && i < report->results->count; i++)
		if (!report->results->all[i]->skipped)
			json_array_append_new(results,
					      result_object(report->results->all[i]));
	return json_pack("{s:o, s:o}", "machine", machine_object(report), "results",
			 results);
}

int bench_report_json(const struct bench_report *report, FILE *out)
{
	json_t *root = bench_report_object(report);
	int err = 0;

	if (!root || json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(7)) ||
	    fputc('\n', out) == EOF)
		err = rpi_fail(-EIO, "--json: the report could not be written");
	json_decref(root);
	return err;
}
