/* SPDX-License-Identifier: MIT */
/* From the runs of each case to its line: medians, spread, limit and ratio. */
#include "result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "proc.h"

/* A result whose runs have these medians. */
static struct bench_result *add(struct bench_results *results, const char *name,
				const char *unit, const char *limits, size_t run_count,
				const double *p50)
{
	struct bench_result *result = bench_result_add(results, name, unit, limits);

	assert_non_null(result);
	for (size_t i = 0; i < run_count; i++) {
		struct bench_run run = { p50[i], 2 * p50[i], 3 * p50[i], 4 * p50[i] };

		assert_int_equal(bench_result_run(result, &run), 0);
	}
	return result;
}

#define ADD(results, name, unit, limits, ...)                         \
	add(results, name, unit, limits,                              \
	    sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double), \
	    (const double[]){ __VA_ARGS__ })
#define ADD_EMPTY(results, name, unit, limits) add(results, name, unit, limits, 0, NULL)

static void a_line_has_the_medians_and_the_spread_of_its_runs(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *time = ADD(&results, "time", "ns", NULL, 30, 10, 50, 20, 40);
	struct bench_result *rate = ADD(&results, "rate", "GB/s", NULL, 4, 1, 3, 2);

	(void)state;
	assert_int_equal(bench_results_summarise(&results), 0);
	assert_near(time->median, 30);
	assert_near(time->p50_min, 10);
	assert_near(time->p50_max, 50);
	/* The worst of all runs: the longest time, the lowest rate. */
	assert_near(time->max, 200);
	assert_near(rate->median, 2.5);
	assert_near(rate->p50_min, 1);
	assert_near(rate->p50_max, 4);
	assert_near(rate->max, 4);
	bench_results_free(&results);
	assert_int_equal(results.count, 0);
}

static void percentiles_are_medians_of_percentiles_and_no_average(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *r = ADD(&results, "r", "ns", NULL, 1, 2, 1000);

	(void)state;
	assert_int_equal(bench_results_summarise(&results), 0);
	assert_near(r->p99, 4);
	assert_near(r->p999, 6);
	bench_results_free(&results);
}

static void what_a_run_does_not_have_counts_in_no_median(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *r = bench_result_add(&results, "r", "ns", NULL);
	struct bench_run runs[] = {
		{ 5, 6, (double)NAN, 8 },
		{ 7, (double)INFINITY, 30, 9 },
		{ (double)NAN, 10, (double)NAN, (double)NAN },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(runs); i++)
		assert_int_equal(bench_result_run(r, &runs[i]), 0);
	assert_int_equal(bench_results_summarise(&results), 0);
	assert_near(r->median, 6);
	assert_near(r->p99, 8);
	assert_near(r->p999, 30);
	assert_near(r->max, 9);
	bench_results_free(&results);
}

static void the_ratio_is_ours_over_the_limit(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *time = ADD(&results, "time", "ns", "floor", 300, 310, 290);
	struct bench_result *rate = ADD(&results, "rate", "GB/s", "ceiling", 9);

	(void)state;
	/* Whatever the order of the two. */
	ADD(&results, "floor", "ns", NULL, 100, 120, 80);
	ADD(&results, "ceiling", "GB/s", NULL, 12);
	assert_int_equal(bench_results_summarise(&results), 0);
	assert_near(time->limit, 100);
	assert_near(time->ratio, 3);
	assert_string_equal(time->limit_name, "floor");
	assert_near(rate->limit, 12);
	assert_near(rate->ratio, 0.75);
	bench_results_free(&results);
}

static void the_best_of_several_limits_counts(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *time =
		ADD(&results, "time", "ns", "slow|fast|absent|empty", 100);
	struct bench_result *rate = ADD(&results, "rate", "1/s", "low|high|low", 50);

	(void)state;
	ADD(&results, "slow", "ns", NULL, 80);
	ADD(&results, "fast", "ns", NULL, 40);
	ADD_EMPTY(&results, "empty", "ns", NULL);
	ADD(&results, "low", "1/s", NULL, 60);
	ADD(&results, "high", "1/s", NULL, 200);
	assert_int_equal(bench_results_summarise(&results), 0);
	assert_string_equal(time->limit_name, "fast");
	assert_near(time->ratio, 2.5);
	assert_string_equal(rate->limit_name, "high");
	assert_near(rate->ratio, 0.25);
	bench_results_free(&results);
}

static void without_a_limit_there_is_no_ratio(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *alone = ADD(&results, "alone", "ns", NULL, 5);
	struct bench_result *absent = ADD(&results, "absent", "ns", "nowhere", 5);
	struct bench_result *empty = ADD(&results, "empty", "ns", "nothing", 5);
	struct bench_result *zero = ADD(&results, "zero", "ns", "null", 5);
	struct bench_result *nothing = ADD_EMPTY(&results, "nothing", "ns", "alone");

	(void)state;
	ADD(&results, "null", "ns", NULL, 0);
	assert_int_equal(bench_results_summarise(&results), 0);
	assert_true(isnan(alone->limit) && isnan(alone->ratio));
	assert_true(isnan(absent->limit) && isnan(absent->ratio));
	assert_true(isnan(empty->limit) && isnan(empty->ratio));
	assert_string_equal(empty->limit_name, "");
	/* Over nothing at all there is none either. */
	assert_true(isnan(zero->ratio));
	/* And none where we have no figure. */
	assert_near(nothing->limit, 5);
	assert_true(isnan(nothing->ratio) && isnan(nothing->median));
	assert_true(isnan(nothing->p99) && isnan(nothing->p999) && isnan(nothing->max));
	assert_true(isnan(nothing->p50_min) && isnan(nothing->p50_max));
	bench_results_free(&results);
}

static void no_results_can_be_summarised(void **state)
{
	struct bench_results results = { 0 };

	(void)state;
	assert_int_equal(bench_results_summarise(&results), 0);
	assert_int_equal(bench_results_failures(&results), 0);
	bench_results_free(&results);
}

static void failures_are_counted_and_the_first_text_stays(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *a = bench_result_add(&results, "a", "ns", NULL);
	struct bench_result *b = bench_result_add(&results, "b", "ns", NULL);

	(void)state;
	bench_result_fail(a, "first");
	bench_result_fail(a, "second");
	bench_result_fail(b, "third");
	assert_int_equal(a->failures, 2);
	assert_string_equal(a->text, "first");
	assert_string_equal(b->text, "third");
	assert_int_equal(bench_results_failures(&results), 3);
	bench_results_free(&results);
}

static int add_twice(void *arg)
{
	struct bench_results results = { 0 };

	bench_result_add(&results, "once", "ns", NULL);
	bench_result_add(&results, arg, "ns", NULL);
	return 0;
}

static void a_name_is_there_once(void **state)
{
	char same[] = "once", other[] = "once.more";

	(void)state;
	assert_true(proc_aborts(add_twice, same));
	assert_false(proc_aborts(add_twice, other));
}

static void results_stay_where_they_are_and_are_found(void **state)
{
	struct bench_results results = { 0 };
	struct bench_result *first = bench_result_add(&results, "case.0", "ns", NULL);

	(void)state;
	for (int i = 1; i < 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "case.%d", i);
		assert_non_null(bench_result_add(&results, name, "ns", NULL));
	}
	assert_ptr_equal(bench_result_find(&results, "case.0"), first);
	assert_string_equal(bench_result_find(&results, "case.77")->name, "case.77");
	assert_null(bench_result_find(&results, "case"));
	assert_null(bench_result_find(&results, ""));
	bench_results_free(&results);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_the_medians_and_the_spread_of_its_runs),
		cmocka_unit_test(percentiles_are_medians_of_percentiles_and_no_average),
		cmocka_unit_test(what_a_run_does_not_have_counts_in_no_median),
		cmocka_unit_test(the_ratio_is_ours_over_the_limit),
		cmocka_unit_test(the_best_of_several_limits_counts),
		cmocka_unit_test(without_a_limit_there_is_no_ratio),
		cmocka_unit_test(no_results_can_be_summarised),
		cmocka_unit_test(failures_are_counted_and_the_first_text_stays),
		cmocka_unit_test(a_name_is_there_once),
		cmocka_unit_test(results_stay_where_they_are_and_are_found),
	};

	return cmocka_run_group_tests_name("bench_result", tests, NULL, NULL);
}
