/* SPDX-License-Identifier: MIT */
/*
 * A program whose tasks use comm domains, for tests of what their windows hold. One
 * task per member; each test says what the members do.
 */
#ifndef RPI_TESTS_RINGS_H
#define RPI_TESTS_RINGS_H

#include <stdint.h>

#include "support.h"

/* What a member does with its domain; scalar 0 of its task. */
enum ring_act {
	RING_NOTHING,
	RING_FILL,    /* every byte of its own window: scalar 1 */
	RING_EXPECT,  /* -EILSEQ unless every byte of its own window is scalar 1 */
	RING_MEET,    /* all windows zero, then a mark to each peer and one from each;
		       * fills its window; scalar 1 is the seed of its dawdling */
	RING_FAIL,    /* -EIO */
	RING_BUFFERS, /* -EILSEQ unless the bytes of buffer i are nibble i of scalar 1 */
	RING_GENERATION, /* -EILSEQ unless it is the scalar-1-th use */
};

struct ring {
	struct rp_domain_spec spec;
	enum ring_act act;
	uint64_t operand;
	uint32_t rounds; /* tasks per member; 0: one */
};

/* A program of this name; tasks of `ring_script` only. */
struct rp_program *ring_program(const char *name);

/* Options that start quickly. */
void ring_options(struct rp_worker_options *options, uint32_t chip_count);

void ring_open(struct bed *bed, const struct rp_worker_options *options);

/* A domain of `bytes` per window, on all chips, without buffers. */
struct ring ring_of(const char *name, size_t bytes, enum ring_act act, uint64_t operand);

/* Script: lease the domain, one task per member. */
int ring_script(struct rp_run *run, void *ring);

/* In a script: the tasks alone. */
int ring_tasks(struct rp_run *run, const struct ring *ring, struct rp_domain *domain);

/* Dispatch with a script; `out` NULL waits for the end. */
int ring_submit(struct rp_worker *worker, struct rp_program *program, script_fn script,
		void *arg, struct rp_handle *out);

/* Dispatch ring_script() and wait. */
int ring_run(struct bed *bed, struct ring ring);

#endif
