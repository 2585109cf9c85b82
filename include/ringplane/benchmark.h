/* SPDX-License-Identifier: MIT */
/*
 * Time a program: prepare a worker for it, dispatch it round after round, and fold the
 * spans of its launches into figures. A launch is one task of one chip; its rank is the
 * chip, its slot the place among that chip's launches of the round. Times are in us.
 */
#ifndef RINGPLANE_BENCHMARK_H
#define RINGPLANE_BENCHMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/program.h>
#include <ringplane/trace.h>
#include <ringplane/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_benchmark_stats;

struct rp_benchmark_options {
	size_t size; /* sizeof(struct rp_benchmark_options) */
	/* Of the worker that is prepared; its persistent and reset options hold. NULL:
	 * the defaults, with as many chips as the program asks for. No ring_fd; no
	 * capture in either: it would be what is measured. */
	const struct rp_worker_options *worker;
	const struct rp_run_config *config; /* of each dispatch; NULL: none */
};

#define RP_BENCHMARK_ROUNDS_MAX 1000000u

/*
 * Prepare a worker, dispatch `warmup` and then `rounds` times, each dispatch after the
 * end of the one before, and close it.
 *
 * args        of each dispatch: scalars and host memory that dispatches may name.
 * rounds      1..RP_BENCHMARK_ROUNDS_MAX
 * warmup      0..RP_BENCHMARK_ROUNDS_MAX; in no figure.
 * options     NULL: none.
 * stats_out   end it with rp_benchmark_free().
 *
 * Threads     any. Blocks: yes.
 * Returns     0
 *             -EINVAL      NULL, rounds, warm-up, an option
 *             -EXDEV       a resident or stacked tensor: whose ever it is, it is of
 *                          another worker; refused before anything is set up
 *             -EOPNOTSUPP  a build without host spans (SIMPLER_HOST_STRACE=0)
 *             -ENOBUFS     one round recorded more spans than a process keeps
 *             -ENOMEM
 *             other        of rp_worker_prepare(), of a dispatch, of rp_worker_close()
 * Spec        002, Benchmarking
 */
RP_API int rp_benchmark(struct rp_program *program, const struct rp_arg *args,
			size_t nargs, uint32_t rounds, uint32_t warmup,
			const struct rp_benchmark_options *options,
			struct rp_benchmark_stats **stats_out);

/* NULL: nothing. What the calls below returned goes with it. */
RP_API void rp_benchmark_free(struct rp_benchmark_stats *stats);

/* The calls below neither block nor fail, but for NULL; any thread. Pointers that they
 * give are valid until rp_benchmark_free(). */

struct rp_benchmark_info {
	uint32_t rounds, warmup;
	uint32_t ranks;
	size_t launches; /* of all rounds */
	/* No launch has a device time: device spans are silenced, or not in this build.
	 */
	bool all_zero_device;
	/* A slot held several entries in the course of the rounds: the views by dispatch
	 * are empty. */
	bool unstable_dispatch_slots;
	/* Rounds had different launches: the views by rank and by dispatch and `union`
	 * are empty, and a sample is a launch instead of a round. */
	bool fallback_flattened;
};

RP_API void rp_benchmark_get_info(const struct rp_benchmark_stats *stats,
				  struct rp_benchmark_info *info_out);

enum rp_metric {
	RP_METRIC_DEVICE = 0,	 /* the device's wall time */
	RP_METRIC_HOST = 1,	 /* the chip process's, around it */
	RP_METRIC_EFFECTIVE = 2, /* from the first of orch and sched to the end of both */
	RP_METRIC_UNION = 3,	 /* from the first rank's begin to the last one's end */
};

/* One value a round: the largest, over the ranks, of what the launches of a rank took
 * together; the window of all ranks for `union`. Returns how many. */
RP_API size_t rp_benchmark_per_round(const struct rp_benchmark_stats *stats,
				     enum rp_metric metric, const double **us_out);

struct rp_series {
	int32_t pid;
	int32_t rank;
	uint32_t slot; /* 0 in a view by rank */
	/* What runs in the slot: its name, or its id where there is none; "" in a view by
	 * rank. */
	const char *task;
	const double *us; /* one value a round */
	size_t count;
};

/* By rank, the sum of its launches in a round; by dispatch, each alone. Nothing for
 * `union`. Returns how many series there are; up to `max` are stored. */
RP_API size_t rp_benchmark_per_rank(const struct rp_benchmark_stats *stats,
				    enum rp_metric metric, struct rp_series *series_out,
				    size_t max);
RP_API size_t rp_benchmark_per_dispatch(const struct rp_benchmark_stats *stats,
					enum rp_metric metric,
					struct rp_series *series_out, size_t max);

struct rp_summary {
	size_t count;
	double median, min, mean, max;
	double stdev; /* of a sample; 0 of fewer than two */
	double p90, p99;
};

/* Of rp_benchmark_per_round(); RP_METRIC_DEVICE gives the headline figures. */
RP_API void rp_benchmark_summary(const struct rp_benchmark_stats *stats,
				 enum rp_metric metric, struct rp_summary *summary_out);

/* One launch, with all that it recorded. */
struct rp_invocation {
	int32_t pid;
	int32_t rank;
	uint32_t round;
	uint32_t slot;
	const char *task;    /* the entry's name, or its id */
	const char *task_id; /* see struct rp_span */
	double device_wall_us, host_wall_us, effective_us;
	uint64_t begin_ns, end_ns; /* on the host's clock */
	const struct rp_span *spans;
	size_t span_count;
};

/* All launches, by round, rank and slot. */
RP_API const struct rp_invocation *rp_benchmark_invocations(
	const struct rp_benchmark_stats *stats, size_t *count_out);

/* One place of that grid; NULL: there is none. */
RP_API const struct rp_invocation *rp_benchmark_dispatch(
	const struct rp_benchmark_stats *stats, uint32_t round, int32_t rank,
	uint32_t slot);

/* A span of a launch by name; NULL: it has none. */
RP_API const struct rp_span *rp_invocation_span(const struct rp_invocation *invocation,
						const char *name);

enum rp_spread {
	RP_SPREAD_STDEV = 0,
	RP_SPREAD_MINMAX = 1,
	RP_SPREAD_BOTH = 2,
	RP_SPREAD_NONE = 3,
};

/*
 * The span tree of one launch, by its place in rp_benchmark_invocations(); or, for each
 * rank and slot, the mean of its launches. As snprintf(): returns the length of all of
 * it. -EINVAL: NULL, no such launch, no such spread. Each node is a window of time:
 * children may overlap, and the device's lie on its own clock.
 *
 * rank, slot  narrow it; -1: all.
 */
RP_API int rp_benchmark_print_tree(const struct rp_benchmark_stats *stats, size_t launch,
				   char *buf, size_t bytes);
RP_API int rp_benchmark_print_mean_tree(const struct rp_benchmark_stats *stats,
					enum rp_spread spread, int32_t rank, int32_t slot,
					char *buf, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
