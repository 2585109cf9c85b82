/* SPDX-License-Identifier: MIT */
/* The decode example's loop as cases: a model, and an engine while a case has its turn.
 */
#ifndef BENCH_DECODE_BED_H
#define BENCH_DECODE_BED_H

#include "case.h"
#include "checkpoint.h"
#include "engine.h"
#include "solo.h"

/* Positions that are fed in turn: what came before them lies in the cache. */
#define DECODE_FROM 64
#define DECODE_TO   128

/* How a loop is run. */
enum decode_way {
	DECODE_SINGLE, /* in one thread of this process: the limit */
	DECODE_ONESHOT,
	DECODE_PREPARED,
	DECODE_RESET, /* persistent */
	DECODE_KEEP,  /* persistent, windows not reset */
};

/* What a sample is, of one token. */
enum decode_figure {
	DECODE_TIME,	 /* the whole of it */
	DECODE_OVERHEAD, /* the caller's CPU time */
	DECODE_WALL,	 /* time beyond the slowest chip's entry */
};

struct decode_variant {
	const char *name;
	enum decode_way way;
	enum decode_figure figure;
	uint32_t chips;
	enum chooser chooser;
	enum rp_wait_policy wait, worker_wait;
};

struct decode_bed {
	const struct decode_variant *variant;
	struct checkpoint model;
	struct engine *engine;
	struct solo *solo;
	bool pinned; /* the caller, to its CPU */
	/* The loop: what is fed next, and what is taken next. */
	int32_t token, fed, taken;
};

/* --model of the command line, or NULL. */
extern char *decode_model_path;

int decode_bed_setup(struct bench_case *c);
void decode_bed_teardown(struct bench_case *c);
int decode_bed_enter(struct bench_case *c);
void decode_bed_leave(struct bench_case *c);

/* Samples of `figure`. */
int decode_round(struct bench_case *c, struct bench_round *round);

#endif
