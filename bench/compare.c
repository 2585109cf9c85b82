/* SPDX-License-Identifier: MIT */
/* rpbench compare: two reports side by side, with the noise of each. */
#include "compare.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "result.h"
#include "stored.h"

struct figure {
	double median, low, high, ratio; /* ratio 0: there is none */
};

#define UNIT_BYTES 16

/* For a terminal, which obeys control characters. */
static const char *plain(const char *text, char *buf, size_t bytes)
{
	rpi_utf8_copy(buf, bytes, text);
	for (char *at = buf; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	return buf;
}

/* One that is not there says nothing: no verdict stands on it. */
static double number_or(const json_t *result, const char *key, double other)
{
	const json_t *value = json_object_get(result, key);

	return json_is_number(value) ? json_number_value(value) : other;
}

static bool read_figure(const json_t *result, struct figure *out)
{
	const json_t *median = json_object_get(result, "median");

	if (!json_is_number(median))
		return false;
	out->median = json_number_value(median);
	out->low = number_or(result, "p50_min", (double)-INFINITY);
	out->high = number_or(result, "p50_max", (double)INFINITY);
	out->ratio = number_or(result, "ratio", 0.0);
	return out->median > 0;
}

static const char *judge(const struct figure *a, const struct figure *b, bool rate)
{
	if (b->low > a->high)
		return rate ? "faster" : "slower";
	if (b->high < a->low)
		return rate ? "slower" : "faster";
	return "";
}

static void put_ratio(FILE *out, double ratio)
{
	if (ratio > 0)
		fprintf(out, " %8.3g", ratio);
	else
		fprintf(out, " %8s", "-");
}

/* One line; true when it moved. */
static bool compare_one(json_t *before, const json_t *after, const char *name, FILE *out)
{
	const char *unit = bench_stored_text(after, "unit");
	char shown[BENCH_NAME_BYTES], shown_unit[UNIT_BYTES];
	json_t *old = bench_stored_find(before, name);
	struct figure a, b;
	const char *verdict;

	if (!read_figure(after, &b))
		return false;
	plain(name, shown, sizeof(shown));
	plain(unit, shown_unit, sizeof(shown_unit));
	if (!old || !read_figure(old, &a)) {
		fprintf(out, "%-36s %-5s %10s %10.4g %9s %8s", shown, shown_unit, "-",
			b.median, "", "-");
		put_ratio(out, b.ratio);
		fputs("  new\n", out);
		return false;
	}
	verdict = judge(&a, &b, bench_unit_is_rate(unit));
	fprintf(out, "%-36s %-5s %10.4g %10.4g %+8.1f%%", shown, shown_unit, a.median,
		b.median, (b.median / a.median - 1) * 100);
	put_ratio(out, a.ratio);
	put_ratio(out, b.ratio);
	fprintf(out, "%s%s\n", *verdict ? "  " : "", verdict);
	return *verdict;
}

static void compare_all(json_t *before, json_t *after, FILE *out)
{
	size_t moved = 0, gone = 0, i;
	json_t *result;

	fprintf(out, "%-36s %-5s %10s %10s %9s %8s %8s\n", "name", "unit", "before",
		"after", "change", "ratio", "ratio");
	json_array_foreach(after, i, result)
	{
		const char *name = json_string_value(json_object_get(result, "name"));

		if (name)
			moved += compare_one(before, result, name, out);
	}
	json_array_foreach(before, i, result)
	{
		const char *name = json_string_value(json_object_get(result, "name"));
		char shown[BENCH_NAME_BYTES];

		if (!name || bench_stored_find(after, name))
			continue;
		fprintf(out, "# %s: gone\n", plain(name, shown, sizeof(shown)));
		gone++;
	}
	fprintf(out,
		"# %zu moved beyond the noise of their runs, %zu are gone. Where a ratio "
		"stayed,\n# the machine moved: the figure went with its limit.\n",
		moved, gone);
}

int bench_compare(const char *before, const char *after, FILE *out)
{
	json_t *a = bench_stored_load(before, "compare"),
	       *b = a ? bench_stored_load(after, "compare") : NULL;

	if (b)
		compare_all(json_object_get(a, "results"), json_object_get(b, "results"),
			    out);
	json_decref(a);
	json_decref(b);
	return b ? 0 : -EINVAL;
}
