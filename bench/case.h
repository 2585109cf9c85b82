/* SPDX-License-Identifier: MIT */
/*
 * A case is one thing that is timed; a plan is the list of them that a
 * sub-command offers. Nothing is set up until the plan runs, so that the same
 * list serves `rpbench list`.
 */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "result.h"
#include "sample.h"

/* From a set-up: this machine lacks what the case needs; rpi_fail() says what. */
#define BENCH_SKIP 1

/* The most samples a case takes in one run. */
#define BENCH_OPS_MAX 200000

/* Operations asked for, and what they gave. */
struct bench_round {
	uint64_t ops; /* how many samples to take */
	uint64_t seed;
	struct bench_samples *samples;
	/* Checksum: depends on what was really done, and not on what went before. */
	uint64_t work;
	uint64_t failures, retries;
};

struct bench_case {
	char name[BENCH_NAME_BYTES];
	const char *unit;
	const char *limits; /* names parted by '|', of this plan; NULL: none */
	double per_sample;  /* of a rate: bytes (GB/s) or things (1/s) of a sample */
	unsigned int batch; /* above 1: a sample is the mean of so many operations */
	uint64_t ops_max;   /* samples in a run at most; 0: BENCH_OPS_MAX */
	const void *arg;    /* the variant: a size, a kind; not owned */
	void *data;	    /* what setup made */
	char remark[BENCH_TEXT_BYTES]; /* for people; any call may fill it, the last text
					  counts */
	const struct bench_options *options;

	/* 0, BENCH_SKIP, or negative errno; after 0 teardown is called once. */
	int (*setup)(struct bench_case *c);
	/*
	 * Do round->ops operations and add one sample of each, in ns. Called for
	 * warm-up and for measuring alike. Negative errno ends the case.
	 */
	int (*round)(struct bench_case *c, struct bench_round *round);
	void (*teardown)(struct bench_case *c);
	/*
	 * Optional, untimed: brings the case to work before its slice and puts it to
	 * rest after, where its processes would take CPU from the other cases.
	 */
	int (*enter)(struct bench_case *c);
	void (*leave)(struct bench_case *c);
};

/* A line that is not timed but computed from others when all runs are done. */
struct bench_derived {
	char name[BENCH_NAME_BYTES];
	const char *unit, *limits;
	const char *needs; /* patterns parted by '|' on the cases it is made from */
};

struct bench_plan {
	struct bench_case *cases;
	size_t case_count;
	struct bench_derived *derived;
	size_t derived_count;
};

/* Copies the case. Asserts that the name is new in the plan. 0 or -ENOMEM. */
int bench_plan_add(struct bench_plan *plan, const struct bench_case *c);
int bench_plan_derive(struct bench_plan *plan, const char *name, const char *unit,
		      const char *limits, const char *needs);

/*
 * Keep what matches the pattern (NULL: everything), the limits of that and the
 * cases that its derived lines are made from. -ENOENT: nothing matches.
 */
int bench_plan_select(struct bench_plan *plan, const char *pattern);

bool bench_plan_has(const struct bench_plan *plan, const char *name);
void bench_plan_free(struct bench_plan *plan);

#endif
