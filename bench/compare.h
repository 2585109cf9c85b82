/* SPDX-License-Identifier: MIT */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include <stdio.h>

/*
 * Print what moved between two reports of --json. A figure has moved beyond the noise
 * when the medians of its runs in one lie all above those in the other. 0, -EINVAL for
 * what is no report, or what the file says.
 */
int bench_compare(const char *before, const char *after, FILE *out);

#endif
