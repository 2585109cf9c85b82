/* SPDX-License-Identifier: MIT */
/* What users see of the histogram of dispatches. */
#include <errno.h>
#include <string.h>

#include <ringplane/stats.h>

#include "base/error.h"
#include "trace/counters.h"
#include "worker/worker.h"

void rpi_latency_figures(const struct rpi_latency *latency, bool measured,
			 struct rp_latency *out)
{
	uint64_t counts[RPI_LATENCY_BUCKETS];
	uint64_t count = 0;
	uint32_t i;

	/* Counted anew from the buckets: they may be adding to it. */
	for (i = 0; i < RPI_LATENCY_BUCKETS; i++) {
		counts[i] =
			atomic_load_explicit(&latency->counts[i], memory_order_relaxed);
		count += counts[i];
	}
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	out->measured = measured;
	out->count = count;
	if (!count)
		return;
	out->mean_ns =
		atomic_load_explicit(&latency->sum_ns, memory_order_relaxed) / count;
	out->max_ns = atomic_load_explicit(&latency->max_ns, memory_order_relaxed);
	out->p50_ns = rpi_latency_quantile(counts, count, 0.5);
	out->p90_ns = rpi_latency_quantile(counts, count, 0.9);
	out->p99_ns = rpi_latency_quantile(counts, count, 0.99);
	out->p999_ns = rpi_latency_quantile(counts, count, 0.999);
}

int rp_worker_measure_latency(struct rp_worker *worker, bool on)
{
	if (!worker)
		return rpi_fail(-EINVAL,
				"rp_worker_measure_latency: worker NULL, expected one");
	rpi_trace_want(worker->plane.tracer.trace, on ? RPI_TRACE_LATENCY : 0,
		       RPI_TRACE_LATENCY);
	return 0;
}

int rp_worker_get_latency(struct rp_worker *worker, struct rp_latency *latency_out)
{
	struct rpi_trace *trace;

	if (!worker || !latency_out)
		return rpi_fail(-EINVAL, "rp_worker_get_latency: %s NULL, expected one",
				worker ? "latency_out" : "worker");
	if (latency_out->size != sizeof(*latency_out))
		return rpi_fail(-EINVAL, "rp_worker_get_latency: size %zu, expected %zu",
				latency_out->size, sizeof(*latency_out));
	trace = worker->plane.tracer.trace;
	rpi_latency_figures(&trace->latency,
			    rpi_trace_wants(&worker->plane.tracer, RPI_TRACE_LATENCY),
			    latency_out);
	return 0;
}
