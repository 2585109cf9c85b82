/* SPDX-License-Identifier: MIT */
#include "page.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "figure.h"
#include "markup.h"
#include "stored.h"

#define SECTIONS_MAX  32
#define SECTION_BYTES 32

static const struct page_section sections[] = {
	{ "limits", "Limits",
	  "What the machine allows anybody: a cache line handed over, a process woken, "
	  "memory copied, a call into the kernel." },
	{ "dispatch", "Dispatch",
	  "Chips run an entry that does nothing, so that what is left is ringplane's." },
	{ "copy", "Copies", "Bytes between host memory and device memory." },
	{ "device", "Device memory",
	  "Tensors allocated and freed, without asking a chip." },
	{ "reset", "Windows",
	  "Windows of a comm domain that read zero when a dispatch begins." },
	{ "collective", "Collectives",
	  "What chips do together in the windows of a domain." },
	{ "prepare", "Workers", "A worker made ready, and ended." },
	{ "programs", "Programs",
	  "Programs loaded, registered, called, recorded, and run once." },
	{ "arena", "Arenas", "The rings of the chip runtime, made and found made." },
	{ "tasks", "Tasks",
	  "Kernels through the chip runtime: submitted, run, retired." },
	{ "decode", "Decode",
	  "A token at a time through a small model, divided over the chips." },
	{ "trace", "Spans", "What it costs to record where the time goes." },
	{ "peers", "Peers",
	  "Other transports between two processes, with the same bytes, on the same two "
	  "CPUs, in turn with ringplane." },
};

struct section_list {
	char names[SECTIONS_MAX][SECTION_BYTES];
	size_t count;
};

const struct page_section *bench_page_section(const char *name)
{
	static struct page_section other;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (!strcmp(sections[i].name, name))
			return &sections[i];
	other = (struct page_section){ .name = name, .title = name, .about = "" };
	return &other;
}

/* In the order in which the results come. */
static void find_sections(const json_t *results, struct section_list *list)
{
	const json_t *result;
	size_t i;

	list->count = 0;
	json_array_foreach(results, i, result)
	{
		char name[SECTION_BYTES];
		size_t at = 0;

		bench_section_of(bench_stored_text(result, "name"), name, sizeof(name));
		while (at < list->count && strcmp(list->names[at], name))
			at++;
		if (at == list->count && at < SECTIONS_MAX)
			memcpy(list->names[list->count++], name, sizeof(name));
	}
}

static void text(FILE *out, const char *before, const char *inner, const char *after)
{
	fputs(before, out);
	markup_text(out, inner);
	fputs(after, out);
}

static void fact(FILE *out, const char *term, const char *value)
{
	if (!value[0])
		return;
	text(out, "<dt>", term, "</dt>");
	text(out, "<dd>", value, "</dd>\n");
}

/* One value of two words, of which the second may be missing. */
static void two_facts(FILE *out, const char *term, const json_t *object,
		      const char *first, const char *second)
{
	char line[256];

	rpi_format(line, sizeof(line), "%s%s%s", bench_stored_text(object, first),
		   bench_stored_text(object, second)[0] ? " " : "",
		   bench_stored_text(object, second));
	fact(out, term, line);
}

static void write_machine(const json_t *stored, FILE *out)
{
	const json_t *machine = json_object_get(stored, "machine");
	const json_t *report = json_object_get(stored, "report");
	const json_t *pinned = json_object_get(machine, "pinned");

	fputs("<dl>\n", out);
	two_facts(out, "ringplane", machine, "version", "revision");
	two_facts(out, "Compiler", machine, "compiler", "build_flags");
	fact(out, "Processor", bench_stored_text(machine, "cpu"));
	if (json_array_size(pinned) == 2) {
		char line[128];

		rpi_format(line, sizeof(line), "%.0f and %.0f of %.0f, relation %s",
			   json_number_value(json_array_get(pinned, 0)),
			   json_number_value(json_array_get(pinned, 1)),
			   bench_stored_number(machine, "cpus"),
			   bench_stored_text(machine, "relation"));
		fact(out, "Measured CPUs", line);
	}
	fact(out, "Kernel", bench_stored_text(machine, "kernel"));
	fact(out, "Pages of a shared region", bench_stored_text(machine, "pages"));
	fact(out, "io_uring",
	     json_is_true(json_object_get(machine, "io_uring")) ? "yes" : "no");
	fact(out, "Clock", bench_stored_text(machine, "clock"));
	fact(out, "C library", bench_stored_text(report, "libc"));
	fact(out, "Plots", bench_stored_text(report, "plots"));
	fact(out, "Made", bench_stored_text(report, "made"));
	fputs("</dl>\n", out);
}

/* Whether a sub-command was measured on, or with, something else than the first. */
static bool is_elsewhere(const json_t *machine, const json_t *first)
{
	static const char *const keys[] = { "version", "revision", "cpu", "kernel" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(bench_stored_text(machine, keys[i]),
			   bench_stored_text(first, keys[i])))
			return true;
	return false;
}

static void write_command(const json_t *command, const json_t *first, FILE *out)
{
	const json_t *machine = json_object_get(command, "machine");
	const char *error = bench_stored_text(command, "error");
	double seconds = bench_stored_number(command, "seconds");
	double runs = bench_stored_number(machine, "runs");

	text(out, "<tr><td>", bench_stored_text(command, "name"), "</td><td>");
	if (isfinite(seconds))
		fprintf(out, "%.1f s", seconds);
	fputs("</td><td>", out);
	if (isfinite(runs))
		fprintf(out, "%.0f%s", runs,
			json_is_true(json_object_get(machine, "quick")) ? ", quick" : "");
	text(out, "</td><td>", bench_stored_text(machine, "seed"), "</td>");
	text(out, "<td>", bench_stored_text(machine, "work"), "</td><td>");
	if (error[0])
		text(out, "<span class=\"bad\">", error, "</span>");
	else if (json_object_size(machine) && is_elsewhere(machine, first)) {
		text(out, "elsewhere: ", bench_stored_text(machine, "cpu"), ", ");
		text(out, "", bench_stored_text(machine, "kernel"), ", ");
		text(out, "", bench_stored_text(machine, "revision"), "");
	}
	fputs("</td></tr>\n", out);
}

static void write_commands(const json_t *stored, FILE *out)
{
	const json_t *first = json_object_get(stored, "machine"), *command;
	size_t i;

	fputs("<section id=\"runs\"><h2>Runs</h2>\n<p>Each sub-command ran by itself, "
	      "its "
	      "cases and their limits in turn. Medians are over so many runs.</p>\n"
	      "<div class=\"wide\"><table><thead><tr><th>Sub-command</th><th>Took</th>"
	      "<th>Runs</th><th>Seed</th><th>Work</th><th>Remark</th></tr></thead>"
	      "<tbody>\n",
	      out);
	json_array_foreach(json_object_get(stored, "commands"), i, command)
	{
		write_command(command, first, out);
	}
	fputs("</tbody></table></div></section>\n", out);
}

static void write_figure(const struct figure *figure, const struct plot *plot,
			 size_t number, FILE *out)
{
	char prefix[16], *svg;

	text(out, "<figure><figcaption><b>", figure->title, "</b> ");
	text(out, "", figure->sentence, "</figcaption>\n");
	rpi_format(prefix, sizeof(prefix), "f%zu", number);
	if (!plot_tool()[0]) {
		fputs("<p>No plot: gnuplot was not installed where this page was made. "
		      "The figures are in the table.</p>\n",
		      out);
	} else if (plot_draw(plot, prefix, &svg)) {
		text(out, "<p class=\"bad\">No plot: ", rp_last_error(), "</p>\n");
	} else {
		/* By itself: what is wider than a phone scrolls there, not the page. */
		fputs("<div class=\"wide\">", out);
		fputs(svg, out);
		fputs("</div>\n", out);
		free(svg);
	}
	fputs("</figure>\n", out);
}

static void write_section(const json_t *stored, const char *name, size_t *figures,
			  struct plot *plot, FILE *out)
{
	const struct page_section *section = bench_page_section(name);
	const json_t *results = json_object_get(stored, "results");

	fputs("<section id=\"s-", out);
	markup_id(out, name);
	text(out, "\"><h2>", section->title, "</h2>\n");
	text(out, "<p>", section->about, "</p>\n");
	for (size_t i = 0; i < bench_figure_count; i++)
		if (bench_figure_fill(&bench_figures[i], results, name, plot))
			write_figure(&bench_figures[i], plot, ++*figures, out);
	page_table(stored, name, out);
	fputs("</section>\n", out);
}

static void write_contents(const struct section_list *list, FILE *out)
{
	fputs("<nav aria-label=\"Contents\"><ul>\n", out);
	for (size_t i = 0; i < list->count; i++) {
		fputs("<li><a href=\"#s-", out);
		markup_id(out, list->names[i]);
		text(out, "\">", bench_page_section(list->names[i])->title,
		     "</a></li>\n");
	}
	fputs("<li><a href=\"#runs\">Runs</a></li>\n</ul></nav>\n", out);
}

static void write_failures(const json_t *stored, FILE *out)
{
	const json_t *command;
	size_t i;

	json_array_foreach(json_object_get(stored, "commands"), i, command)
	{
		const char *error = bench_stored_text(command, "error");

		if (!error[0])
			continue;
		text(out, "<p class=\"bad\"><b>", bench_stored_text(command, "name"),
		     "</b>: ");
		text(out, "", error, "</p>\n");
	}
}

int bench_page_write(const json_t *stored, FILE *out)
{
	struct section_list list;
	struct plot *plot = malloc(sizeof(*plot));
	size_t figures = 0;

	if (!plot)
		return rpi_fail(-ENOMEM, "report: no memory");
	find_sections(json_object_get(stored, "results"), &list);
	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	      "<title>rpbench report</title>\n<style>\n",
	      out);
	fputs(page_style, out);
	fputs("</style>\n</head>\n<body>\n<header><h1>rpbench report</h1>\n"
	      "<p>Figures of ringplane, each beside the limit that it is held against, "
	      "measured in the same run. Absolute times belong to this machine and this "
	      "hour; trust the ratios.</p>\n",
	      out);
	write_failures(stored, out);
	write_machine(stored, out);
	write_contents(&list, out);
	fputs("</header>\n<main>\n", out);
	for (size_t i = 0; i < list.count; i++)
		write_section(stored, list.names[i], &figures, plot, out);
	write_commands(stored, out);
	fputs("</main>\n<footer><p>Times are medians over runs; p99 and p99.9 the "
	      "medians "
	      "of theirs; worst is the worst of all. A difference smaller than the "
	      "spread "
	      "is none.</p></footer>\n</body>\n</html>\n",
	      out);
	free(plot);
	return ferror(out) ? rpi_fail(-EIO, "report: the page could not be written") : 0;
}
