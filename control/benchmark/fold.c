/* SPDX-License-Identifier: MIT */
/* From spans to launches, from launches to a grid of rounds, ranks and slots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "benchmark/stats.h"

#define ROOT   "chip.run"
#define DEVICE "chip.run.runner_run.device_wall"

static double us(uint64_t ns)
{
	return (double)ns / 1000.0;
}

static bool is_launch_span(const struct rp_span *span)
{
	const size_t root = strlen(ROOT);

	return span->task && !strncmp(span->name, ROOT, root) &&
	       (!span->name[root] || span->name[root] == '.');
}

/* The round of a run, or -1. */
static int64_t round_of(const uint64_t *runs, uint32_t rounds, uint64_t run)
{
	uint32_t low = 0, high = rounds;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (runs[middle] < run)
			low = middle + 1;
		else
			high = middle;
	}
	return low < rounds && runs[low] == run ? (int64_t)low : -1;
}

static int compare_spans(const void *left, const void *right)
{
	const struct rp_span *a = left, *b = right;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->task != b->task)
		return a->task < b->task ? -1 : 1;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	/* The outer one first. */
	return strcmp(a->name, b->name);
}

static bool same_launch(const struct rp_span *a, const struct rp_span *b)
{
	return a->run == b->run && a->peer == b->peer && a->pid == b->pid &&
	       a->task == b->task;
}

const struct rp_span *rp_invocation_span(const struct rp_invocation *invocation,
					 const char *name)
{
	size_t i;

	for (i = 0; invocation && name && i < invocation->span_count; i++)
		if (!strcmp(invocation->spans[i].name, name))
			return &invocation->spans[i];
	return NULL;
}

static double length_of(const struct rp_invocation *launch, const char *name)
{
	const struct rp_span *span = rp_invocation_span(launch, name);

	return span ? us(span->duration_ns) : 0;
}

/* From the first begin to the last end of the entry and of its kernels. */
static double effective(const struct rp_invocation *launch)
{
	const struct rp_span *orch = rp_invocation_span(launch, DEVICE ".orch");
	const struct rp_span *sched = rp_invocation_span(launch, DEVICE ".sched");
	uint64_t begin, end, sched_end;

	if (!orch || !sched)
		return orch ? us(orch->duration_ns) : sched ? us(sched->duration_ns) : 0;
	begin = orch->begin_ns < sched->begin_ns ? orch->begin_ns : sched->begin_ns;
	end = orch->begin_ns + orch->duration_ns;
	sched_end = sched->begin_ns + sched->duration_ns;
	return us((end > sched_end ? end : sched_end) - begin);
}

/* False for one whose root was lost: nothing can be said of it. */
static bool describe(struct rp_invocation *launch)
{
	const struct rp_span *root = rp_invocation_span(launch, ROOT);

	if (!root)
		return false;
	launch->pid = root->pid;
	launch->rank = root->peer;
	launch->task = root->task_name[0] ? root->task_name : root->task_id;
	launch->task_id = root->task_id;
	launch->host_wall_us = us(root->duration_ns);
	launch->device_wall_us = length_of(launch, DEVICE);
	launch->effective_us = effective(launch);
	launch->begin_ns = root->begin_ns;
	launch->end_ns = root->begin_ns + root->duration_ns;
	return true;
}

static void find_launches(struct rp_benchmark_stats *stats, const uint64_t *runs)
{
	const struct rp_span *spans = stats->spans;
	size_t from, to;

	for (from = 0; from < stats->span_count; from = to) {
		struct rp_invocation *launch = &stats->launches[stats->launch_count];
		const struct rp_invocation *before = launch - 1;

		for (to = from + 1;
		     to < stats->span_count && same_launch(&spans[from], &spans[to]);)
			to++;
		*launch = (struct rp_invocation){
			.round = (uint32_t)round_of(runs, stats->rounds, spans[from].run),
			.spans = &spans[from],
			.span_count = to - from,
		};
		if (!describe(launch))
			continue;
		if (stats->launch_count && before->round == launch->round &&
		    before->rank == launch->rank && before->pid == launch->pid)
			launch->slot = before->slot + 1;
		stats->launch_count++;
	}
}

/* --- The shape of a round ------------------------------------------------- */

static size_t round_end(const struct rp_benchmark_stats *stats, size_t from)
{
	size_t to = from;

	while (to < stats->launch_count &&
	       stats->launches[to].round == stats->launches[from].round)
		to++;
	return to;
}

/* Every round has the launches of the first, rank by rank. */
static bool is_regular(const struct rp_benchmark_stats *stats, size_t width)
{
	size_t i;

	if (!width || stats->launch_count != width * stats->rounds)
		return false;
	for (i = 0; i < stats->launch_count; i++) {
		const struct rp_invocation *launch = &stats->launches[i];
		const struct rp_invocation *first = &stats->launches[i % width];

		if (launch->round != i / width || launch->rank != first->rank ||
		    launch->pid != first->pid || launch->slot != first->slot)
			return false;
	}
	return true;
}

static bool is_stable(const struct rp_benchmark_stats *stats, size_t width)
{
	size_t i;

	for (i = width; i < stats->launch_count; i++)
		if (strcmp(stats->launches[i].task_id,
			   stats->launches[i % width].task_id) != 0)
			return false;
	return true;
}

static double value_of(const struct rp_invocation *launch, int metric)
{
	switch (metric) {
	case RP_METRIC_DEVICE:
		return launch->device_wall_us;
	case RP_METRIC_HOST:
		return launch->host_wall_us;
	default:
		return launch->effective_us;
	}
}

/* The ranks of the first round, and their series. */
static int find_ranks(struct rp_benchmark_stats *stats, size_t width)
{
	struct rpi_rank *rank = NULL;
	size_t i;
	int metric;

	stats->ranks = calloc(width, sizeof(*stats->ranks));
	if (!stats->ranks)
		return -ENOMEM;
	for (i = 0; i < width; i++) {
		const struct rp_invocation *launch = &stats->launches[i];

		if (!launch->slot) {
			rank = &stats->ranks[stats->rank_count++];
			rank->pid = launch->pid;
			rank->rank = launch->rank;
		}
		if (rank)
			rank->slots++;
	}
	for (i = 0; i < stats->rank_count; i++) {
		rank = &stats->ranks[i];
		for (metric = 0; metric < RP_METRIC_UNION; metric++) {
			rank->us[metric] =
				calloc((1 + (size_t)rank->slots) * stats->rounds,
				       sizeof(double));
			if (!rank->us[metric])
				return -ENOMEM;
		}
	}
	return 0;
}

static void fill_ranks(struct rp_benchmark_stats *stats)
{
	struct rpi_rank *rank = stats->ranks;
	int metric;
	size_t i;

	for (i = 0; i < stats->launch_count; i++) {
		const struct rp_invocation *launch = &stats->launches[i];

		while (rank->rank != launch->rank || rank->pid != launch->pid)
			if (++rank == stats->ranks + stats->rank_count)
				rank = stats->ranks;
		for (metric = 0; metric < RP_METRIC_UNION; metric++) {
			double value = value_of(launch, metric);

			rank->us[metric][launch->round] += value;
			rank->us[metric][(1 + (size_t)launch->slot) * stats->rounds +
					 launch->round] = value;
		}
	}
}

/* --- Samples -------------------------------------------------------------- */

static void sample_rounds(struct rp_benchmark_stats *stats)
{
	uint32_t round, rank;
	int metric;
	size_t from, to, i;

	for (metric = 0; metric < RP_METRIC_UNION; metric++) {
		for (round = 0; round < stats->rounds; round++) {
			double most = 0;

			for (rank = 0; rank < stats->rank_count; rank++)
				if (stats->ranks[rank].us[metric][round] > most)
					most = stats->ranks[rank].us[metric][round];
			stats->samples[metric][round] = most;
		}
		stats->sample_count[metric] = stats->rounds;
	}
	for (from = 0; from < stats->launch_count; from = to) {
		uint64_t begin = stats->launches[from].begin_ns, end = 0;

		to = round_end(stats, from);
		for (i = from; i < to; i++) {
			if (stats->launches[i].begin_ns < begin)
				begin = stats->launches[i].begin_ns;
			if (stats->launches[i].end_ns > end)
				end = stats->launches[i].end_ns;
		}
		stats->samples[RP_METRIC_UNION][stats->launches[from].round] =
			us(end - begin);
	}
	stats->sample_count[RP_METRIC_UNION] = stats->rounds;
}

static void sample_launches(struct rp_benchmark_stats *stats)
{
	int metric;
	size_t i;

	for (metric = 0; metric < RP_METRIC_UNION; metric++) {
		for (i = 0; i < stats->launch_count; i++)
			stats->samples[metric][i] = value_of(&stats->launches[i], metric);
		stats->sample_count[metric] = stats->launch_count;
	}
}

static int take_samples(struct rp_benchmark_stats *stats)
{
	size_t most = stats->launch_count > stats->rounds ? stats->launch_count
							  : stats->rounds;
	size_t width = round_end(stats, 0);
	int metric, err;

	for (metric = 0; metric < RPI_METRICS; metric++) {
		stats->samples[metric] = calloc(most, sizeof(double));
		if (!stats->samples[metric])
			return -ENOMEM;
	}
	stats->flattened = !is_regular(stats, width);
	if (stats->flattened) {
		sample_launches(stats);
		return 0;
	}
	stats->unstable = !is_stable(stats, width);
	err = find_ranks(stats, width);
	if (err)
		return err;
	fill_ranks(stats);
	sample_rounds(stats);
	return 0;
}

/* Those of launches of measured rounds come first, and stay. */
static void keep_launch_spans(struct rp_benchmark_stats *stats, const uint64_t *runs)
{
	size_t kept = 0, i;

	for (i = 0; i < stats->span_count; i++)
		if (is_launch_span(&stats->spans[i]) &&
		    round_of(runs, stats->rounds, stats->spans[i].run) >= 0)
			stats->spans[kept++] = stats->spans[i];
	stats->span_count = kept;
	if (kept)
		qsort(stats->spans, kept, sizeof(*stats->spans), compare_spans);
}

int rpi_benchmark_fold(struct rp_span *spans, size_t count, const uint64_t *runs,
		       uint32_t rounds, uint32_t warmup,
		       struct rp_benchmark_stats **stats_out)
{
	struct rp_benchmark_stats *stats = calloc(1, sizeof(*stats));
	int err = -ENOMEM;
	size_t i;

	if (!stats) {
		free(spans);
		return -ENOMEM;
	}
	stats->rounds = rounds;
	stats->warmup = warmup;
	stats->spans = spans;
	stats->span_count = count;
	keep_launch_spans(stats, runs);
	stats->launches = calloc(stats->span_count + 1, sizeof(*stats->launches));
	if (stats->launches) {
		find_launches(stats, runs);
		err = take_samples(stats);
	}
	if (err) {
		rp_benchmark_free(stats);
		return err;
	}
	stats->all_zero_device = true;
	for (i = 0; i < stats->launch_count; i++)
		if (stats->launches[i].device_wall_us > 0)
			stats->all_zero_device = false;
	*stats_out = stats;
	return 0;
}

void rp_benchmark_free(struct rp_benchmark_stats *stats)
{
	int metric;
	uint32_t i;

	if (!stats)
		return;
	for (metric = 0; metric < RPI_METRICS; metric++) {
		free(stats->samples[metric]);
		for (i = 0; i < stats->rank_count; i++)
			free(stats->ranks[i].us[metric]);
	}
	free(stats->ranks);
	free(stats->launches);
	free(stats->spans);
	free(stats);
}
