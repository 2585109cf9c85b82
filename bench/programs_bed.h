/* SPDX-License-Identifier: MIT */
/*
 * What the cases of `rpbench programs` have in common: programs whose entries do nothing,
 * and a chip worker that has them, for a slice of the case: it spins.
 */
#ifndef BENCH_PROGRAMS_BED_H
#define BENCH_PROGRAMS_BED_H

#include <stdint.h>

#include <ringplane/chip_worker.h>
#include <ringplane/recording.h>

#include "case.h"

/* Tensors of a call of the program whose runs have several tasks: they are named by its
 * tasks in turn, three by each, of which the last is written. */
#define PROGRAMS_TENSORS 8

struct programs_variant {
	const char *name, *limits;
	int (*round)(struct bench_case *c, struct bench_round *round);
	uint32_t tasks;	  /* of a run; 0: no orchestration */
	bool tensors;	  /* that its tasks name */
	bool recorded;	  /* replays */
	bool no_worker;	  /* what is timed takes none */
	uint32_t chips;	  /* of a one-shot run */
	uint64_t ops_max; /* 0: as many as there are */
};

struct programs_bed {
	const struct programs_variant *variant;
	struct rp_program *program;
	struct rp_chip_worker *worker;
	struct rp_registration *registration;
	struct rp_recording *recording;
	void *memory;
	struct rp_arg args[PROGRAMS_TENSORS];
	size_t arg_count;
};

/* .arg is the variant, .data the bed. */
int programs_bed_setup(struct bench_case *c);
int programs_bed_enter(struct bench_case *c);
void programs_bed_leave(struct bench_case *c);
void programs_bed_teardown(struct bench_case *c);

/* The rounds; a sample is ... */

/* a call through a handle, or by program; */
int programs_registered_round(struct bench_case *c, struct bench_round *round);
int programs_run_round(struct bench_case *c, struct bench_round *round);
/* a submit through a handle, or of a recording; */
int programs_submit_round(struct bench_case *c, struct bench_round *round);
/* the same with the wait; */
int programs_rtt_round(struct bench_case *c, struct bench_round *round);
/* reading and judging an artifact; loading its object; */
int programs_load_round(struct bench_case *c, struct bench_round *round);
int programs_assemble_round(struct bench_case *c, struct bench_round *round);
/* bringing a program to a chip, and its first call; */
int programs_register_round(struct bench_case *c, struct bench_round *round);
int programs_carry_round(struct bench_case *c, struct bench_round *round);
int programs_first_round(struct bench_case *c, struct bench_round *round);
/* or all of it. */
int programs_oneshot_round(struct bench_case *c, struct bench_round *round);

#endif
