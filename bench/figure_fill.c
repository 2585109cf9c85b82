/* SPDX-License-Identifier: MIT */
/* The results of a report as points. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "figure.h"
#include "stored.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The two ends of a chart of ratios: what lies further out ends there. */
#define RATIO_MIN 0.02
#define RATIO_MAX 1000.0

/* "64KiB" as a number of bytes; NAN: it is no size. */
static double bytes_of(const char *size)
{
	static const struct {
		const char *unit;
		double bytes;
	} units[] = { { "B", 1.0 }, { "KiB", 1024.0 }, { "MiB", 1048576.0 } };
	char *end;
	double value = strtod(size, &end);
	size_t length = strcspn(end, ".");

	for (size_t i = 0; end != size && i < COUNT(units); i++)
		if (length == strlen(units[i].unit) &&
		    !strncmp(end, units[i].unit, length))
			return value * units[i].bytes;
	return (double)NAN;
}

static bool is_in(const json_t *result, const char *section)
{
	char its[32];

	bench_section_of(bench_stored_text(result, "name"), its, sizeof(its));
	return !strcmp(its, section);
}

/* The name without the word that all names of the section begin with. */
static const char *short_name(const char *name, const char *section)
{
	size_t length = strlen(section);

	return !strncmp(name, section, length) && name[length] == '.' ? name + length + 1
								      : name;
}

bool figure_ratios(const json_t *results, const char *section, struct plot *plot)
{
	struct plot_series *times, *rates;
	const json_t *result;
	size_t i;

	plot->x_label = "ours over the limit";
	plot->log_x = true;
	plot->base = plot->mark = 1.0;
	plot->value_format = "%.2f";
	times = plot_add_series(plot, "times", PLOT_BARS, PLOT_BLUE);
	rates = plot_add_series(plot, "rates", PLOT_BARS, PLOT_ORANGE);
	json_array_foreach(results, i, result)
	{
		double ratio = bench_stored_number(result, "ratio"), row;

		if (!is_in(result, section) || !(ratio > 0.0))
			continue;
		row = plot_add_row(
			plot, short_name(bench_stored_text(result, "name"), section));
		if (row > 0.0)
			plot_add_bar(plot, bench_stored_is_rate(result) ? rates : times,
				     ratio, row, RATIO_MIN, RATIO_MAX);
	}
	return plot->row_count > 1;
}

static void add_percentiles(struct plot *plot, const json_t *result, const char *label)
{
	static const char *const keys[] = { "max", "p999", "p99", "median" };
	double row = plot_add_row(plot, label);

	for (size_t i = 0; row > 0.0 && i < COUNT(keys); i++)
		plot_add_point(plot, &plot->series[i],
			       bench_stored_number(result, keys[i]) * 1e-9, row);
}

static bool has_row(const struct plot *plot, const char *label)
{
	for (size_t i = 0; i < plot->row_count; i++)
		if (!strcmp(plot->rows[i], label))
			return true;
	return false;
}

/* A time with samples of single operations, and the limit it has. */
bool figure_percentiles(const json_t *results, const char *section, struct plot *plot)
{
	const json_t *result;
	size_t i;

	plot->x_label = "time";
	plot->x_unit = PLOT_TIME;
	plot->log_x = true;
	plot_add_series(plot, "worst", PLOT_DOTS, PLOT_RED);
	plot_add_series(plot, "p99.9", PLOT_DOTS, PLOT_ORANGE);
	plot_add_series(plot, "p99", PLOT_DOTS, PLOT_GREEN);
	plot_add_series(plot, "median", PLOT_DOTS, PLOT_BLUE);
	json_array_foreach(results, i, result)
	{
		const char *name = bench_stored_text(result, "name");
		const char *limit_name = bench_stored_text(result, "limit_name");
		const json_t *limit = bench_stored_find(results, limit_name);

		if (!is_in(result, section) || bench_stored_is_rate(result) ||
		    !isfinite(bench_stored_number(result, "p99")) ||
		    bench_stored_number(result, "batch") > 1.0 || !limit)
			continue;
		if (!has_row(plot, short_name(limit_name, section)))
			add_percentiles(plot, limit, short_name(limit_name, section));
		if (!has_row(plot, short_name(name, section)))
			add_percentiles(plot, result, short_name(name, section));
	}
	return plot->row_count > 1;
}

/* Bytes a second, of a rate or of the time that so many bytes take. */
static double gigabytes(const json_t *result, const char *key, double bytes)
{
	double value = bench_stored_number(result, key);

	return bench_stored_is_rate(result) ? value : bytes / value;
}

bool figure_copy(const json_t *results, const char *section, struct plot *plot)
{
	static const struct {
		const char *prefix, *title;
		enum plot_colour colour;
		bool with_limit;
	} lines[] = {
		{ "copy.h2d.staged.", "up, staged", PLOT_BLUE, true },
		{ "copy.d2h.staged.", "down, staged", PLOT_GREEN, false },
		{ "copy.h2d.inherited.", "up, inherited", PLOT_ORANGE, true },
		{ "copy.d2h.inherited.", "down, inherited", PLOT_PURPLE, false },
	};
	const json_t *result;
	size_t j, most = 0;

	(void)section;
	plot->x_label = "bytes of a copy";
	plot->y_label = "GB/s";
	plot->x_unit = PLOT_BYTES;
	plot->log_x = true;
	for (size_t i = 0; i < COUNT(lines); i++) {
		struct plot_series *own = plot_add_series(
			plot, lines[i].title, PLOT_LINE_DOTS, lines[i].colour);
		struct plot_series *limit = NULL;
		char title[PLOT_LABEL_BYTES];

		rpi_format(title, sizeof(title), "%s: the limit", lines[i].title);
		if (lines[i].with_limit)
			limit = plot_add_series(plot, title, PLOT_LINE, lines[i].colour);
		if (limit)
			limit->dashed = true;
		json_array_foreach(results, j, result)
		{
			const char *name = bench_stored_text(result, "name");
			const char *size = name + strlen(lines[i].prefix);
			const char *tail;
			double bytes;

			if (strncmp(name, lines[i].prefix, strlen(lines[i].prefix)))
				continue;
			tail = strchr(size, '.');
			bytes = bytes_of(size);
			/* One line of cache rides in the command, and shows nothing. */
			if ((tail && strcmp(tail, ".rtt")) || !(bytes > 64.0))
				continue;
			plot_add_point(plot, own, bytes,
				       gigabytes(result, "median", bytes));
			plot_add_point(plot, limit, bytes,
				       gigabytes(result, "limit", bytes));
		}
		most = own->count > most ? own->count : most;
	}
	return most > 1;
}

bool figure_tasks(const json_t *results, const char *section, struct plot *plot)
{
	const json_t *fixed = bench_stored_find(results, "dispatch.tasks.fixed");
	const json_t *each = bench_stored_find(results, "dispatch.tasks.marginal");
	struct plot_series *dots, *fit, *limit;

	(void)section;
	plot->x_label = "tasks in a run";
	plot->y_label = "time of a run";
	plot->y_unit = PLOT_TIME;
	plot->log_x = plot->log_y = true;
	dots = plot_add_series(plot, "measured", PLOT_DOTS, PLOT_BLUE);
	fit = plot_add_series(plot, "fixed part + tasks", PLOT_LINE, PLOT_BLUE);
	limit = plot_add_series(plot, "one line there and back: the limit", PLOT_LINE,
				PLOT_INK);
	limit->dashed = true;
	for (int tasks = 1; tasks <= 256; tasks *= 2) {
		char name[32];

		rpi_format(name, sizeof(name), "dispatch.tasks.%d", tasks);
		plot_add_point(
			plot, dots, tasks,
			bench_stored_number(bench_stored_find(results, name), "median") *
				1e-9);
		plot_add_point(plot, fit, tasks,
			       (bench_stored_number(fixed, "median") +
				tasks * bench_stored_number(each, "median")) *
				       1e-9);
		plot_add_point(plot, limit, tasks,
			       bench_stored_number(fixed, "limit") * 1e-9);
	}
	return dots->count > 1;
}

/* What a reset adds is reported as a time, or for large windows as a rate. */
static double reset_seconds(const json_t *results, const char *size, double bytes)
{
	char name[64];
	double value;

	rpi_format(name, sizeof(name), "reset.%s.added", size);
	value = bench_stored_number(bench_stored_find(results, name), "median") * 1e-9;
	if (isfinite(value))
		return value;
	rpi_format(name, sizeof(name), "reset.%s.bandwidth", size);
	return bytes / bench_stored_number(bench_stored_find(results, name), "median") *
	       1e-9;
}

static double named_seconds(const json_t *results, const char *head, const char *size,
			    const char *tail)
{
	char name[64];

	rpi_format(name, sizeof(name), "%s%s%s", head, size, tail);
	return bench_stored_number(bench_stored_find(results, name), "median") * 1e-9;
}

bool figure_reset(const json_t *results, const char *section, struct plot *plot)
{
	static const char *const sizes[] = { "4KiB",  "64KiB", "1MiB",
					     "16MiB", "64MiB", "256MiB" };
	struct plot_series *own, *fresh, *limit;

	(void)section;
	plot->x_label = "bytes of a window";
	plot->y_label = "time added to a dispatch";
	plot->x_unit = PLOT_BYTES;
	plot->y_unit = PLOT_TIME;
	plot->log_x = plot->log_y = true;
	own = plot_add_series(plot, "kept and reset", PLOT_LINE_DOTS, PLOT_BLUE);
	fresh = plot_add_series(plot, "allocated for each run", PLOT_LINE_DOTS,
				PLOT_ORANGE);
	limit = plot_add_series(plot, "plain zeroing: the limit", PLOT_LINE, PLOT_INK);
	limit->dashed = true;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		double bytes = bytes_of(sizes[i]);

		plot_add_point(plot, own, bytes, reset_seconds(results, sizes[i], bytes));
		plot_add_point(
			plot, fresh, bytes,
			named_seconds(results, "reset.", sizes[i], ".nonpersistent"));
		plot_add_point(plot, limit, bytes,
			       named_seconds(results, "reset.zero.", sizes[i], ""));
	}
	return own->count > 1;
}

bool figure_decode(const json_t *results, const char *section, struct plot *plot)
{
	struct plot_series *bars;
	const json_t *result;
	size_t i;

	plot->x_label = "tokens per second";
	plot->value_format = "%.0f";
	bars = plot_add_series(plot, "", PLOT_BARS, PLOT_BLUE);
	json_array_foreach(results, i, result)
	{
		const char *name = bench_stored_text(result, "name");
		double tokens = bench_stored_number(result, "median"), row;

		if (!is_in(result, section) || !bench_stored_is_rate(result) ||
		    !isfinite(tokens))
			continue;
		row = plot_add_row(plot, short_name(name, section));
		if (row > 0.0)
			plot_add_point(plot, bars, tokens, row);
		if (!(plot->mark > 0.0))
			plot->mark = bench_stored_number(result, "limit");
	}
	return bars->count > 1;
}

static bool ends_in(const char *name, const char *tail)
{
	size_t length = strlen(name), tail_length = strlen(tail);

	return length >= tail_length && !strcmp(name + length - tail_length, tail);
}

bool figure_overhead(const json_t *results, const char *section, struct plot *plot)
{
	struct plot_series *cpu, *wall;
	const json_t *result;
	size_t i;

	plot->x_label = "time per token";
	plot->x_unit = PLOT_TIME;
	plot->log_x = true;
	cpu = plot_add_series(plot, "CPU time of the caller", PLOT_DOTS, PLOT_BLUE);
	wall = plot_add_series(plot, "time beyond the chips", PLOT_DOTS, PLOT_ORANGE);
	json_array_foreach(results, i, result)
	{
		const char *name = bench_stored_text(result, "name");
		bool is_wall = strstr(name, ".wall") != NULL;
		double row;

		if (!is_in(result, section) || (!is_wall && !ends_in(name, ".overhead")))
			continue;
		row = plot_add_row(plot, short_name(name, section));
		if (row > 0.0)
			plot_add_point(plot, is_wall ? wall : cpu,
				       bench_stored_number(result, "median") * 1e-9, row);
		if (!is_wall && !(plot->mark > 0.0))
			plot->mark = bench_stored_number(result, "limit") * 1e-9;
	}
	return plot_point_count(plot) > 1;
}
