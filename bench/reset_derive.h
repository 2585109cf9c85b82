/* SPDX-License-Identifier: MIT */
/* Lines of `rpbench reset` that are computed from others, run by run. */
#ifndef BENCH_RESET_DERIVE_H
#define BENCH_RESET_DERIVE_H

#include <stdbool.h>

#include "case.h"

struct reset_size {
	const char *name, *chips; /* "16MiB", ".2chips" */
	double bytes;		  /* of all windows */
	bool timed;		  /* its resets and loops are times, else rates */
};

/* Forget what the plan before had. */
void reset_derive_begin(void);

/* reset.zero.SIZE: the time of the fastest loop. */
int reset_derive_zero(struct bench_plan *plan, const struct reset_size *size);

/* reset.SIZE.added: a dispatch with a reset less one without. */
int reset_derive_added(struct bench_plan *plan, const struct reset_size *size);

/* reset.SIZE.NAME: reset.SIZE.OF less reset.SIZE.LESS, or reset.nodomain for NULL. */
int reset_derive_less(struct bench_plan *plan, const struct reset_size *size,
		      const char *name, const char *of, const char *less);

int reset_derive_finish(struct bench_results *results,
			const struct bench_options *options);

#endif
