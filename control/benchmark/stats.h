/* SPDX-License-Identifier: MIT */
/* What a benchmark found, folded from spans. Immutable once it was folded. */
#ifndef RPI_BENCHMARK_STATS_H
#define RPI_BENCHMARK_STATS_H

#include <ringplane/benchmark.h>

#define RPI_METRICS 4

struct rpi_rank {
	int32_t pid;
	int32_t rank;
	uint32_t slots;		 /* launches a round */
	double *us[RPI_METRICS]; /* [rounds] sums; then [slots][rounds] single ones */
};

struct rp_benchmark_stats {
	uint32_t rounds, warmup;
	struct rp_span *spans; /* those of launches, by launch */
	size_t span_count;
	struct rp_invocation *launches; /* by round, rank, slot */
	size_t launch_count;
	struct rpi_rank *ranks;
	uint32_t rank_count;
	bool all_zero_device, unstable, flattened;
	double *samples[RPI_METRICS]; /* per round, or per launch where flattened */
	size_t sample_count[RPI_METRICS];
};

/*
 * Fold spans into stats. `spans` is the stats' from then on, also after a failure.
 *
 * runs        the number of each round's run, ascending; spans of other runs are ignored.
 * 0 or -ENOMEM.
 */
int rpi_benchmark_fold(struct rp_span *spans, size_t count, const uint64_t *runs,
		       uint32_t rounds, uint32_t warmup,
		       struct rp_benchmark_stats **stats_out);

#endif
