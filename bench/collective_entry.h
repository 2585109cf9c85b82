/* SPDX-License-Identifier: MIT */
/* What a chip does in `rpbench collective`, and what it shares with the caller. */
#ifndef BENCH_COLLECTIVE_ENTRY_H
#define BENCH_COLLECTIVE_ENTRY_H

#include <ringplane/program.h>

#include "base/cpu.h"
#include "collective_bed.h"
#include "crew.h"

/* Memory that is there before the fork; ordered by the dispatch and its end. */
struct collective_words {
	/* The caller's. */
	_Alignas(RPI_SHARE_ALIGN) struct collective_variant variant;
	uint64_t ops;
	uint64_t seed;

	/* Each rank's own. */
	struct {
		_Alignas(RPI_SHARE_ALIGN) uint64_t begin[COLLECTIVE_OPS_MAX];
		uint64_t end[COLLECTIVE_OPS_MAX];
	} times[CREW_MAX];
};

/* Bytes of `in` and of `out`. */
size_t collective_in_bytes(const struct collective_variant *variant);
size_t collective_out_bytes(const struct collective_variant *variant);

/* What the chips of the next worker are to use: they inherit it. */
void collective_entry_use(struct collective_words *of);

/* Does words->ops collectives; its argument is the domain. */
int collective_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);

#endif
