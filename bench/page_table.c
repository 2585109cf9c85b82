/* SPDX-License-Identifier: MIT */
/* The figures of a section as a table, for those who want the number. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "figure.h"
#include "markup.h"
#include "page.h"
#include "stored.h"

/* About three digits, and a unit that suits the number. */
static void quantity(FILE *out, double value, const char *unit)
{
	static const char *const times[] = { "ns", "us", "ms", "s" };
	size_t step = 0;

	if (!isfinite(value)) {
		fputs("-", out);
		return;
	}
	if (!strcmp(unit, "ns"))
		for (; step < 3 && fabs(value) >= 9999.5; step++)
			value /= 1000.0;
	fprintf(out, "%.*f ",
		fabs(value) >= 100.0  ? 0
		: fabs(value) >= 10.0 ? 1
				      : 2,
		value);
	markup_text(out, strcmp(unit, "ns") ? unit : times[step]);
}

static void cell(FILE *out, const json_t *result, const char *key, const char *unit)
{
	fputs("<td>", out);
	quantity(out, bench_stored_number(result, key), unit);
	fputs("</td>", out);
}

static void row(const json_t *result, FILE *out)
{
	const char *unit = bench_stored_text(result, "unit");
	double ratio = bench_stored_number(result, "ratio");

	fputs("<tr><td>", out);
	markup_text(out, bench_stored_text(result, "name"));
	fputs("</td>", out);
	cell(out, result, "median", unit);
	fputs("<td>", out);
	quantity(out, bench_stored_number(result, "limit"), unit);
	if (bench_stored_text(result, "limit_name")[0]) {
		fputs("<small>", out);
		markup_text(out, bench_stored_text(result, "limit_name"));
		fputs("</small>", out);
	}
	if (isfinite(ratio))
		fprintf(out, "</td><td>%.2f</td>", ratio);
	else
		fputs("</td><td>-</td>", out);
	cell(out, result, "p50_min", unit);
	cell(out, result, "p50_max", unit);
	cell(out, result, "p99", unit);
	cell(out, result, "p999", unit);
	cell(out, result, "max", unit);
	fputs("</tr>\n", out);
}

static bool is_in(const char *name, const char *section)
{
	char its[32];

	bench_section_of(name, its, sizeof(its));
	return !strcmp(its, section);
}

static void note(FILE *out, const char *name, const char *before, const char *what,
		 bool bad)
{
	fprintf(out, "<li%s>", bad ? " class=\"bad\"" : "");
	markup_text(out, name);
	fputs(": ", out);
	fputs(before, out);
	markup_text(out, what);
	fputs("</li>\n", out);
}

static void notes(const json_t *stored, const char *section, FILE *out)
{
	json_t *skipped = json_object_get(json_object_get(stored, "machine"), "skipped");
	const json_t *result;
	json_t *why;
	const char *name;
	size_t i;

	fputs("<ul class=\"notes\">\n", out);
	json_array_foreach(json_object_get(stored, "results"), i, result)
	{
		bool bad = bench_stored_number(result, "failures") > 0.0;

		name = bench_stored_text(result, "name");
		if (is_in(name, section) &&
		    (bad || bench_stored_text(result, "remark")[0]))
			note(out, name, bad ? "failed, " : "",
			     bench_stored_text(result, "remark"), bad);
	}
	json_object_foreach(skipped, name, why)
	{
		if (is_in(name, section))
			note(out, name, "skipped, ",
			     json_string_value(why) ? json_string_value(why) : "", false);
	}
	fputs("</ul>\n", out);
}

void page_table(const json_t *stored, const char *section, FILE *out)
{
	const json_t *result;
	size_t i;

	fputs("<div class=\"wide\"><table><thead><tr><th>Name</th><th>Median</th>"
	      "<th>Limit</th><th>Ratio</th><th>Least run</th><th>Most</th><th>p99</th>"
	      "<th>p99.9</th><th>Worst</th></tr></thead><tbody>\n",
	      out);
	json_array_foreach(json_object_get(stored, "results"), i, result)
	{
		if (is_in(bench_stored_text(result, "name"), section))
			row(result, out);
	}
	fputs("</tbody></table></div>\n", out);
	notes(stored, section, out);
}
