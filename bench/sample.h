/* SPDX-License-Identifier: MIT */
/* The times of one run of one case, and their quantiles. */
#ifndef BENCH_SAMPLE_H
#define BENCH_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct bench_samples {
	double *ns;
	size_t count, capacity;
};

/* All values in ns, of one run. */
struct bench_quantiles {
	double p50, p99, p999, max; /* p999 is NAN below 1000 samples */
	size_t count;
};

/* Reserves and touches the memory, so that adding never faults. */
int bench_samples_init(struct bench_samples *samples, size_t capacity);
void bench_samples_free(struct bench_samples *samples);

static inline void bench_samples_add(struct bench_samples *samples, double ns)
{
	/* Past the capacity a sample is lost, never written elsewhere. */
	if (samples->count < samples->capacity)
		samples->ns[samples->count++] = ns;
}

/* Sorts the samples in place. -ENODATA where there are none. */
int bench_samples_quantiles(struct bench_samples *samples, struct bench_quantiles *out);

/* Median of n values; reorders them. NAN for n == 0. */
double bench_median(double *values, size_t n);

/*
 * Least squares of the relative error: y = fixed + slope * x, for a case's time over
 * its size, as in the fixed and marginal cost of a run over its number of tasks. Noise
 * grows with the time, so a plain fit would take the fixed part from the largest
 * sizes, which know least about it. All y are above 0. -EINVAL: n < 2.
 */
int bench_fit_line(const double *x, const double *y, size_t n, double *fixed_out,
		   double *slope_out);

#endif
