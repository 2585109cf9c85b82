/* SPDX-License-Identifier: MIT */
#include "trace/latency.h"

uint64_t rpi_latency_quantile(const uint64_t *counts, uint64_t count, double quantile)
{
	/* The rank of the value that is asked for, from 1. */
	double exact = quantile * (double)count;
	uint64_t rank = (uint64_t)exact;
	uint64_t seen = 0;
	uint32_t bucket;

	if (!count)
		return 0;
	if ((double)rank < exact || !rank)
		rank++;
	for (bucket = 0; bucket < RPI_LATENCY_BUCKETS; bucket++) {
		seen += counts[bucket];
		if (seen >= rank)
			return rpi_latency_upper(bucket);
	}
	return rpi_latency_upper(RPI_LATENCY_BUCKETS - 1);
}
