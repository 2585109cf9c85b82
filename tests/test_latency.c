/* SPDX-License-Identifier: MIT */
/* The histogram of dispatches: where values go, and what is said of them. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "trace/latency.h"

static void each_value_lies_in_a_bucket_that_is_narrow(void **state)
{
	uint32_t last = 0;

	(void)state;
	for (uint64_t ns = 0; ns < UINT64_C(1) << 41; ns += 1 + ns / 300) {
		uint32_t bucket = rpi_latency_bucket(ns);
		uint64_t upper = rpi_latency_upper(bucket);

		assert_in_range(bucket, last, RPI_LATENCY_BUCKETS - 1);
		last = bucket;
		if (ns >> RPI_LATENCY_BITS) {
			assert_int_equal(bucket, RPI_LATENCY_BUCKETS - 1);
			continue;
		}
		assert_in_range(upper, ns, ns + ns / 128);
		assert_int_equal(rpi_latency_bucket(upper), bucket);
		assert_int_equal(rpi_latency_bucket(upper + 1),
				 upper + 1 == UINT64_C(1) << RPI_LATENCY_BITS
					 ? bucket
					 : bucket + 1);
	}
	assert_int_equal(last, RPI_LATENCY_BUCKETS - 1);
	assert_int_equal(rpi_latency_bucket(UINT64_MAX), RPI_LATENCY_BUCKETS - 1);
}

static void quantiles_are_those_of_the_values(void **state)
{
	struct rpi_latency *latency = aligned_alloc(RPI_SHARE_ALIGN, sizeof(*latency));
	uint64_t counts[RPI_LATENCY_BUCKETS];

	(void)state;
	assert_non_null(latency);
	memset((void *)latency, 0, sizeof(*latency));
	memset(counts, 0, sizeof(counts));
	assert_int_equal(rpi_latency_quantile(counts, 0, 0.5), 0);
	/* 1..200: each has a bucket of its own. */
	for (uint64_t ns = 200; ns > 0; ns--)
		rpi_latency_add(latency, ns);
	memcpy(counts, (const void *)latency->counts, sizeof(counts));
	assert_int_equal(latency->count, 200);
	assert_int_equal(latency->sum_ns, 200 * 201 / 2);
	assert_int_equal(latency->max_ns, 200);
	assert_int_equal(rpi_latency_quantile(counts, 200, 0.0), 1);
	assert_int_equal(rpi_latency_quantile(counts, 200, 0.005), 1);
	assert_int_equal(rpi_latency_quantile(counts, 200, 0.5), 100);
	assert_int_equal(rpi_latency_quantile(counts, 200, 0.99), 198);
	assert_int_equal(rpi_latency_quantile(counts, 200, 1.0), 200);
	/* A count that is said to be larger than what is there. */
	assert_true(rpi_latency_quantile(counts, 1000, 1.0) > 200);
	free(latency);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_lies_in_a_bucket_that_is_narrow),
		cmocka_unit_test(quantiles_are_those_of_the_values),
	};

	return cmocka_run_group_tests_name("latency", tests, NULL, NULL);
}
