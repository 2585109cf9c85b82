/* SPDX-License-Identifier: MIT */
#include "sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_fit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>

#include "base/error.h"

/* Fewer samples than this have no p99.9 that is not simply the largest. */
#define P999_SAMPLES 1000

int bench_samples_init(struct bench_samples *samples, size_t capacity)
{
	samples->count = 0;
	samples->capacity = 0;
	samples->ns = malloc(capacity * sizeof(samples->ns[0]));
	if (!samples->ns)
		return rpi_fail(-ENOMEM, "samples: no memory for %zu of them", capacity);
	/* Not calloc(): its pages would be touched first while we measure. */
	memset(samples->ns, 0xff, capacity * sizeof(samples->ns[0]));
	samples->capacity = capacity;
	return 0;
}

void bench_samples_free(struct bench_samples *samples)
{
	free(samples->ns);
	memset(samples, 0, sizeof(*samples));
}

int bench_samples_quantiles(struct bench_samples *samples, struct bench_quantiles *out)
{
	size_t n = samples->count;

	if (!n)
		return -ENODATA;
	gsl_sort(samples->ns, 1, n);
	out->p50 = gsl_stats_median_from_sorted_data(samples->ns, 1, n);
	out->p99 = gsl_stats_quantile_from_sorted_data(samples->ns, 1, n, 0.99);
	out->p999 = n < P999_SAMPLES ? (double)NAN
				     : gsl_stats_quantile_from_sorted_data(samples->ns, 1,
									   n, 0.999);
	out->max = samples->ns[n - 1];
	out->count = n;
	return 0;
}

double bench_median(double *values, size_t n)
{
	if (!n)
		return (double)NAN;
	gsl_sort(values, 1, n);
	return gsl_stats_median_from_sorted_data(values, 1, n);
}

int bench_fit_line(const double *x, const double *y, size_t n, double *fixed_out,
		   double *slope_out)
{
	double cov00, cov01, cov11, chisq, *weight;

	if (n < 2)
		return rpi_fail(-EINVAL, "fit: %zu points, expected 2 or more", n);
	weight = malloc(n * sizeof(*weight));
	if (!weight)
		return rpi_fail(-ENOMEM, "fit: no memory for %zu points", n);
	for (size_t i = 0; i < n; i++)
		weight[i] = 1.0 / (y[i] * y[i]);
	gsl_fit_wlinear(x, 1, weight, 1, y, 1, n, fixed_out, slope_out, &cov00, &cov01,
			&cov11, &chisq);
	free(weight);
	return 0;
}
