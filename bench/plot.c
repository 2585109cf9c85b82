/* SPDX-License-Identifier: MIT */
/* gnuplot's script of a plot, and gnuplot as a child that reads it. */
#include "plot.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "plot_svg.h"
#include "spawn.h"

/* In units of the drawing, which a page scales to its width. */
#define WIDTH	   480
#define HEIGHT	   320
#define ROW_HEIGHT 21
#define ROWS_EXTRA 64 /* axis and label */
#define KEY_HEIGHT 18 /* of a line of it */
#define KEY_GAP	   12 /* below it */
#define FONT	   12

#define DRAW_NS	   INT64_C(20000000000)

struct range {
	double low, high;
};

struct plot_series *plot_add_series(struct plot *plot, const char *title,
				    enum plot_style style, enum plot_colour colour)
{
	struct plot_series *series;

	if (plot->series_count == PLOT_SERIES)
		return NULL;
	series = &plot->series[plot->series_count++];
	rpi_format(series->title, sizeof(series->title), "%s", title);
	series->style = style;
	series->colour = colour;
	return series;
}

void plot_add_point(const struct plot *plot, struct plot_series *series, double x,
		    double y)
{
	if (!series || series->count == PLOT_POINTS || !isfinite(x) || !isfinite(y) ||
	    (plot->log_x && x <= 0.0) || (plot->log_y && y <= 0.0))
		return;
	series->x[series->count] = series->value[series->count] = x;
	series->y[series->count++] = y;
}

void plot_add_bar(const struct plot *plot, struct plot_series *series, double value,
		  double row, double low, double high)
{
	size_t before = series ? series->count : 0;

	plot_add_point(plot, series, fmin(fmax(value, low), high), row);
	if (series && series->count > before)
		series->value[before] = value;
}

double plot_add_row(struct plot *plot, const char *label)
{
	if (plot->row_count == PLOT_ROWS)
		return 0.0;
	rpi_format(plot->rows[plot->row_count], PLOT_LABEL_BYTES, "%s", label);
	return (double)++plot->row_count;
}

size_t plot_point_count(const struct plot *plot)
{
	size_t count = 0;

	for (size_t i = 0; i < plot->series_count; i++)
		count += plot->series[i].count;
	return count;
}

/* In single quotes nothing is replaced or run, and a quote can't end them: what is not
 * plain text has been taken out. */
static void quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++)
		fputc(isalnum((unsigned char)*text) || strchr(" .,:;()+-*/%=|", *text)
			      ? *text
			      : '?',
		      out);
	fputc('\'', out);
}

static void colour(FILE *out, enum plot_colour which)
{
	const struct plot_paint *p = &plot_paints[which];

	fprintf(out, "rgb '#%02x%02x%02x'", p->red, p->green, p->blue);
}

static size_t key_lines(const struct plot *plot)
{
	size_t lines = 0;

	for (size_t i = 0; i < plot->series_count; i++)
		lines += plot->series[i].title[0] && plot->series[i].count;
	return lines;
}

static struct range find_range(const struct plot *plot, bool of_y)
{
	struct range r = { (double)INFINITY, (double)-INFINITY };

	for (size_t i = 0; i < plot->series_count; i++) {
		const struct plot_series *s = &plot->series[i];

		for (size_t j = 0; j < s->count; j++) {
			double value = of_y ? s->y[j] : s->x[j];

			r.low = fmin(r.low, value);
			r.high = fmax(r.high, value);
		}
		if (s->style == PLOT_BARS && !of_y) {
			r.low = fmin(r.low, plot->base);
			r.high = fmax(r.high, plot->base);
		}
	}
	if (!of_y && plot->mark > 0.0) {
		r.low = fmin(r.low, plot->mark);
		r.high = fmax(r.high, plot->mark);
	}
	return r;
}

/* 1, 2 or 5 times a power of ten, of which a handful fill the span. */
static double nice_step(double span)
{
	double power = pow(10.0, floor(log10(span / 4.0)));
	double digit = span / 4.0 / power;

	return power * (digit < 2.0 ? 2.0 : digit < 5.0 ? 5.0 : 10.0);
}

/* Room at the ends: for dots, and for the numbers behind bars. */
static void axis_range(FILE *out, const struct plot *plot, char axis, bool log)
{
	struct range r = find_range(plot, axis == 'y');
	double span = log ? r.high / r.low : r.high - fmin(r.low, 0.0);
	bool bars = axis == 'x' && plot->row_count && plot->value_format;

	if (log) {
		double room = fmax(pow(span, 0.06), 1.15);

		fprintf(out, "set logscale %c\n", axis);
		fprintf(out, "set %crange [%.9g:%.9g]\n", axis, r.low / room,
			r.high * (bars ? fmax(pow(span, 0.25), 1.5) : room));
		return;
	}
	if (span <= 0.0)
		span = 1.0;
	fprintf(out, "set %crange [%.9g:%.9g]\n", axis, fmin(r.low, 0.0),
		r.high + span * (bars ? 0.25 : 0.06));
	fprintf(out, "set %ctics %.9g\n", axis, nice_step(span));
}

static void byte_tics(FILE *out, const struct plot *plot, char axis)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	struct range r = find_range(plot, axis == 'y');

	fprintf(out, "set %ctics (", axis);
	for (int power = 0; power < 40; power += 2) {
		double at = ldexp(1.0, power);

		if (at >= r.low && at <= r.high)
			fprintf(out, "'%.0f %s' %.9g, ", ldexp(1.0, power % 10),
				units[power / 10], at);
	}
	/* A list can't end in a comma; one far away is not drawn. */
	fputs("'' 1e30) rotate by 35 right\n", out);
}

/* 1, 2, 5, 10 and so on, or the powers of ten where that would be too many. */
static void number_tics(FILE *out, const struct plot *plot, char axis)
{
	static const double digits[] = { 1.0, 2.0, 5.0 };
	struct range r = find_range(plot, axis == 'y');
	size_t used = r.high / r.low > 500.0 ? 1 : 3;

	fprintf(out, "set %ctics (", axis);
	for (int power = -4; power < 10; power++)
		for (size_t i = 0; i < used; i++) {
			double at = digits[i] * pow(10.0, power);

			fprintf(out, "'%g' %.9g, ", at, at);
		}
	fputs("'' 1e30)\n", out);
}

static void axis(FILE *out, const struct plot *plot, char which)
{
	enum plot_unit unit = which == 'x' ? plot->x_unit : plot->y_unit;
	const char *label = which == 'x' ? plot->x_label : plot->y_label;
	bool log = which == 'x' ? plot->log_x : plot->log_y;
	struct range r = find_range(plot, which == 'y');

	axis_range(out, plot, which, log);
	/* Every other power of ten where all would be in each other's way. */
	if (unit == PLOT_TIME && log && which == 'x' && r.high / r.low > 5e3)
		fputs("set xtics 100\n", out);
	if (unit == PLOT_BYTES)
		byte_tics(out, plot, which);
	else if (unit == PLOT_PLAIN && log)
		number_tics(out, plot, which);
	else
		fprintf(out, "set format %c '%s'\n", which,
			unit == PLOT_TIME ? "%.0s %cs" : "%g");
	if (label) {
		fprintf(out, "set %clabel ", which);
		quoted(out, label);
		fputs(" textcolor ", out);
		colour(out, PLOT_INK);
		fputc('\n', out);
	}
}

static void row_axis(FILE *out, const struct plot *plot)
{
	fprintf(out, "set yrange [%zu.5:0.5]\nset ytics (", plot->row_count);
	for (size_t i = 0; i < plot->row_count; i++) {
		fputs(i ? ", " : "", out);
		quoted(out, plot->rows[i]);
		fprintf(out, " %zu", i + 1);
	}
	fputs(") scale 0\n", out);
	if (plot->mark > 0.0) {
		fprintf(out,
			"set arrow from %.9g, graph 0 to %.9g, graph 1 nohead lw 1.5 lc ",
			plot->mark, plot->mark);
		colour(out, PLOT_INK);
		fputc('\n', out);
	}
}

static void data(FILE *out, const struct plot *plot)
{
	for (size_t i = 0; i < plot->series_count; i++) {
		const struct plot_series *s = &plot->series[i];

		fprintf(out, "$s%zu << END\n", i);
		for (size_t j = 0; j < s->count; j++) {
			double low = fmin(s->x[j], plot->base);
			double high = fmax(s->x[j], plot->base);

			fprintf(out, "%.9g %.9g", s->x[j], s->y[j]);
			if (s->style == PLOT_BARS)
				fprintf(out, " %.9g %.9g %.9g %.9g %.9g", low, high,
					s->y[j] - 0.34, s->y[j] + 0.34, s->value[j]);
			fputc('\n', out);
		}
		fputs("END\n", out);
	}
}

static void one_curve(FILE *out, const struct plot *plot, size_t i)
{
	static const char *const styles[] = { [PLOT_DOTS] = "points pt 7 ps 0.6",
					      [PLOT_LINE] = "lines",
					      [PLOT_LINE_DOTS] =
						      "linespoints pt 7 ps 0.5" };
	const struct plot_series *s = &plot->series[i];

	fprintf(out, "$s%zu using ", i);
	if (s->style == PLOT_BARS)
		fputs("1:2:3:4:5:6 with boxxyerror fs solid noborder", out);
	else
		fprintf(out, "1:2 with %s lw 2%s", styles[s->style],
			s->dashed ? " dt 2" : "");
	fputs(" lc ", out);
	colour(out, s->colour);
	if (s->title[0]) {
		fputs(" title ", out);
		quoted(out, s->title);
	} else {
		fputs(" notitle", out);
	}
	if (s->style != PLOT_BARS || !plot->value_format)
		return;
	fprintf(out,
		", $s%zu using 4:2:(sprintf('%s', $7)) with labels left offset 0.4,0 "
		"textcolor ",
		i, plot->value_format);
	colour(out, PLOT_INK);
	fputs(" notitle", out);
}

static void curves(FILE *out, const struct plot *plot)
{
	bool any = false;

	fputs("plot ", out);
	for (size_t i = 0; i < plot->series_count; i++) {
		if (!plot->series[i].count)
			continue;
		fputs(any ? ", \\\n  " : "", out);
		one_curve(out, plot, i);
		any = true;
	}
	fputc('\n', out);
}

/* Above the plot and from the edge of the whole picture on: beside the names of rows,
 * where gnuplot has it begin, there is no room for a wide font. */
static void key(FILE *out, size_t lines, size_t height)
{
	if (lines < 2) {
		fputs("\nset key off\n", out);
		return;
	}
	fprintf(out,
		"\nset tmargin at screen %.4f\nset key at screen 0, screen 1 left top "
		"vertical maxcols 1 Left reverse samplen 2 textcolor ",
		1.0 - (double)(lines * KEY_HEIGHT + KEY_GAP) / (double)height);
	colour(out, PLOT_INK);
	fputc('\n', out);
}

static void script(FILE *out, const struct plot *plot, bool in_page)
{
	size_t lines = key_lines(plot);
	size_t height = (lines > 1 ? lines * KEY_HEIGHT : 0) +
			(plot->row_count ? plot->row_count * ROW_HEIGHT + ROWS_EXTRA
					 : (size_t)HEIGHT);

	fprintf(out,
		"set terminal svg size %d,%zu dynamic noenhanced font "
		"'sans-serif,%d'%s\n",
		WIDTH, height, FONT, in_page ? "" : " background '#ffffff'");
	fputs("set encoding utf8\nset border 3 lc ", out);
	colour(out, PLOT_INK);
	fputs("\nset tics nomirror textcolor ", out);
	colour(out, PLOT_INK);
	fputs("\nset grid lt 1 lw 0.5 lc ", out);
	colour(out, PLOT_GRID);
	key(out, lines, height);
	axis(out, plot, 'x');
	if (plot->row_count)
		row_axis(out, plot);
	else
		axis(out, plot, 'y');
	data(out, plot);
	curves(out, plot);
}

/* Run gnuplot; what it wrote is the caller's to free. */
static int run(const char *const *argv, const char *input, char **text_out)
{
	struct bench_spawn spawn;
	char line[160];
	int status, err = bench_spawn_start(&spawn, argv, input);

	if (err)
		return err;
	if (!bench_spawn_wait(&spawn, DRAW_NS, &status))
		err = rpi_fail(-EIO, "gnuplot: not done after %d s",
			       (int)(DRAW_NS / 1000000000));
	else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		err = rpi_fail(-ENOENT, "gnuplot is not installed (package gnuplot-nox)");
	bench_spawn_last_line(&spawn, line, sizeof(line));
	if (!err && status)
		err = rpi_fail(-EIO, "gnuplot: %s", line);
	if (!err)
		*text_out = bench_spawn_text(spawn.out);
	bench_spawn_stop(&spawn);
	return err || *text_out ? err : rpi_fail(-ENOMEM, "gnuplot: no memory");
}

const char *plot_tool(void)
{
	static const char *const argv[] = { "gnuplot", "--version", NULL };
	static char version[64];
	static bool asked;
	char *text;

	if (asked)
		return version;
	asked = true;
	if (!run(argv, NULL, &text)) {
		rpi_format(version, sizeof(version), "%.*s", (int)strcspn(text, "\n"),
			   text);
		free(text);
	}
	return version;
}

int plot_draw(const struct plot *plot, const char *prefix, char **svg_out)
{
	/* -d: as it comes, whatever its user's ~/.gnuplot says. */
	static const char *const argv[] = { "gnuplot", "-d", NULL };
	char *text = NULL, *svg = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	int err;

	if (!out)
		return rpi_fail(-ENOMEM, "plot: no memory");
	script(out, plot, prefix);
	if (fclose(out)) {
		free(text);
		return rpi_fail(-ENOMEM, "plot: no memory");
	}
	err = run(argv, text, &svg);
	free(text);
	if (err)
		return err;
	*svg_out = plot_svg_adapt(svg, plot->title, prefix);
	free(svg);
	return *svg_out ? 0 : rpi_fail(-EIO, "gnuplot: no SVG of \"%s\"", plot->title);
}
