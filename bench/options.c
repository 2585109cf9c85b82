/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "command.h"
#include "plot.h"
#include "topology.h"

#define RUNS_DEFAULT 9
#define RUNS_QUICK   5
#define RUNS_MAX     1000
#define SEED_DEFAULT 42

/* No number that anybody would mean. */
#define NOT_GIVEN INT_MIN

/* As popt fills them, before they are judged. */
struct raw_options {
	int quick, json, csv, runs;
	long long seed, ops;
	char *cpus, *only, *plot;
};

static int parse_cpus(const char *text, int cpu_out[2])
{
	int end = 0;

	if (sscanf(text, "%d,%d%n", &cpu_out[0], &cpu_out[1], &end) != 2 || text[end])
		return rpi_fail(-EINVAL, "--cpus: \"%s\", expected two numbers A,B",
				text);
	for (int i = 0; i < 2; i++)
		if (!bench_cpu_allowed(cpu_out[i]))
			return rpi_fail(
				-EINVAL,
				"--cpus: %d, expected a CPU that this process may use",
				cpu_out[i]);
	return 0;
}

static int judge(struct bench_options *options, const struct raw_options *raw)
{
	if (raw->json && raw->csv)
		return rpi_fail(-EINVAL, "--json and --csv: both given, expected one");
	if (raw->runs != NOT_GIVEN && (raw->runs < 1 || raw->runs > RUNS_MAX))
		return rpi_fail(-EINVAL, "--runs: %d, expected 1 to %d", raw->runs,
				RUNS_MAX);
	if (raw->ops != NOT_GIVEN && raw->ops < 1)
		return rpi_fail(-EINVAL, "--ops: %lld, expected 1 or more", raw->ops);
	/* Now, and not after all has been measured. */
	if (raw->plot && !plot_tool()[0])
		return rpi_fail(-ENOENT, "--plot: gnuplot is not installed, expected "
					 "the package gnuplot-nox");

	options->quick = raw->quick;
	options->format = raw->json  ? BENCH_FORMAT_JSON
			  : raw->csv ? BENCH_FORMAT_CSV
				     : BENCH_FORMAT_TEXT;
	options->run_count = raw->runs != NOT_GIVEN ? (unsigned int)raw->runs
			     : raw->quick	    ? RUNS_QUICK
						    : RUNS_DEFAULT;
	options->seed = (uint64_t)raw->seed;
	options->ops = raw->ops == NOT_GIVEN ? 0 : (uint64_t)raw->ops;
	options->only = raw->only ? strdup(raw->only) : NULL;
	options->plot = raw->plot ? strdup(raw->plot) : NULL;
	if (raw->cpus)
		return parse_cpus(raw->cpus, options->cpu);
	return bench_cpus_choose(options->cpu);
}

int bench_options_parse(struct bench_options *options,
			const struct bench_command *command, int argc, const char **argv)
{
	struct raw_options raw = { .runs = NOT_GIVEN,
				   .ops = NOT_GIVEN,
				   .seed = SEED_DEFAULT };
	struct poptOption none[] = { POPT_TABLEEND };
	struct poptOption table[] = {
		{ "quick", 'q', POPT_ARG_NONE, &raw.quick, 0,
		  "short runs: at most 12 s in all", NULL },
		{ "json", 'j', POPT_ARG_NONE, &raw.json, 0, "one JSON object on stdout",
		  NULL },
		{ "csv", 0, POPT_ARG_NONE, &raw.csv, 0,
		  "comma separated values, context in # lines", NULL },
		{ "runs", 'r', POPT_ARG_INT, &raw.runs, 0,
		  "runs of each case (9; quick 5)", "N" },
		{ "ops", 0, POPT_ARG_LONGLONG, &raw.ops, 0,
		  "operations of each case in a run (as the time allows)", "N" },
		{ "seed", 0, POPT_ARG_LONGLONG, &raw.seed, 0, "seed of the payloads (42)",
		  "N" },
		{ "cpus", 'c', POPT_ARG_STRING, &raw.cpus, 0,
		  "CPUs of the parent and of its peer (two cores of one socket)", "A,B" },
		{ "only", 'o', POPT_ARG_STRING, &raw.only, 0,
		  "only the names that match, and their limits", "PATTERN" },
		{ "plot", 0, POPT_ARG_STRING, &raw.plot, 0,
		  "also the figure of the sub-command, drawn by gnuplot", "FILE.svg" },
		{ NULL, 0, POPT_ARG_INCLUDE_TABLE,
		  (void *)(uintptr_t)(command->options ? command->options : none), 0,
		  NULL, NULL },
		POPT_AUTOHELP POPT_TABLEEND
	};
	poptContext context;
	int got, err;

	memset(options, 0, sizeof(*options));
	context = poptGetContext("rpbench", argc, argv, table, 0);
	if (!context)
		return rpi_fail(-ENOMEM, "rpbench: no memory for the command line");
	got = poptGetNextOpt(context);
	if (got < -1)
		err = rpi_fail(-EINVAL, "%s: %s",
			       poptBadOption(context, POPT_BADOPTION_NOALIAS),
			       poptStrerror(got));
	else if (poptPeekArg(context))
		err = rpi_fail(-EINVAL, "%s: \"%s\", expected options only",
			       command->name, poptPeekArg(context));
	else
		err = judge(options, &raw);
	poptFreeContext(context);
	free(raw.cpus);
	free(raw.only);
	free(raw.plot);
	return err;
}

void bench_options_free(struct bench_options *options)
{
	free(options->only);
	options->only = NULL;
	free(options->plot);
	options->plot = NULL;
}
