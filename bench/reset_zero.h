/* SPDX-License-Identifier: MIT */
/*
 * The limit of a reset: plain loops that zero as many bytes, in as many processes at
 * once as there are chips, each in a window that has just been written.
 */
#ifndef BENCH_RESET_ZERO_H
#define BENCH_RESET_ZERO_H

#include <ringplane/worker.h>

#include "case.h"

struct reset_zero {
	size_t bytes; /* of each window */
	uint32_t process_count;
	enum rp_reset_engine engine;
	bool sparse;
	bool own; /* the process that zeroes a window has written it; else another */
};

/* .arg is the struct reset_zero; a sample is the time until all windows are zero. */
int reset_zero_setup(struct bench_case *c);
int reset_zero_enter(struct bench_case *c);
int reset_zero_round(struct bench_case *c, struct bench_round *round);
void reset_zero_teardown(struct bench_case *c);

#endif
