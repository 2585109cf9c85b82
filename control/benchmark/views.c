/* SPDX-License-Identifier: MIT */
/* What users ask of a benchmark's figures. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/stats.h"

static bool is_metric(enum rp_metric metric)
{
	return (unsigned int)metric < RPI_METRICS;
}

void rp_benchmark_get_info(const struct rp_benchmark_stats *stats,
			   struct rp_benchmark_info *info_out)
{
	if (!info_out)
		return;
	memset(info_out, 0, sizeof(*info_out));
	if (!stats)
		return;
	info_out->rounds = stats->rounds;
	info_out->warmup = stats->warmup;
	info_out->ranks = stats->rank_count;
	info_out->launches = stats->launch_count;
	info_out->all_zero_device = stats->all_zero_device;
	info_out->unstable_dispatch_slots = stats->unstable;
	info_out->fallback_flattened = stats->flattened;
}

size_t rp_benchmark_per_round(const struct rp_benchmark_stats *stats,
			      enum rp_metric metric, const double **us_out)
{
	if (!stats || !us_out || !is_metric(metric))
		return 0;
	*us_out = stats->samples[metric];
	return stats->sample_count[metric];
}

size_t rp_benchmark_per_rank(const struct rp_benchmark_stats *stats,
			     enum rp_metric metric, struct rp_series *series_out,
			     size_t max)
{
	size_t i;

	if (!stats || !is_metric(metric) || metric == RP_METRIC_UNION)
		return 0;
	for (i = 0; i < stats->rank_count && i < max && series_out; i++)
		series_out[i] = (struct rp_series){ .pid = stats->ranks[i].pid,
						    .rank = stats->ranks[i].rank,
						    .task = "",
						    .us = stats->ranks[i].us[metric],
						    .count = stats->rounds };
	return stats->rank_count;
}

size_t rp_benchmark_per_dispatch(const struct rp_benchmark_stats *stats,
				 enum rp_metric metric, struct rp_series *series_out,
				 size_t max)
{
	size_t count = 0;
	uint32_t rank, slot;

	if (!stats || !is_metric(metric) || metric == RP_METRIC_UNION || stats->unstable)
		return 0;
	for (rank = 0; rank < stats->rank_count; rank++) {
		const struct rpi_rank *of = &stats->ranks[rank];

		for (slot = 0; slot < of->slots; slot++, count++) {
			if (count >= max || !series_out)
				continue;
			/* The launches of the first round stand in this order. */
			series_out[count] = (struct rp_series){
				.pid = of->pid,
				.rank = of->rank,
				.slot = slot,
				.task = stats->launches[count].task,
				.us = of->us[metric] + (1 + (size_t)slot) * stats->rounds,
				.count = stats->rounds,
			};
		}
	}
	return count;
}

static int compare_doubles(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* Of sorted values; between two of them where it falls between. */
static double quantile(const double *sorted, size_t count, double q)
{
	double at = q * (double)(count - 1);
	size_t below = (size_t)at;

	if (below + 1 >= count)
		return sorted[count - 1];
	return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

void rp_benchmark_summary(const struct rp_benchmark_stats *stats, enum rp_metric metric,
			  struct rp_summary *summary_out)
{
	const double *us = NULL;
	size_t count = rp_benchmark_per_round(stats, metric, &us);
	double *sorted;
	double sum = 0, squares = 0;
	size_t i;

	if (!summary_out)
		return;
	memset(summary_out, 0, sizeof(*summary_out));
	sorted = count ? malloc(count * sizeof(*sorted)) : NULL;
	if (!sorted)
		return;
	memcpy(sorted, us, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_doubles);
	for (i = 0; i < count; i++)
		sum += sorted[i];
	summary_out->count = count;
	summary_out->mean = sum / (double)count;
	for (i = 0; i < count; i++)
		squares +=
			(sorted[i] - summary_out->mean) * (sorted[i] - summary_out->mean);
	summary_out->stdev = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
	summary_out->min = sorted[0];
	summary_out->max = sorted[count - 1];
	summary_out->median = quantile(sorted, count, 0.5);
	summary_out->p90 = quantile(sorted, count, 0.9);
	summary_out->p99 = quantile(sorted, count, 0.99);
	free(sorted);
}

const struct rp_invocation *rp_benchmark_invocations(
	const struct rp_benchmark_stats *stats, size_t *count_out)
{
	if (count_out)
		*count_out = stats ? stats->launch_count : 0;
	return stats ? stats->launches : NULL;
}

const struct rp_invocation *rp_benchmark_dispatch(const struct rp_benchmark_stats *stats,
						  uint32_t round, int32_t rank,
						  uint32_t slot)
{
	size_t i;

	for (i = 0; stats && i < stats->launch_count; i++) {
		const struct rp_invocation *launch = &stats->launches[i];

		if (launch->round == round && launch->rank == rank &&
		    launch->slot == slot)
			return launch;
	}
	return NULL;
}
