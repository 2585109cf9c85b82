/* SPDX-License-Identifier: MIT */
/* The fields of struct rp_worker_stats, and where a worker counts them. */
#ifndef RPI_TRACE_COUNTERS_H
#define RPI_TRACE_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/stats.h>

struct rp_worker;
struct rpi_latency;

struct rpi_counter {
	const char *name;
	const char *help;
	size_t field; /* offset in struct rp_worker_stats */
	bool gauge;   /* it may fall */
};

extern const struct rpi_counter rpi_counters[];
extern const size_t rpi_counter_count;

/* Write the worker's board; once it is laid out. 0 or -ENOMEM. */
int rpi_counters_publish(struct rp_worker *worker);
void rpi_counters_release(struct rp_worker *worker);

/* The figures of a histogram, copied from where it is. */
void rpi_latency_figures(const struct rpi_latency *latency, bool measured,
			 struct rp_latency *out);

#endif
