/* SPDX-License-Identifier: MIT */
/* Launches, grids, figures and trees, against values worked out by hand. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/stats.h"
#include "check.h"

#define SPANS_MAX 400

struct recording {
	struct rp_span *spans;
	size_t count;
};

static void add(struct recording *recording, int32_t rank, uint64_t run, uint64_t task,
		const char *entry, const char *name, uint64_t begin_us, uint64_t us)
{
	struct rp_span *span = &recording->spans[recording->count++];

	memset(span, 0, sizeof(*span));
	snprintf(span->name, sizeof(span->name), "%s", name);
	snprintf(span->task_name, sizeof(span->task_name), "%s", entry);
	snprintf(span->task_id, sizeof(span->task_id), "id-%s", entry);
	span->domain = strstr(name, "device_wall") ? RP_SPAN_DEVICE : RP_SPAN_HOST;
	span->peer = rank;
	span->pid = 100 + rank;
	span->run = run;
	span->task = task;
	span->begin_ns = begin_us * 1000;
	span->duration_ns = us * 1000;
	span->follows = -1;
}

/* A task whose device ran for `device` us, in host + 2 us of chip.run. */
static void launch(struct recording *recording, int32_t rank, uint64_t run, uint64_t task,
		   const char *entry, uint64_t begin, uint64_t device)
{
	add(recording, rank, run, task, entry, "chip.run.runner_run.device_wall.orch",
	    begin + 2, device - 2);
	add(recording, rank, run, task, entry, "chip.run.bind", begin, 1);
	add(recording, rank, run, task, entry, "chip.run.runner_run.device_wall",
	    begin + 1, device);
	add(recording, rank, run, task, entry, "chip.run.runner_run", begin + 1, device);
	add(recording, rank, run, task, entry, "chip.run", begin, device + 2);
}

static struct recording begin(void)
{
	struct recording recording = { calloc(SPANS_MAX, sizeof(struct rp_span)), 0 };

	assert_non_null(recording.spans);
	return recording;
}

/* Runs 5 and 7 are the rounds. Rank 0 has two launches, rank 1 one. */
static struct rp_benchmark_stats *two_rounds(const char *second_entry)
{
	static const uint64_t runs[] = { 5, 7 };
	struct recording recording = begin();
	struct rp_benchmark_stats *stats;

	/* Of warm-up, of prepare, and of callbacks: ignored. */
	launch(&recording, 0, 4, 1, "a", 10, 999);
	launch(&recording, 0, 6, 50, "a", 10, 999);
	launch(&recording, 0, 0, 60, "a", 10, 999);
	add(&recording, 2, 5, 1, "cb", "callback.run", 100, 999);
	add(&recording, -1, 5, 0, "", "host.run", 90, 999);
	/* In an order that no process would write. */
	launch(&recording, 1, 7, 11, "c", 300, 40);
	launch(&recording, 0, 7, 4, second_entry, 250, 30);
	launch(&recording, 0, 7, 3, "a", 200, 12);
	launch(&recording, 0, 5, 1, "a", 100, 10);
	launch(&recording, 1, 5, 10, "c", 104, 20);
	launch(&recording, 0, 5, 2, "b", 120, 14);
	/* A task that was a reset: it waited, and was no launch. */
	add(&recording, 0, 5, 9, "", "chip.run.follow", 90, 3);
	assert_ok(
		rpi_benchmark_fold(recording.spans, recording.count, runs, 2, 3, &stats));
	return stats;
}

static void assert_values(const double *got, size_t count, const double *want,
			  size_t want_count)
{
	assert_int_equal(count, want_count);
	for (size_t i = 0; i < count; i++)
		assert_near(got[i], want[i]);
}

#define assert_round(stats, metric, ...)                                                 \
	do {                                                                             \
		const double *us_ = NULL;                                                \
		size_t count_ = rp_benchmark_per_round(stats, metric, &us_);             \
		assert_values(us_, count_, (const double[]){ __VA_ARGS__ },              \
			      sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)); \
	} while (0)

static void rounds_ranks_and_dispatches_are_folded(void **state)
{
	struct rp_benchmark_stats *stats = two_rounds("b");
	const struct rp_invocation *one;
	struct rp_benchmark_info info;
	struct rp_series series[4];
	struct rp_summary summary;
	size_t count;

	(void)state;
	rp_benchmark_get_info(stats, &info);
	assert_int_equal(info.rounds, 2);
	assert_int_equal(info.warmup, 3);
	assert_int_equal(info.ranks, 2);
	assert_int_equal(info.launches, 6);
	assert_false(info.all_zero_device || info.unstable_dispatch_slots ||
		     info.fallback_flattened);
	/* Rank 0: 10 + 14 and 12 + 30; rank 1: 20 and 40. */
	assert_round(stats, RP_METRIC_DEVICE, 24, 42);
	/* Two us more for each launch: 28 and 22, 46 and 42. */
	assert_round(stats, RP_METRIC_HOST, 28, 46);
	assert_round(stats, RP_METRIC_EFFECTIVE, 20, 38);
	/* From 100 to 120 + 16; from 200 to 300 + 42. */
	assert_round(stats, RP_METRIC_UNION, 36, 142);
	assert_int_equal(rp_benchmark_per_rank(stats, RP_METRIC_DEVICE, series, 4), 2);
	assert_int_equal(series[1].pid, 101);
	assert_values(series[0].us, series[0].count, (const double[]){ 24, 42 }, 2);
	assert_values(series[1].us, series[1].count, (const double[]){ 20, 40 }, 2);
	assert_int_equal(rp_benchmark_per_rank(stats, RP_METRIC_UNION, series, 4), 0);
	assert_int_equal(rp_benchmark_per_dispatch(stats, RP_METRIC_DEVICE, series, 4),
			 3);
	assert_string_equal(series[0].task, "a");
	assert_string_equal(series[1].task, "b");
	assert_string_equal(series[2].task, "c");
	assert_int_equal(series[1].slot, 1);
	assert_values(series[0].us, series[0].count, (const double[]){ 10, 12 }, 2);
	assert_values(series[1].us, series[1].count, (const double[]){ 14, 30 }, 2);
	assert_values(series[2].us, series[2].count, (const double[]){ 20, 40 }, 2);
	assert_int_equal(rp_benchmark_per_dispatch(stats, RP_METRIC_HOST, NULL, 0), 3);
	rp_benchmark_summary(stats, RP_METRIC_DEVICE, &summary);
	assert_int_equal(summary.count, 2);
	assert_near(summary.median, 33);
	assert_near(summary.min, 24);
	assert_near(summary.mean, 33);
	assert_near(summary.max, 42);
	assert_near(summary.stdev, sqrt(162));
	assert_near(summary.p90, 24 + 0.9 * 18);
	rp_benchmark_invocations(stats, &count);
	assert_int_equal(count, 6);
	one = rp_benchmark_dispatch(stats, 1, 0, 1);
	assert_non_null(one);
	assert_near(one->device_wall_us, 30);
	assert_near(one->host_wall_us, 32);
	assert_near(one->effective_us, 28);
	assert_int_equal(rp_invocation_span(one, "chip.run.bind")->duration_ns, 1000);
	assert_null(rp_invocation_span(one, "chip.run.validate"));
	assert_null(rp_benchmark_dispatch(stats, 2, 0, 0));
	rp_benchmark_free(stats);
}

static void a_slot_of_several_entries_has_no_view_of_its_own(void **state)
{
	struct rp_benchmark_stats *stats = two_rounds("other");
	struct rp_benchmark_info info;
	char text[512];

	(void)state;
	rp_benchmark_get_info(stats, &info);
	assert_true(info.unstable_dispatch_slots);
	assert_false(info.fallback_flattened);
	assert_int_equal(rp_benchmark_per_dispatch(stats, RP_METRIC_DEVICE, NULL, 0), 0);
	/* Rounds and ranks stay as they were. */
	assert_round(stats, RP_METRIC_DEVICE, 24, 42);
	assert_int_equal(rp_benchmark_per_rank(stats, RP_METRIC_DEVICE, NULL, 0), 2);
	rp_benchmark_print_mean_tree(stats, RP_SPREAD_BOTH, -1, -1, text, sizeof(text));
	assert_non_null(strstr(text, "several entries"));
	rp_benchmark_free(stats);
}

static void rounds_of_different_launches_are_flattened(void **state)
{
	static const uint64_t runs[] = { 1, 2, 3 };
	struct rp_benchmark_stats *stats;
	struct rp_benchmark_info info;
	struct rp_summary summary;

	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		struct recording recording = begin();

		launch(&recording, 0, 1, 1, "a", 10, 10);
		if (kind != 1)
			launch(&recording, 0, 2, 2, "a", 50, 20);
		/* One round has more, one comes from another rank, one has lost the end
		 * of its launch. */
		if (kind == 0)
			launch(&recording, 0, 2, 3, "a", 90, 30);
		launch(&recording, kind == 2, 3, 4, "a", 130, 40);
		if (kind == 3)
			recording.count--;
		assert_ok(rpi_benchmark_fold(recording.spans, recording.count, runs, 3, 0,
					     &stats));
		rp_benchmark_get_info(stats, &info);
		assert_true(info.fallback_flattened);
		if (kind == 0)
			assert_round(stats, RP_METRIC_DEVICE, 10, 20, 30, 40);
		if (kind == 1)
			assert_round(stats, RP_METRIC_DEVICE, 10, 40);
		if (kind == 2)
			assert_round(stats, RP_METRIC_HOST, 12, 22, 42);
		if (kind == 3)
			assert_round(stats, RP_METRIC_EFFECTIVE, 8, 18);
		rp_benchmark_summary(stats, RP_METRIC_UNION, &summary);
		assert_int_equal(summary.count, 0);
		assert_int_equal(rp_benchmark_per_rank(stats, RP_METRIC_HOST, NULL, 0),
				 0);
		assert_int_equal(
			rp_benchmark_per_dispatch(stats, RP_METRIC_HOST, NULL, 0), 0);
		rp_benchmark_free(stats);
	}
}

static void no_spans_and_no_device_spans_are_told(void **state)
{
	static const uint64_t runs[] = { 1 };
	struct recording recording = begin();
	struct rp_benchmark_stats *stats;
	struct rp_benchmark_info info;

	(void)state;
	assert_ok(rpi_benchmark_fold(recording.spans, 0, runs, 1, 0, &stats));
	rp_benchmark_get_info(stats, &info);
	assert_true(info.all_zero_device && info.fallback_flattened);
	assert_int_equal(info.launches, 0);
	rp_benchmark_free(stats);
	recording = begin();
	add(&recording, 0, 1, 1, "a", "chip.run", 5, 7);
	assert_ok(
		rpi_benchmark_fold(recording.spans, recording.count, runs, 1, 0, &stats));
	rp_benchmark_get_info(stats, &info);
	assert_true(info.all_zero_device);
	assert_false(info.fallback_flattened);
	assert_round(stats, RP_METRIC_DEVICE, 0);
	assert_round(stats, RP_METRIC_HOST, 7);
	rp_benchmark_free(stats);
}

static void effective_is_the_window_of_orch_and_sched(void **state)
{
	static const uint64_t runs[] = { 1 };
	static const struct {
		uint64_t orch_at, orch, sched_at, sched, want;
	} cases[] = {
		{ 10, 5, 12, 10, 12 },			   /* they overlap */
		{ 10, 20, 12, 3, 20 },			   /* one inside the other */
		{ 10, 2, 20, 5, 15 },			   /* a gap between them */
		{ 20, 5, 10, 2, 15 },  { 10, 4, 0, 0, 4 }, /* no kernels */
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct recording recording = begin();
		struct rp_benchmark_stats *stats;

		add(&recording, 0, 1, 1, "a", "chip.run", 5, 40);
		add(&recording, 0, 1, 1, "a", "chip.run.runner_run.device_wall.orch",
		    cases[i].orch_at, cases[i].orch);
		if (cases[i].sched)
			add(&recording, 0, 1, 1, "a",
			    "chip.run.runner_run.device_wall.sched", cases[i].sched_at,
			    cases[i].sched);
		assert_ok(rpi_benchmark_fold(recording.spans, recording.count, runs, 1, 0,
					     &stats));
		assert_round(stats, RP_METRIC_EFFECTIVE, (double)cases[i].want);
		rp_benchmark_free(stats);
	}
}

static void trees_are_nested_by_name(void **state)
{
	struct rp_benchmark_stats *stats = two_rounds("b");
	static char text[8192];
	int length;

	(void)state;
	length = rp_benchmark_print_tree(stats, 1, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	assert_string_equal(text, "launch 1 of 6, round=0 rank=0 slot=1 b:\n"
				  "chip.run                       16.0us\n"
				  "|- bind                         1.0us\n"
				  "`- runner_run                  14.0us\n"
				  "   `- device_wall [dev]        14.0us\n"
				  "      `- orch [dev]            12.0us\n");
	rp_benchmark_print_mean_tree(stats, RP_SPREAD_BOTH, 0, 1, text, sizeof(text));
	/* 14 and 30: mean 22, stdev sqrt(128). */
	assert_string_equal(
		text,
		"mean of 2 launches (warm-up 3 excluded) of rank=0 slot=1 b; each node: "
		"mean \u00b1stdev [min..max]:\n"
		"chip.run                       24.0us       \u00b111.3  [16.0..32.0]\n"
		"|- bind                         1.0us        \u00b10.0  [1.0..1.0]\n"
		"`- runner_run                  22.0us       \u00b111.3  [14.0..30.0]\n"
		"   `- device_wall [dev]        22.0us       \u00b111.3  [14.0..30.0]\n"
		"      `- orch [dev]            20.0us       \u00b111.3  [12.0..28.0]\n");
	rp_benchmark_print_mean_tree(stats, RP_SPREAD_MINMAX, 1, -1, text, sizeof(text));
	assert_non_null(strstr(text, "rank=1 slot=0 c"));
	assert_null(strstr(text, "\u00b1"));
	assert_non_null(strstr(text, "30.0us  [20.0..40.0]\n"));
	length = rp_benchmark_print_mean_tree(stats, RP_SPREAD_NONE, -1, -1, text,
					      sizeof(text));
	assert_null(strstr(text, ".."));
	assert_non_null(strstr(text, "rank=0 slot=0 a"));
	assert_non_null(strstr(text, "rank=0 slot=1 b"));
	/* Cut, never written past. */
	assert_int_equal(
		rp_benchmark_print_mean_tree(stats, RP_SPREAD_NONE, -1, -1, NULL, 0),
		length);
	memset(text, 'x', sizeof(text));
	assert_int_equal(
		rp_benchmark_print_mean_tree(stats, RP_SPREAD_NONE, -1, -1, text, 40),
		length);
	assert_int_equal(strlen(text), 39);
	assert_int_equal(text[40], 'x');
	assert_int_equal(rp_benchmark_print_tree(stats, 6, text, sizeof(text)), -EINVAL);
	assert_says("rp_benchmark_print_tree", "launch 6", "one of 6");
	assert_int_equal(rp_benchmark_print_tree(NULL, 0, text, 9), -EINVAL);
	assert_int_equal(rp_benchmark_print_tree(stats, 0, NULL, 9), -EINVAL);
	assert_int_equal(rp_benchmark_print_mean_tree(stats, 4, -1, -1, text, 9),
			 -EINVAL);
	assert_int_equal(
		rp_benchmark_print_mean_tree(stats, RP_SPREAD_NONE, -2, -1, text, 9),
		-EINVAL);
	rp_benchmark_free(stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_ranks_and_dispatches_are_folded),
		cmocka_unit_test(a_slot_of_several_entries_has_no_view_of_its_own),
		cmocka_unit_test(rounds_of_different_launches_are_flattened),
		cmocka_unit_test(no_spans_and_no_device_spans_are_told),
		cmocka_unit_test(effective_is_the_window_of_orch_and_sched),
		cmocka_unit_test(trees_are_nested_by_name),
	};

	return cmocka_run_group_tests_name("benchmark_fold", tests, NULL, NULL);
}
