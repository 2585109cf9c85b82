/* SPDX-License-Identifier: MIT */
/* From gnuplot's SVG to one that can stand in a page beside others. */
#include "plot_svg.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "markup.h"

const struct plot_paint plot_paints[PLOT_COLOURS] = {
	[PLOT_INK] = { "ink", 31, 35, 40 },
	[PLOT_GRID] = { "grid", 178, 186, 194 },
	[PLOT_BLUE] = { "blue", 9, 105, 218 },
	[PLOT_ORANGE] = { "orange", 188, 76, 0 },
	[PLOT_GREEN] = { "green", 26, 127, 55 },
	[PLOT_PURPLE] = { "purple", 130, 80, 223 },
	[PLOT_RED] = { "red", 207, 34, 46 },
};

static bool begins(const char *at, const char *with)
{
	return !strncmp(at, with, strlen(with));
}

/* rgb(r, g, b) of one of ours: bytes read, else 0. */
static size_t take_colour(const char *at, FILE *out)
{
	int red, green, blue, end = 0;

	if (!begins(at, "rgb(") ||
	    sscanf(at, "rgb( %d , %d , %d )%n", &red, &green, &blue, &end) != 3 || !end)
		return 0;
	for (size_t i = 0; i < PLOT_COLOURS; i++) {
		const struct plot_paint *p = &plot_paints[i];

		if (p->red != red || p->green != green || p->blue != blue)
			continue;
		fprintf(out, "var(--%s)", p->name);
		return (size_t)end;
	}
	return 0;
}

/* An id or a reference to one: the bytes up to the name. */
static size_t take_id(const char *at, const char *prefix, FILE *out)
{
	static const char *const words[] = { " id='", " id=\"", "href='#", "href=\"#",
					     "url(#" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (begins(at, words[i])) {
			fprintf(out, "%s%s-", words[i], prefix);
			return strlen(words[i]);
		}
	return 0;
}

/* Titles of gnuplot's own, which a browser would show over its curves. */
static size_t skip_title(const char *at)
{
	static const char *const words[][2] = { { "<title>", "</title>" },
						{ "<desc>", "</desc>" } };

	for (size_t i = 0; i < 2; i++) {
		const char *end = begins(at, words[i][0]) ? strstr(at, words[i][1])
							  : NULL;

		if (end)
			return (size_t)(end - at) + strlen(words[i][1]);
	}
	return 0;
}

static void adapt(const char *at, const char *title, const char *prefix, FILE *out)
{
	const char *body = strchr(at, '>'); /* the end of the <svg ...> tag */
	bool titled = false;

	while (*at) {
		size_t taken = skip_title(at);

		if (!taken && prefix)
			taken = take_colour(at, out);
		if (!taken && prefix)
			taken = take_id(at, prefix, out);
		if (taken) {
			at += taken;
			continue;
		}
		if (!titled && prefix && begins(at, "<svg")) {
			fputs("<svg role=\"img\"", out);
			at += strlen("<svg");
			continue;
		}
		fputc(*at, out);
		if (!titled && at == body) {
			fputs("<title>", out);
			markup_text(out, title);
			fputs("</title>", out);
			titled = true;
		}
		at++;
	}
}

char *plot_svg_adapt(const char *svg, const char *title, const char *prefix)
{
	const char *start = strstr(svg, "<svg");
	char *text = NULL;
	size_t bytes;
	FILE *out;

	if (!start || !strstr(start, "</svg>"))
		return NULL;
	out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	if (!prefix)
		fputs("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n", out);
	adapt(start, title, prefix, out);
	if (ferror(out) | fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
