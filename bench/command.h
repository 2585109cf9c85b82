/* SPDX-License-Identifier: MIT */
/* A sub-command: a plan of cases, and what is computed from them afterwards. */
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

#include "case.h"
#include "options.h"
#include "result.h"

struct poptOption;

struct bench_command {
	const char *name, *summary;
	const struct poptOption *options; /* its own, besides the common ones, or NULL */

	/* Add the cases. 0 or negative errno. Must not set anything up. */
	int (*plan)(struct bench_plan *plan, const struct bench_options *options);
	/*
	 * Fill the derived lines (each is there, empty, under its name) from the runs
	 * of the cases with bench_result_run(). NULL: there are none.
	 */
	int (*finish)(struct bench_results *results, const struct bench_options *options);
};

/* NULL at the end. */
extern const struct bench_command *const bench_commands[];

extern const struct bench_command bench_limits_command;
extern const struct bench_command bench_dispatch_command;
extern const struct bench_command bench_copy_command;
extern const struct bench_command bench_device_command;
extern const struct bench_command bench_reset_command;
extern const struct bench_command bench_collective_command;
extern const struct bench_command bench_prepare_command;
extern const struct bench_command bench_programs_command;
extern const struct bench_command bench_arena_command;
extern const struct bench_command bench_tasks_command;
extern const struct bench_command bench_decode_command;
extern const struct bench_command bench_trace_command;
extern const struct bench_command bench_peers_command;

#endif
