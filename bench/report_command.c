/* SPDX-License-Identifier: MIT */
/* rpbench report: all sub-commands in turn, one page and one JSON of what they found. */
#define _GNU_SOURCE
#include "report_command.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <popt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "command.h"
#include "page.h"
#include "plot.h"
#include "progress.h"
#include "stored.h"
#include "suite.h"
#include "textfile.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILURES = 1,
	EXIT_USAGE = 2
};

#define OUT_DEFAULT   "rpbench-report"
#define QUICK_TIME_NS INT64_C(120000000000)
#define FULL_TIME_NS  INT64_C(3600000000000)
#define OPTIONS_MAX   16

struct report_options {
	char *out, *commands, *runs, *ops, *seed, *cpus;
	int full, from;
	const char **files; /* NULL at the end, or NULL: none */
};

static int complain(int status)
{
	bench_progress_erase();
	fprintf(stderr, "rpbench: %s\n", rp_last_error());
	return status;
}

/* Whether a list parted by commas has the word. */
static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	while (*list) {
		size_t part = strcspn(list, ",");

		if (part == length && !strncmp(list, word, length))
			return true;
		list += part + (list[part] == ',');
	}
	return false;
}

static int check_commands(const char *list)
{
	while (*list) {
		size_t part = strcspn(list, ",");
		bool known = false;

		for (size_t i = 0; bench_commands[i]; i++)
			known |= part == strlen(bench_commands[i]->name) &&
				 !strncmp(list, bench_commands[i]->name, part);
		if (!known)
			return rpi_fail(-EINVAL,
					"--commands: \"%.*s\", expected sub-commands "
					"parted by commas",
					(int)part, list);
		list += part + (list[part] == ',');
	}
	return 0;
}

static int judge(const struct report_options *o)
{
	if (o->from && !o->files)
		return rpi_fail(-EINVAL, "--from: no file, expected reports of --json");
	if (!o->from && o->files)
		return rpi_fail(-EINVAL,
				"report: \"%s\", expected options only, or "
				"--from before files",
				o->files[0]);
	if (o->from &&
	    (o->commands || o->full || o->runs || o->ops || o->seed || o->cpus))
		return rpi_fail(-EINVAL, "--from: with an option of a run, expected "
					 "--out only: nothing is run");
	return o->commands ? check_commands(o->commands) : 0;
}

/* 0; negative errno. What *context_out holds is needed as long as the options are. */
static int parse(int argc, const char **argv, struct report_options *o,
		 poptContext *context_out)
{
	const struct poptOption table[] = {
		{ "out", 0, POPT_ARG_STRING, &o->out, 0,
		  "folder of report.html and report.json (" OUT_DEFAULT ")", "DIR" },
		{ "commands", 0, POPT_ARG_STRING, &o->commands, 0,
		  "only these sub-commands, parted by commas (all)", "LIST" },
		{ "full", 0, POPT_ARG_NONE, &o->full, 0,
		  "long runs of all cases instead of --quick", NULL },
		{ "from", 0, POPT_ARG_NONE, &o->from, 0,
		  "run nothing: the results are in the files that follow", NULL },
		{ "runs", 'r', POPT_ARG_STRING, &o->runs, 0, "as for each of them", "N" },
		{ "ops", 0, POPT_ARG_STRING, &o->ops, 0, "as for each of them", "N" },
		{ "seed", 0, POPT_ARG_STRING, &o->seed, 0, "as for each of them", "N" },
		{ "cpus", 'c', POPT_ARG_STRING, &o->cpus, 0, "as for each of them",
		  "A,B" },
		POPT_AUTOHELP POPT_TABLEEND
	};
	poptContext context = poptGetContext("rpbench report", argc, argv, table, 0);
	int got;

	*context_out = context;
	if (!context)
		return rpi_fail(-ENOMEM, "report: no memory for the command line");
	poptSetOtherOptionHelp(context, "[OPTION...] [--from FILE.json...]");
	got = poptGetNextOpt(context);
	if (got < -1)
		return rpi_fail(-EINVAL, "report: %s: %s",
				poptBadOption(context, POPT_BADOPTION_NOALIAS),
				poptStrerror(got));
	o->files = poptGetArgs(context);
	return judge(o);
}

/* The report or its page; the text is the caller's to free. */
static int make_text(const json_t *stored, bool page, char **text_out)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	int err = 0;

	if (!out)
		return rpi_fail(-ENOMEM, "report: no memory");
	if (page)
		err = bench_page_write(stored, out);
	else if (json_dumpf(stored, out, JSON_INDENT(1) | JSON_REAL_PRECISION(7)) ||
		 fputc('\n', out) == EOF)
		err = rpi_fail(-ENOMEM, "report: no memory");
	if (fclose(out) && !err)
		err = rpi_fail(-ENOMEM, "report: no memory");
	if (err)
		free(text);
	else
		*text_out = text;
	return err;
}

/* Written whole under another name first: a page that is there stays until then. Before
 * that in memory: a page's plots take their time, and may be interrupted. */
static int write_one(const char *dir, const char *name, const json_t *stored, bool page)
{
	char path[4096], temporary[4096 + 8], *text = NULL;
	int err = make_text(stored, page, &text);

	if (err)
		return err;
	rpi_format(path, sizeof(path), "%s/%s", dir, name);
	rpi_format(temporary, sizeof(temporary), "%s.new", path);
	err = bench_textfile_write(temporary, text);
	free(text);
	if (!err && rename(temporary, path))
		err = -errno;
	if (!err)
		return 0;
	unlink(temporary);
	return rpi_fail(err, "--out: '%s' could not be written: %s", path,
			strerror(-err));
}

static int run_all(const struct report_options *o, const char *dir, json_t *stored)
{
	const struct {
		const char *word, *value;
	} given[] = { { "--runs", o->runs },
		      { "--ops", o->ops },
		      { "--seed", o->seed },
		      { "--cpus", o->cpus } };
	const char *options[OPTIONS_MAX] = { NULL };
	struct bench_suite suite = { .program = "/proc/self/exe",
				     .options = options,
				     .timeout_ns = o->full ? FULL_TIME_NS
							   : QUICK_TIME_NS };
	size_t n = 0;
	int err = 0;

	if (!o->full)
		options[n++] = "--quick";
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		if (given[i].value) {
			options[n++] = given[i].word;
			options[n++] = given[i].value;
		}
	for (size_t i = 0; !err && bench_commands[i]; i++) {
		if (o->commands && !list_has(o->commands, bench_commands[i]->name))
			continue;
		bench_progress("report  %s", bench_commands[i]->name);
		err = bench_suite_run(&suite, bench_commands[i]->name, stored);
		/* Should this be ended before the last: --from makes a page of it. */
		if (!err)
			err = write_one(dir, "report.json", stored, false);
	}
	bench_progress_erase();
	return err;
}

static int read_all(const struct report_options *o, json_t *stored)
{
	for (size_t i = 0; o->files[i]; i++) {
		json_t *report = bench_stored_load(o->files[i], "report");

		if (!report)
			return -EINVAL;
		bench_stored_add(stored, o->files[i], report, -1.0);
		json_decref(report);
	}
	return 0;
}

static void describe(json_t *stored)
{
	json_t *report = json_object_get(stored, "report");
	time_t now = time(NULL);
	struct tm tm;
	char made[32] = "";

	if (gmtime_r(&now, &tm))
		strftime(made, sizeof(made), "%Y-%m-%d %H:%M UTC", &tm);
	json_object_set_new(report, "made", json_string(made));
	json_object_set_new(report, "libc", json_string(gnu_get_libc_version()));
	json_object_set_new(report, "plots",
			    plot_tool()[0] ? json_string(plot_tool()) : json_null());
}

static bool any_error(const json_t *stored)
{
	const json_t *command;
	size_t i;

	json_array_foreach(json_object_get(stored, "commands"), i, command)
	{
		if (bench_stored_text(command, "error")[0])
			return true;
	}
	return false;
}

static int make(const struct report_options *o, json_t *stored)
{
	const char *dir = o->out ? o->out : OUT_DEFAULT;
	int err;

	/* Before the minutes that the set takes. */
	if (mkdir(dir, 0777) && errno != EEXIST)
		return rpi_fail(-errno, "--out: '%s': %s", dir, strerror(errno));
	err = o->from ? read_all(o, stored) : run_all(o, dir, stored);
	if (err)
		return err;
	describe(stored);
	err = write_one(dir, "report.json", stored, false);
	if (!err)
		err = write_one(dir, "report.html", stored, true);
	if (!err)
		printf("%s/report.html\n%s/report.json\n", dir, dir);
	return err;
}

int bench_report_command(int argc, const char **argv)
{
	struct report_options o = { 0 };
	json_t *stored = bench_stored_new();
	poptContext context = NULL;
	int status = EXIT_OK;

	if (!stored)
		rpi_fail(-ENOMEM, "report: no memory");
	if (!stored || parse(argc, argv, &o, &context))
		status = complain(EXIT_USAGE);
	else if (make(&o, stored))
		status = complain(EXIT_FAILURES);
	else if (any_error(stored))
		status = EXIT_FAILURES;
	json_decref(stored);
	poptFreeContext(context);
	free(o.out);
	free(o.commands);
	free(o.runs);
	free(o.ops);
	free(o.seed);
	free(o.cpus);
	return status;
}
