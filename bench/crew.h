/* SPDX-License-Identifier: MIT */
/*
 * Processes that do the same plain thing at the same time, each in its own area of
 * shared memory, as the chips of a worker would: the limits of what several chips do
 * to memory. One crew for each number of processes serves all cases of that number.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <stddef.h>
#include <stdint.h>

#include "case.h"

#define CREW_MAX 4

/* Most samples that a round has room for. */
#define CREW_OPS_MAX 4096

struct crew;

/* One operation of one process. */
struct crew_turn {
	const void *arg;	   /* the job's */
	uint8_t *area, *next_area; /* its own, and the next process's */
	uint64_t op;
};

/* Functions of the image that all processes were forked from. */
struct crew_job {
	/* Not timed: by each process, or by the caller for the first, before all meet. */
	void (*ready)(const struct crew_turn *turn);
	void (*caller_ready)(const struct crew_turn *turn);
	void (*act)(const struct crew_turn *turn); /* timed */
	/* Not timed: 0, or negative errno, which ends the process. NULL: none. */
	int (*check)(const struct crew_turn *turn);
	const void *arg; /* memory that was there before the crew was started */
};

/* In a case's set-up; each get needs a put. 0, BENCH_SKIP or negative errno. */
int crew_get(uint32_t process_count, size_t area_bytes, struct crew **out);
void crew_put(struct crew *crew);

/* Start the processes unless they are there: after all set-ups. */
int crew_enter(struct crew *crew, const struct bench_options *options);

/* A sample is the time from the first process that begins to the last that ends. */
int crew_round(struct crew *crew, const struct crew_job *job,
	       const struct bench_options *options, struct bench_round *round);

#endif
