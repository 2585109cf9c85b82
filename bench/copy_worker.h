/* SPDX-License-Identifier: MIT */
/* The workers of `rpbench copy`: one of each kind, for all cases of that kind. */
#ifndef BENCH_COPY_WORKER_H
#define BENCH_COPY_WORKER_H

#include <ringplane/program.h>

#include "copy_bed.h"

#define COPY_CHIPS_MAX 2

struct copy_worker {
	struct rp_program *program;
	struct rp_worker *worker; /* NULL: not started */
	size_t bytes;		  /* of device memory that its largest case needs */
	uint64_t device[COPY_CHIPS_MAX];
	unsigned int users;
	bool spins;
	uint64_t start_seq; /* counts its starts: device memory is new after one */
};

/* The one that the variant needs, told what it needs; each get needs a put. */
int copy_worker_get(const struct copy_variant *variant, struct copy_worker **out);
void copy_worker_put(struct copy_worker *at);

/* Started when it is not; a spinning one ends with each slice. */
int copy_worker_enter(struct copy_worker *at, const struct copy_variant *variant,
		      const struct bench_options *options);
void copy_worker_leave(struct copy_worker *at);

#endif
