/* SPDX-License-Identifier: MIT */
/* rpbench SUBCOMMAND [options]: one sub-command for each question. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "case.h"
#include "clock.h"
#include "command.h"
#include "compare.h"
#include "figure.h"
#include "machine.h"
#include "options.h"
#include "peer.h"
#include "progress.h"
#include "report.h"
#include "report_command.h"
#include "result.h"
#include "runner.h"
#include "top.h"
#include "topology.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILURES = 1,
	EXIT_USAGE = 2
};

static int complain(int status)
{
	bench_progress_erase();
	fprintf(stderr, "rpbench: %s\n", rp_last_error());
	return status;
}

static void print_usage(FILE *out)
{
	fputs("usage: rpbench SUBCOMMAND [options]\n\n", out);
	for (size_t i = 0; bench_commands[i]; i++)
		fprintf(out, "  %-10s %s\n", bench_commands[i]->name,
			bench_commands[i]->summary);
	fputs("  report     all of them, one page and one JSON: report --out DIR\n"
	      "  compare    what moved beyond the noise: compare A.json B.json\n"
	      "  top        what the workers of a live process count: top PID\n"
	      "  list       the sub-commands and the names that each reports\n\n"
	      "rpbench SUBCOMMAND --help shows the options.\n",
	      out);
}

static int list_all(void)
{
	static const struct bench_options none;

	for (size_t i = 0; bench_commands[i]; i++) {
		struct bench_plan plan = { 0 };

		if (bench_commands[i]->plan(&plan, &none)) {
			bench_plan_free(&plan);
			return complain(EXIT_FAILURES);
		}
		printf("%s: %s\n", bench_commands[i]->name, bench_commands[i]->summary);
		for (size_t j = 0; j < plan.case_count; j++)
			printf("  %s\n", plan.cases[j].name);
		for (size_t j = 0; j < plan.derived_count; j++)
			printf("  %s\n", plan.derived[j].name);
		bench_plan_free(&plan);
	}
	return EXIT_OK;
}

/* Adds the empty lines that are computed, and has them computed. */
static int finish(const struct bench_command *command, const struct bench_plan *plan,
		  const struct bench_options *options, struct bench_results *results)
{
	int err = 0;

	for (size_t i = 0; i < plan->derived_count; i++)
		if (!bench_result_add(results, plan->derived[i].name,
				      plan->derived[i].unit, plan->derived[i].limits))
			return -ENOMEM;
	if (plan->derived_count && command->finish)
		err = command->finish(results, options);
	return err ? err : bench_results_summarise(results);
}

static int report(const struct bench_report *r)
{
	switch (r->options->format) {
	case BENCH_FORMAT_JSON:
		return bench_report_json(r, stdout);
	case BENCH_FORMAT_CSV:
		return bench_report_csv(r, stdout);
	case BENCH_FORMAT_TEXT:
		break;
	}
	return bench_report_text(r, stdout);
}

static int save_plot(const struct bench_command *command, const struct bench_report *r)
{
	json_t *root = bench_report_object(r);
	int err;

	if (!root)
		return rpi_fail(-ENOMEM, "--plot: no memory");
	err = bench_figure_save(json_object_get(root, "results"), command->name,
				r->options->plot);
	json_decref(root);
	return err;
}

/* From a plan that has been selected to the report. */
static int measure(const struct bench_command *command, struct bench_plan *plan,
		   const struct bench_options *options, struct bench_results *results)
{
	struct bench_machine machine;
	struct bench_pace pace;
	struct bench_report r = {
		.options = options, .machine = &machine, .pace = &pace, .results = results
	};
	int err;

	bench_clock_init();
	bench_machine_probe(&machine, options);
	err = bench_cpu_pin(options->cpu[BENCH_PARENT]);
	if (!err)
		err = bench_runner_run(plan, options, results, &pace);
	bench_peers_end();
	if (!err)
		err = finish(command, plan, options, results);
	if (!err)
		err = report(&r);
	if (!err && options->plot)
		err = save_plot(command, &r);
	if (err)
		return complain(EXIT_FAILURES);
	return bench_results_failures(results) ? EXIT_FAILURES : EXIT_OK;
}

static int run_command(const struct bench_command *command, int argc, const char **argv)
{
	struct bench_options options;
	struct bench_plan plan = { 0 };
	struct bench_results results = { 0 };
	char title[32];
	int status;

	rpi_format(title, sizeof(title), "rpbench %s", command->name);
	argv[0] = title; /* as the help shows it */
	if (bench_options_parse(&options, command, argc, argv))
		status = complain(EXIT_USAGE);
	else if (command->plan(&plan, &options))
		status = complain(EXIT_FAILURES);
	else if (bench_plan_select(&plan, options.only))
		status = complain(EXIT_USAGE);
	else
		status = measure(command, &plan, &options, &results);
	bench_results_free(&results);
	bench_plan_free(&plan);
	bench_options_free(&options);
	return status;
}

static int run_compare(int argc, const char **argv)
{
	if (argc != 4) {
		rpi_fail(-EINVAL,
			 "compare: %d words, expected two files that --json made",
			 argc - 2);
		return complain(EXIT_USAGE);
	}
	return bench_compare(argv[2], argv[3], stdout) ? complain(EXIT_FAILURES)
						       : EXIT_OK;
}

static int run(int argc, const char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	for (size_t i = 0; bench_commands[i]; i++)
		if (!strcmp(word, bench_commands[i]->name))
			return run_command(bench_commands[i], argc - 1, argv + 1);
	if (!strcmp(word, "report"))
		return bench_report_command(argc - 1, argv + 1);
	if (!strcmp(word, "compare"))
		return run_compare(argc, argv);
	if (!strcmp(word, "top"))
		return bench_top(argc - 1, argv + 1);
	if (!strcmp(word, "list"))
		return list_all();
	if (!strcmp(word, "--version")) {
		printf("rpbench %s%s%s\n", bench_version(),
		       bench_revision()[0] ? " " : "", bench_revision());
		return EXIT_OK;
	}
	if (!strcmp(word, "--help") || !strcmp(word, "help") || !strcmp(word, "-h")) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (word[0])
		fprintf(stderr, "rpbench: \"%s\" is no sub-command\n", word);
	print_usage(stderr);
	return EXIT_USAGE;
}

int main(int argc, const char **argv)
{
	int status;

	/* Ignored, as some parents leave it, it takes the status of what is started. */
	signal(SIGCHLD, SIG_DFL);
	status = run(argc, argv);
	errno = 0;
	if ((!fflush(stdout) && !ferror(stdout)) || status)
		return status;
	/* An error of before is not known any more. */
	rpi_fail(-EIO, "stdout: %s",
		 errno ? strerror(errno) : "could not be written to the end");
	return complain(EXIT_FAILURES);
}
