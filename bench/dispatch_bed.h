/* SPDX-License-Identifier: MIT */
/*
 * What the cases of `rpbench dispatch` have in common: a program whose entries do
 * nothing, and a worker to dispatch it to. A worker that spins while it has nothing to
 * do lives for a slice only: it would take the peer's CPU from the limits. Others
 * sleep through the slices of other cases, but are renewed now and then: what a line
 * costs depends on where it lies, and a median should not be that of one place.
 */
#ifndef BENCH_DISPATCH_BED_H
#define BENCH_DISPATCH_BED_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/handle.h>
#include <ringplane/program.h>
#include <ringplane/worker.h>

#include "case.h"
#include "dispatch_worker.h"

/* One case. What is not set is 0: one chip, no arguments, no gap. */
struct dispatch_variant {
	const char *name, *unit, *limits;
	int (*round)(struct bench_case *c, struct bench_round *round);
	enum rp_wait_policy wait; /* of both sides */
	enum bench_place place;
	uint32_t chip_count; /* 0: one */
	uint32_t task_count; /* in a run, chips in turn; 0: no orchestration */
	uint32_t pair_count; /* IN and OUT tensors of DISPATCH_TENSOR_BYTES each */
	uint64_t gap_ns;     /* between two dispatches */
};

#define DISPATCH_TENSOR_BYTES 64
#define DISPATCH_PAIRS_MAX    4

struct dispatch_bed {
	const struct dispatch_variant *variant;
	struct rp_program *program;
	struct rp_worker *worker;
	uint64_t turn;	  /* slices so far */
	bool settling;	  /* this round is not one to count sleeps in */
	uint8_t *tensors; /* IN of all pairs, then OUT; NULL: none */
	struct rp_arg args[2 * DISPATCH_PAIRS_MAX];
	size_t arg_count;
	uint64_t dispatch_count; /* that this worker should have accepted */
	/* Over all slices, for the remark. */
	uint64_t dispatches, worker_sleeps, caller_sleeps;
	double clock_ns; /* that a sample of dispatch_submit_round() was relieved of */
};

/* Add the case; one without a round is the limit of that name. */
int dispatch_bed_plan(struct bench_plan *plan, const struct dispatch_variant *variant);

/* An empty dispatch, both sides spinning, as a limit in the plan of another sub-command.
 */
#define DISPATCH_SPIN "dispatch.spin.rtt"
int dispatch_bed_plan_spin(struct bench_plan *plan);

/* .arg is the variant, .data the bed. */
int dispatch_bed_setup(struct bench_case *c);
int dispatch_bed_enter(struct bench_case *c);
void dispatch_bed_leave(struct bench_case *c);
void dispatch_bed_teardown(struct bench_case *c);

/* Tensor `idx` of the IN ones, or of the OUT ones. */
uint64_t *dispatch_bed_in(const struct dispatch_bed *bed, uint32_t idx);
uint64_t *dispatch_bed_out(const struct dispatch_bed *bed, uint32_t idx);

/* After a round: did the chips run what was dispatched? Counts a failure. */
int dispatch_bed_check(struct dispatch_bed *bed, struct bench_round *round);

/* The rounds; a sample is ... */

/* a run, */
int dispatch_run_round(struct bench_case *c, struct bench_round *round);
/* a run with its arguments, */
int dispatch_args_round(struct bench_case *c, struct bench_round *round);
/* a run after a gap, */
int dispatch_gap_round(struct bench_case *c, struct bench_round *round);
/* a submit alone, */
int dispatch_submit_round(struct bench_case *c, struct bench_round *round);
/* or one dispatch's share of the time with two in flight. */
int dispatch_pipelined_round(struct bench_case *c, struct bench_round *round);

#endif
