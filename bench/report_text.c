/* SPDX-License-Identifier: MIT */
/* The table for people: one line a case, fixed columns, '#' for context. */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

#define CELL_BYTES 32

void bench_report_context(const struct bench_report *report, FILE *out)
{
	const struct bench_machine *m = report->machine;
	const struct bench_options *o = report->options;

	fprintf(out, "# rpbench %s%s%s  %s%s%s  %s  %d cpu%s", m->version,
		m->revision[0] ? " " : "", m->revision, m->compiler,
		m->build_flags[0] ? " " : "", m->build_flags, m->cpu_model, m->cpu_count,
		m->cpu_count == 1 ? "" : "s");
	if (isfinite(m->cpu_quota))
		fprintf(out, " quota=%.2f", m->cpu_quota);
	fprintf(out, "  pages=%s  io_uring=%s", m->pages, m->uring ? "yes" : "no");
	if (!m->uring)
		fprintf(out, " (%s)", m->uring_reason);
	fprintf(out, "\n# %s  clock=%s, %.1f ns a read  cpus %d,%d relation=%s\n",
		m->kernel, m->clock, m->clock_ns, o->cpu[BENCH_PARENT],
		o->cpu[BENCH_PEER], m->relation);
	if (bench_one_cpu(o))
		fprintf(out,
			"# parent and peer share one cpu: a spin yields, and its figures "
			"are those of the scheduler\n");
	fprintf(out, "# warm-up %.0f ms  runs %u x ", report->pace->warm_ms,
		report->pace->run_count);
	if (o->ops)
		fprintf(out, "%" PRIu64 " samples", o->ops);
	else
		fprintf(out, "%.0f ms", report->pace->run_ms);
	if (report->pace->run_count < o->run_count)
		fprintf(out, " (of %u: time was up)", o->run_count);
	fprintf(out, "  seed %" PRIu64 "  work %08" PRIx32 "%s\n", o->seed,
		(uint32_t)(report->results->work ^ report->results->work >> 32),
		o->quick ? "  quick" : "");
}

/* About three digits; "-" for what there is not. */
static const char *number(char cell[CELL_BYTES], double value)
{
	if (!isfinite(value))
		rpi_format(cell, CELL_BYTES, "-");
	else
		rpi_format(cell, CELL_BYTES, "%.*f",
			   value >= 100.0  ? 0
			   : value >= 10.0 ? 1
					   : 2,
			   value);
	return cell;
}

static void print_line(const struct bench_result *r, int width, FILE *out)
{
	char cell[7][CELL_BYTES];
	char ratio[CELL_BYTES] = "-", spread[2 * CELL_BYTES] = "-";

	if (isfinite(r->ratio))
		rpi_format(ratio, sizeof(ratio), "%.2f", r->ratio);
	if (isfinite(r->p50_min) && isfinite(r->p50_max))
		rpi_format(spread, sizeof(spread), "%s..%s", number(cell[5], r->p50_min),
			   number(cell[6], r->p50_max));
	fprintf(out, "%-*s  %-4s %9s %9s %9s %9s %9s %7s  %s\n", width, r->name, r->unit,
		number(cell[0], r->median), number(cell[1], r->p99),
		number(cell[2], r->p999), number(cell[3], r->max),
		number(cell[4], r->limit), ratio, spread);
}

/* What does not fit into a line. */
static void print_remark(const struct bench_result *r, FILE *out)
{
	if (r->skipped) {
		fprintf(out, "# %s: skipped, %s\n", r->name, r->text);
		return;
	}
	if (r->failures)
		fprintf(out, "# %s: %" PRIu64 " failure%s, %s\n", r->name, r->failures,
			r->failures == 1 ? "" : "s", r->text);
	else if (r->text[0])
		fprintf(out, "# %s: %s\n", r->name, r->text);
	if (r->retries)
		fprintf(out, "# %s: %" PRIu64 " retries\n", r->name, r->retries);
	if (r->batch > 1)
		fprintf(out, "# %s: each sample is the mean of %u operations\n", r->name,
			r->batch);
	if (strchr(r->limits, '|') && r->limit_name[0])
		fprintf(out, "# %s: the limit is %s\n", r->name, r->limit_name);
}

int bench_report_text(const struct bench_report *report, FILE *out)
{
	const struct bench_results *results = report->results;
	int width = (int)strlen("case");

	for (size_t i = 0; i < results->count; i++)
		if ((int)strlen(results->all[i]->name) > width)
			width = (int)strlen(results->all[i]->name);

	bench_report_context(report, out);
	fprintf(out, "%-*s  %-4s %9s %9s %9s %9s %9s %7s  %s\n", width, "case", "unit",
		"p50", "p99", "p99.9", "max", "limit", "ratio", "p50 min..max");
	for (size_t i = 0; i < results->count; i++)
		if (!results->all[i]->skipped)
			print_line(results->all[i], width, out);
	for (size_t i = 0; i < results->count; i++)
		print_remark(results->all[i], out);
	return 0;
}
