/* SPDX-License-Identifier: MIT */
/* Times by their size: eight buckets for each doubling, so a quantile is off by 9 % at
 * most. */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_BUCKETS (40 * 8)

struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS];
	uint64_t count, max_ns;
};

void histogram_add(struct histogram *histogram, uint64_t ns);

/* The time that a part of all, 0 to 1, does not exceed; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, double part);

/* A bar for each doubling that has any. */
void histogram_print(const struct histogram *histogram, FILE *out);

#endif
