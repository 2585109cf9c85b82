/* SPDX-License-Identifier: MIT */
#include "histogram.h"

#include <inttypes.h>

#define PARTS	  8
#define BAR_WIDTH 50

/* Below PARTS each value has a bucket; above, the three bits behind the first tell. */
static unsigned int bucket_of(uint64_t ns)
{
	unsigned int log, bucket;

	if (ns < PARTS)
		return (unsigned int)ns;
	log = 63 - (unsigned int)__builtin_clzll(ns);
	bucket = (log - 2) * PARTS + (unsigned int)(ns >> (log - 3)) % PARTS;
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The first value of the next bucket. */
static uint64_t end_of(unsigned int bucket)
{
	bucket++;
	if (bucket < PARTS)
		return bucket;
	return (uint64_t)(PARTS + bucket % PARTS) << (bucket / PARTS - 1);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->counts[bucket_of(ns)]++;
	h->count++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

uint64_t histogram_quantile(const struct histogram *h, double part)
{
	uint64_t seen = 0, want = (uint64_t)(part * (double)h->count);

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->counts[i];
		if (seen > want || (seen && seen == h->count))
			return end_of(i) < h->max_ns ? end_of(i) : h->max_ns;
	}
	return 0;
}

void histogram_print(const struct histogram *h, FILE *out)
{
	uint64_t rows[HISTOGRAM_BUCKETS / PARTS] = { 0 }, most = 1;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		rows[i / PARTS] += h->counts[i];
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS / PARTS; i++)
		most = rows[i] > most ? rows[i] : most;
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS / PARTS; i++) {
		int width = (int)((rows[i] * BAR_WIDTH + most - 1) / most);

		if (rows[i])
			fprintf(out, "< %10.1f us %10" PRIu64 " %.*s\n",
				(double)end_of(i * PARTS + PARTS - 1) / 1e3, rows[i],
				width,
				"##################################################");
	}
}
