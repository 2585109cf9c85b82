/* SPDX-License-Identifier: MIT */
/*
 * What the cases of `rpbench reset` have in common: a worker whose program writes into
 * the windows of one domain in one dispatch, and looks at them in the next, which is
 * the one that is timed.
 */
#ifndef BENCH_RESET_BED_H
#define BENCH_RESET_BED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/domain.h>
#include <ringplane/program.h>
#include <ringplane/worker.h>

#include "case.h"

/* What becomes of the domain between two dispatches. */
enum reset_policy {
	RESET_NO_DOMAIN, /* there is none */
	RESET_OFF,	 /* retained as it is */
	RESET_ALL,	 /* retained and reset */
	RESET_EAGER,	 /* likewise, as soon as a run is over */
	RESET_SIGNALS,	 /* its first page is reset, the rest kept */
	RESET_FRESH,	 /* released, and allocated anew */
};

struct reset_variant {
	enum reset_policy policy;
	enum rp_reset_engine engine;
	uint32_t chip_count;
	size_t bytes; /* of each window; without a domain at most a page */
	bool sparse;  /* a word in each page is written, not all of it */
	bool works;   /* the host works between the two dispatches, for as long as
		       * zeroing takes */
};

/* Up to this a window is written by the chip that owns it, where there is one only;
 * larger ones by another core. Of several chips each writes the next one's. */
#define RESET_OWN_BYTES ((size_t)64 << 10)

/* What the orchestration enqueues. */
enum reset_step {
	RESET_STEP_WAKE, /* nothing, on all chips */
	RESET_STEP_WRITE,
	RESET_STEP_LOOK,
};

struct reset_bed {
	const struct reset_variant *variant;
	struct rp_program *program;
	struct rp_worker *worker;
	struct rp_domain_spec spec;
	struct rp_domain_buffer buffers[2];
	enum reset_step step;
	void *bare;	 /* without a domain: what the chips write and look at */
	uint8_t *window; /* of chip 0, in this process too */
	uint64_t turn;	 /* slices so far */
	uint64_t uses;	 /* of the domain, by this worker */
	double gap_ns;	 /* that the host works */
};

/* .arg is the variant, .data the bed. */
int reset_bed_setup(struct bench_case *c);
int reset_bed_enter(struct bench_case *c);
void reset_bed_leave(struct bench_case *c);
void reset_bed_teardown(struct bench_case *c);

/* One dispatch of this step, waited for. */
int reset_bed_run(struct reset_bed *bed, enum reset_step step);

/* Get the windows written, by whoever is to, and the chips awake. */
int reset_bed_write(struct reset_bed *bed);

/* Did the chips reset what was to be reset? Counts a failure. */
int reset_bed_check(struct reset_bed *bed, struct bench_round *round);

/* Until the chips have done their eager resets. */
int reset_bed_settle(struct reset_bed *bed);

/* reset_round.c: a sample is a dispatch that looks. */
int reset_look_round(struct bench_case *c, struct bench_round *round);

#endif
