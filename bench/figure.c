/* SPDX-License-Identifier: MIT */
#include "figure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stored.h"
#include "textfile.h"

/* In the order in which they stand in a section: what is its own first. */
const struct figure bench_figures[] = {
	{ "dispatch", "A dispatch over its tasks",
	  "What a run of empty tasks takes, by how many it has (dots), and the line that "
	  "was fitted to it: a fixed part and so much for each task. The fixed part is "
	  "held "
	  "against one cache line to the other core and one back, drawn as the dashed "
	  "line.",
	  figure_tasks },
	{ "copy", "Copies over their size",
	  "Bytes that arrive in a second, by the size of the copy; up to 64 KiB that is "
	  "the "
	  "size over a whole round trip. The dashed lines are the limit of the staged "
	  "upload "
	  "and of the inherited one: one memcpy() between the same kinds of pages, for "
	  "small "
	  "sizes what two bare processes take to hand the bytes over.",
	  figure_copy },
	{ "reset", "A reset over the size of the window",
	  "What it adds to a dispatch that its window reads zero, on one chip: windows "
	  "that "
	  "persist and are reset, and a domain allocated and released for each run. The "
	  "limit, dashed, is the fastest plain loop that zeroes the same bytes.",
	  figure_reset },
	{ "decode", "Tokens per second",
	  "The decode loop run four ways, and the variants of the persistent one. The "
	  "limit, "
	  "drawn as the line, is the same forward pass in one thread of one process.",
	  figure_decode },
	{ "decode", "What the caller pays for a token",
	  "CPU time in ringplane's calls, the caller asleep while it waits, and time "
	  "beyond "
	  "the slowest chip's own work, the caller spinning. The line is what a thread "
	  "spends on one sleep, the limit of the CPU time; of the other there is none "
	  "but "
	  "nothing at all.",
	  figure_overhead },
	{ NULL, "Against the limits",
	  "Each figure over its limit from the same run, which stands beside it in the "
	  "table: the line at 1 is the limit itself. A time is the better the further "
	  "left "
	  "its bar ends, a rate the further right.",
	  figure_ratios },
	{ NULL, "From the usual to the worst",
	  "Median, 99th and 99.9th percentile and the worst of all runs, of each time "
	  "that "
	  "is held against a limit, and of these limits: what the machine itself does to "
	  "an "
	  "exchange shows in the limit's own tail.",
	  figure_percentiles },
};
const size_t bench_figure_count = sizeof(bench_figures) / sizeof(bench_figures[0]);

void bench_section_of(const char *name, char *section, size_t bytes)
{
	rpi_format(section, bytes, "%.*s", (int)strcspn(name, "."), name);
	/* Of the same sub-command. */
	if (!strcmp(section, "close"))
		rpi_format(section, bytes, "prepare");
}

bool bench_figure_fill(const struct figure *figure, const json_t *results,
		       const char *section, struct plot *plot)
{
	if (figure->section && strcmp(figure->section, section))
		return false;
	memset(plot, 0, sizeof(*plot));
	plot->title = figure->title;
	/* Names without a number that can be drawn are none. */
	return figure->fill(results, section, plot) && plot_point_count(plot);
}

static int save(const struct plot *plot, const char *path)
{
	char *svg = NULL;
	int err = plot_draw(plot, NULL, &svg);

	if (err)
		return err;
	err = bench_textfile_write(path, svg);
	free(svg);
	return err ? rpi_fail(err, "--plot: '%s': %s", path, strerror(-err)) : 0;
}

int bench_figure_save(const json_t *results, const char *section, const char *path)
{
	struct plot *plot = malloc(sizeof(*plot));
	size_t i = 0;
	int err;

	if (!plot)
		return rpi_fail(-ENOMEM, "--plot: no memory");
	while (i < bench_figure_count &&
	       !bench_figure_fill(&bench_figures[i], results, section, plot))
		i++;
	err = i < bench_figure_count
		      ? save(plot, path)
		      : rpi_fail(-ENODATA, "--plot: too few results of %s to plot",
				 section);
	free(plot);
	return err;
}
