/* SPDX-License-Identifier: MIT */
/* Sub-commands of rpbench run one after the other, each as a child: what one dies of
 * costs the others nothing. */
#ifndef BENCH_SUITE_H
#define BENCH_SUITE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct bench_suite {
	const char *program;	    /* rpbench's path */
	const char *const *options; /* for each, besides --json; NULL at the end */
	int64_t timeout_ns;	    /* for each; it is ended then */
};

/*
 * Run one and add its report, or why there is none. What it says of failures while it
 * reports is kept, too. 0, or negative errno where nothing more can be run.
 */
int bench_suite_run(const struct bench_suite *suite, const char *command, json_t *into);

#endif
