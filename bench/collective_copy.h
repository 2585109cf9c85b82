/* SPDX-License-Identifier: MIT */
/* The limit of a collective that moves much: memcpy() in as many processes at once as
 * there are ranks, each between buffers of its own. */
#ifndef BENCH_COLLECTIVE_COPY_H
#define BENCH_COLLECTIVE_COPY_H

#include "case.h"

struct collective_copy {
	size_t bytes;
	uint32_t process_count;
};

/* .arg is the struct collective_copy; a sample is the time until all have copied. */
int collective_copy_setup(struct bench_case *c);
int collective_copy_enter(struct bench_case *c);
int collective_copy_round(struct bench_case *c, struct bench_round *round);
void collective_copy_teardown(struct bench_case *c);

#endif
