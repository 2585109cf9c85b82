/* SPDX-License-Identifier: MIT */
/* A prepared worker as a case needs it: on the measured CPUs, and gone again before
 * the next case has its turn. */
#ifndef BENCH_DISPATCH_WORKER_H
#define BENCH_DISPATCH_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/chip_worker.h>
#include <ringplane/program.h>
#include <ringplane/worker.h>

#include "options.h"

enum bench_place {
	/* The first chip on the peer's CPU, further ones on others than the caller's
	 * as far as there are any. */
	BENCH_PLACE_PEER,
	/* The same, but the caller's rather than one CPU for two: for chips that work
	 * while the caller waits. */
	BENCH_PLACE_SPREAD,
	/* Wherever rpbench itself may run, not pinned. */
	BENCH_PLACE_ANY,
};

/* One CPU for each chip: the peer's, then those that nobody has yet, with `spread` the
 * parent's, then again. */
void bench_worker_cpus(const struct bench_options *options, bool spread, int *cpus,
		       uint32_t count);

/*
 * rp_worker_prepare() for one program. The caller's thread may use the CPUs of all
 * sides while it prepares, because the library judges by them whether they are
 * enough to spin on; afterwards it is pinned to the parent's again.
 *
 * worker_options  chip_cpus is set here.
 */
int bench_worker_start(const struct bench_options *options, struct rp_program *program,
		       struct rp_worker_options *worker_options, enum bench_place place,
		       struct rp_worker **worker_out);

/* rp_chip_worker_open() with the chip on the peer's CPU, likewise; both sides wait so. */
int bench_chip_worker_start(const struct bench_options *options, enum rp_wait_policy wait,
			    struct rp_chip_worker **worker_out);

/* Close and free; NULL is fine. The first error of a dispatch, or of the close. */
int bench_worker_stop(struct rp_worker *worker);

#endif
