/* SPDX-License-Identifier: MIT */
/* Quantiles, medians and fits of samples that are known. */
#include "sample.h"

#include <errno.h>
#include <math.h>

#include "check.h"

/* first, first + 1, ...: so many, in an order that has nothing to do with it. */
static void fill(struct bench_samples *samples, size_t count, double first)
{
	assert_int_equal(bench_samples_init(samples, count), 0);
	/* 7919 is prime, and no count here is a multiple of it. */
	for (size_t i = 0; i < count; i++)
		bench_samples_add(samples, first + (double)(i * 7919 % count));
	assert_int_equal(samples->count, count);
}

static void quantiles_of_known_samples_are_known(void **state)
{
	static const struct {
		size_t count;
		double first, p50, p99, p999, max;
	} cases[] = {
		{ 1, 7, 7, 7, (double)NAN, 7 },
		{ 2, 1, 1.5, 1.99, (double)NAN, 2 },
		{ 4, 1, 2.5, 3.97, (double)NAN, 4 },
		{ 101, 0, 50, 99, (double)NAN, 100 },
		{ 999, 0, 499, 988.02, (double)NAN, 998 },
		{ 1000, 0, 499.5, 989.01, 998.001, 999 },
		{ 1001, 0, 500, 990, 999, 1000 },
		{ 200001, 5, 100005, 198005, 199805, 200005 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct bench_samples samples;
		struct bench_quantiles q;

		fill(&samples, cases[i].count, cases[i].first);
		assert_int_equal(bench_samples_quantiles(&samples, &q), 0);
		assert_int_equal(q.count, cases[i].count);
		assert_near(q.p50, cases[i].p50);
		assert_near(q.p99, cases[i].p99);
		assert_near(q.max, cases[i].max);
		/* Of fewer than a thousand it would be the largest and no more. */
		if (isnan(cases[i].p999))
			assert_true(isnan(q.p999));
		else
			assert_near(q.p999, cases[i].p999);
		bench_samples_free(&samples);
	}
}

static void one_slow_sample_moves_the_maximum_alone(void **state)
{
	struct bench_samples samples;
	struct bench_quantiles q;

	(void)state;
	assert_int_equal(bench_samples_init(&samples, 2000), 0);
	for (int i = 0; i < 2000; i++)
		bench_samples_add(&samples, i == 700 ? 1e9 : 100);
	assert_int_equal(bench_samples_quantiles(&samples, &q), 0);
	assert_near(q.p50, 100);
	assert_near(q.p99, 100);
	assert_near(q.p999, 100);
	assert_near(q.max, 1e9);
	bench_samples_free(&samples);
}

static void no_samples_have_no_quantiles(void **state)
{
	struct bench_quantiles q = { .p50 = 1, .max = 2, .count = 3 };
	struct bench_samples samples;

	(void)state;
	assert_int_equal(bench_samples_init(&samples, 10), 0);
	assert_int_equal(bench_samples_quantiles(&samples, &q), -ENODATA);
	assert_near(q.p50, 1);
	assert_near(q.max, 2);
	assert_int_equal(q.count, 3);
	bench_samples_free(&samples);
	assert_int_equal(bench_samples_quantiles(&samples, &q), -ENODATA);
}

static void a_sample_past_the_capacity_is_lost(void **state)
{
	struct bench_samples samples;
	struct bench_quantiles q;

	(void)state;
	assert_int_equal(bench_samples_init(&samples, 3), 0);
	for (int i = 1; i <= 5; i++)
		bench_samples_add(&samples, i);
	assert_int_equal(samples.count, 3);
	assert_int_equal(bench_samples_quantiles(&samples, &q), 0);
	assert_near(q.max, 3);
	bench_samples_free(&samples);
	bench_samples_add(&samples, 1);
	assert_int_equal(samples.count, 0);
}

static void medians_of_known_values_are_known(void **state)
{
	double odd[] = { 5, 1, 4, 2, 3 };
	double even[] = { 9, 1, 5, 3 };
	double one[] = { -2 };

	(void)state;
	assert_near(bench_median(odd, COUNT(odd)), 3);
	assert_near(bench_median(even, COUNT(even)), 4);
	assert_near(bench_median(one, 1), -2);
	assert_true(isnan(bench_median(one, 0)));
}

static void a_line_is_found_again(void **state)
{
	static const double x[] = { 1, 2, 8, 64, 1024 };
	double y[COUNT(x)], fixed = 0, slope = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(x); i++)
		y[i] = 500 + 12.5 * x[i];
	assert_int_equal(bench_fit_line(x, y, COUNT(x), &fixed, &slope), 0);
	assert_near(fixed, 500);
	assert_near(slope, 12.5);
	/* Relative errors count: the largest alone does not move the fixed part far. */
	y[COUNT(x) - 1] *= 1.02;
	assert_int_equal(bench_fit_line(x, y, COUNT(x), &fixed, &slope), 0);
	assert_true(fabs(fixed - 500) < 5);
}

static void one_point_is_no_line(void **state)
{
	double x = 1, y = 2, fixed = 3, slope = 4;

	(void)state;
	assert_int_equal(bench_fit_line(&x, &y, 1, &fixed, &slope), -EINVAL);
	assert_says("1 points", "expected 2 or more");
	assert_int_equal(bench_fit_line(&x, &y, 0, &fixed, &slope), -EINVAL);
	assert_near(fixed, 3);
	assert_near(slope, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_of_known_samples_are_known),
		cmocka_unit_test(one_slow_sample_moves_the_maximum_alone),
		cmocka_unit_test(no_samples_have_no_quantiles),
		cmocka_unit_test(a_sample_past_the_capacity_is_lost),
		cmocka_unit_test(medians_of_known_values_are_known),
		cmocka_unit_test(a_line_is_found_again),
		cmocka_unit_test(one_point_is_no_line),
	};

	return cmocka_run_group_tests_name("bench_sample", tests, NULL, NULL);
}
