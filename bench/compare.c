/* SPDX-License-Identifier: MIT */
/* rpbench compare: two reports side by side, with the noise of each. */
#include "compare.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "result.h"

struct figure {
	double median, low, high, ratio; /* ratio 0: there is none */
};

static json_t *load(const char *path)
{
	json_error_t error;
	json_t *root = json_load_file(path, 0, &error);

	if (!root) {
		rpi_fail(-EINVAL, "compare: '%s': %s", path, error.text);
		return NULL;
	}
	if (json_is_array(json_object_get(root, "results")))
		return root;
	rpi_fail(-EINVAL, "compare: '%s' has no results, expected a report of --json",
		 path);
	json_decref(root);
	return NULL;
}

static json_t *find(json_t *results, const char *name)
{
	json_t *result;
	size_t i;

	json_array_foreach(results, i, result)
	{
		const char *its = json_string_value(json_object_get(result, "name"));

		if (its && !strcmp(its, name))
			return result;
	}
	return NULL;
}

static bool read_figure(const json_t *result, struct figure *out)
{
	const json_t *median = json_object_get(result, "median");

	if (!json_is_number(median))
		return false;
	out->median = json_number_value(median);
	out->low = json_number_value(json_object_get(result, "p50_min"));
	out->high = json_number_value(json_object_get(result, "p50_max"));
	out->ratio = json_number_value(json_object_get(result, "ratio"));
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
	const char *unit = json_string_value(json_object_get(after, "unit"));
	json_t *old = find(before, name);
	struct figure a, b;
	const char *verdict;

	if (!read_figure(after, &b))
		return false;
	if (!old || !read_figure(old, &a)) {
		fprintf(out, "%-36s %-5s %10s %10.4g %9s %8s", name, unit ? unit : "",
			"-", b.median, "", "-");
		put_ratio(out, b.ratio);
		fputs("  new\n", out);
		return false;
	}
	verdict = judge(&a, &b, unit && bench_unit_is_rate(unit));
	fprintf(out, "%-36s %-5s %10.4g %10.4g %+8.1f%%", name, unit ? unit : "",
		a.median, b.median, (b.median / a.median - 1) * 100);
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

		if (!name || find(after, name))
			continue;
		fprintf(out, "# %s: gone\n", name);
		gone++;
	}
	fprintf(out,
		"# %zu moved beyond the noise of their runs, %zu are gone. Where a ratio "
		"stayed,\n# the machine moved: the figure went with its limit.\n",
		moved, gone);
}

int bench_compare(const char *before, const char *after, FILE *out)
{
	json_t *a = load(before), *b = a ? load(after) : NULL;

	if (b)
		compare_all(json_object_get(a, "results"), json_object_get(b, "results"),
			    out);
	json_decref(a);
	json_decref(b);
	return b ? 0 : -EINVAL;
}
