/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PLOT_SVG_H
#define BENCH_PLOT_SVG_H

#include "plot.h"

extern const struct plot_paint {
	const char *name;
	unsigned char red, green, blue;
} plot_paints[PLOT_COLOURS];

/*
 * What gnuplot has drawn, with a title of our own, and with a prefix to stand in a page:
 * no prologue, ids of its own, and var(--name) for our colours. NULL: no memory, or no
 * SVG.
 */
char *plot_svg_adapt(const char *svg, const char *title, const char *prefix);

#endif
