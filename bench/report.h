/* SPDX-License-Identifier: MIT */
/* What stands on stdout in the end. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "machine.h"
#include "options.h"
#include "result.h"
#include "runner.h"

struct bench_report {
	const struct bench_options *options;
	const struct bench_machine *machine;
	const struct bench_pace *pace;
	const struct bench_results *results;
};

/* Each writes the whole report. 0 or negative errno. */
int bench_report_text(const struct bench_report *report, FILE *out);
int bench_report_csv(const struct bench_report *report, FILE *out);
int bench_report_json(const struct bench_report *report, FILE *out);
/* What the last one writes. NULL: no memory. */
json_t *bench_report_object(const struct bench_report *report);

/* The lines that begin with '#': the context of the figures. */
void bench_report_context(const struct bench_report *report, FILE *out);

#endif
