/* SPDX-License-Identifier: MIT */
/*
 * What the cases of `rpbench collective` have in common: a worker whose chips do one
 * collective again and again inside one task each, and note when they begin and end.
 */
#ifndef BENCH_COLLECTIVE_BED_H
#define BENCH_COLLECTIVE_BED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/comm.h>

#include "case.h"

enum collective_kind {
	COLLECTIVE_BARRIER,
	COLLECTIVE_ALLREDUCE,
	COLLECTIVE_BROADCAST,
	COLLECTIVE_ALLGATHER,
	COLLECTIVE_REDUCE_SCATTER,
	COLLECTIVE_ALL_TO_ALL,
};

struct collective_variant {
	enum collective_kind kind;
	enum rp_algorithm algorithm;
	uint32_t chip_count;
	size_t bytes; /* `count` of the call, of float32; 0: barrier */
	bool outside; /* data that are not in the window */
};

/* Most samples that a round has room for. */
#define COLLECTIVE_OPS_MAX 8192

/* .arg is the variant; a sample is the time from the first rank that calls to the last
 * that returns. */
int collective_bed_setup(struct bench_case *c);
int collective_bed_enter(struct bench_case *c);
void collective_bed_leave(struct bench_case *c);
int collective_bed_round(struct bench_case *c, struct bench_round *round);
void collective_bed_teardown(struct bench_case *c);

#endif
