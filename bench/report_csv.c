/* SPDX-License-Identifier: MIT */
/* The same fields as the JSON, one line a case; an empty field is "none". */
#include "report.h"

#include <inttypes.h>
#include <math.h>

static void print_number(double value, FILE *out)
{
	if (isfinite(value))
		fprintf(out, ",%.7g", value);
	else
		fputc(',', out);
}

int bench_report_csv(const struct bench_report *report, FILE *out)
{
	bench_report_context(report, out);
	fputs("name,unit,median,p99,limit,ratio,p50_min,p50_max,p999,max,runs,ops,batch,"
	      "failures,retries\n",
	      out);
	for (size_t i = 0; i < report->results->count; i++) {
		const struct bench_result *r = report->results->all[i];

		if (r->skipped) {
			fprintf(out, "# %s: skipped, %s\n", r->name, r->text);
			continue;
		}
		fprintf(out, "%s,%s", r->name, r->unit);
		print_number(r->median, out);
		print_number(r->p99, out);
		print_number(r->limit, out);
		print_number(r->ratio, out);
		print_number(r->p50_min, out);
		print_number(r->p50_max, out);
		print_number(r->p999, out);
		print_number(r->max, out);
		fprintf(out, ",%zu,%" PRIu64 ",%u,%" PRIu64 ",%" PRIu64 "\n",
			r->run_count, r->ops, r->batch, r->failures, r->retries);
	}
	return 0;
}
