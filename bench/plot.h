/* SPDX-License-Identifier: MIT */
/* A plot as SVG text, drawn by gnuplot. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#define PLOT_LABEL_BYTES 48
#define PLOT_ROWS	 64
#define PLOT_POINTS	 64
#define PLOT_SERIES	 8

enum plot_style {
	PLOT_BARS, /* of a plot with rows: from `base` to x, in row y */
	PLOT_DOTS,
	PLOT_LINE,
	PLOT_LINE_DOTS
};

/* What a page gives its own colours, for light and dark. */
enum plot_colour {
	PLOT_INK,
	PLOT_GRID,
	PLOT_BLUE,
	PLOT_ORANGE,
	PLOT_GREEN,
	PLOT_PURPLE,
	PLOT_RED,
	PLOT_COLOURS
};

struct plot_series {
	char title[PLOT_LABEL_BYTES]; /* for the key; "": not in it */
	enum plot_style style;
	enum plot_colour colour;
	bool dashed;
	size_t count;
	double x[PLOT_POINTS], y[PLOT_POINTS];
	double value[PLOT_POINTS]; /* written behind a bar; x unless it was cut off */
};

/* How the numbers of an axis are written. */
enum plot_unit {
	PLOT_PLAIN,
	PLOT_TIME, /* in seconds: 100 ns, 2 us */
	PLOT_BYTES
};

struct plot {
	const char *title; /* what a reader is told who can't see it */
	const char *x_label, *y_label;
	bool log_x, log_y;
	enum plot_unit x_unit, y_unit;

	/* With rows the y of a point is the number of its row, from 1 on. */
	char rows[PLOT_ROWS][PLOT_LABEL_BYTES];
	size_t row_count;
	double base, mark;	  /* of bars; a line across all rows, 0: none */
	const char *value_format; /* of the number at the end of a bar; NULL: none */

	struct plot_series series[PLOT_SERIES];
	size_t series_count;
};

/* NULL where there is no room for another; its points and rows are what fits. */
struct plot_series *plot_add_series(struct plot *plot, const char *title,
				    enum plot_style style, enum plot_colour colour);
/* A point with a number that is not finite, or not above 0 on a logarithmic axis, is
 * left out. */
void plot_add_point(const struct plot *plot, struct plot_series *series, double x,
		    double y);
/* A bar of a row: what lies outside the ends is drawn to there, and written as it is. */
void plot_add_bar(const struct plot *plot, struct plot_series *series, double value,
		  double row, double low, double high);
/* The number of the new row; 0: there is no room. */
double plot_add_row(struct plot *plot, const char *label);
size_t plot_point_count(const struct plot *plot);

/* "gnuplot 5.4 patchlevel 4", or "" where it is not installed. */
const char *plot_tool(void);

/*
 * Draw it: *svg_out is the caller's to free. With `prefix` it is made to stand in a page:
 * colours are the page's, and ids begin with it. -ENOENT: no gnuplot; -EIO: it failed.
 */
int plot_draw(const struct plot *plot, const char *prefix, char **svg_out);

#endif
