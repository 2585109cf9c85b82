/* SPDX-License-Identifier: MIT */
/* What is plotted of a report: which results, against what, and what that shows. */
#ifndef BENCH_FIGURE_H
#define BENCH_FIGURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "plot.h"

struct figure {
	const char *section; /* that it stands in; NULL: in any */
	const char *title;
	const char *sentence; /* what it shows, and the limit that it is held against */
	/* Fill the plot from the results of the section; false: too few for one. */
	bool (*fill)(const json_t *results, const char *section, struct plot *plot);
};

extern const struct figure bench_figures[];
extern const size_t bench_figure_count;

/* What a result's name is filed under: mostly its first word. */
void bench_section_of(const char *name, char *section, size_t bytes);

/* Whether a figure stands in this section and has something to show there. */
bool bench_figure_fill(const struct figure *figure, const json_t *results,
		       const char *section, struct plot *plot);

/*
 * Write the first figure of a section to a file, as an SVG of its own. -ENODATA: the
 * results have none.
 */
int bench_figure_save(const json_t *results, const char *section, const char *path);

/* The fills. */
bool figure_ratios(const json_t *results, const char *section, struct plot *plot);
bool figure_percentiles(const json_t *results, const char *section, struct plot *plot);
bool figure_copy(const json_t *results, const char *section, struct plot *plot);
bool figure_tasks(const json_t *results, const char *section, struct plot *plot);
bool figure_reset(const json_t *results, const char *section, struct plot *plot);
bool figure_decode(const json_t *results, const char *section, struct plot *plot);
bool figure_overhead(const json_t *results, const char *section, struct plot *plot);

#endif
