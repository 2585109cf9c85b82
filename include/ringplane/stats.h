/* SPDX-License-Identifier: MIT */
/*
 * The counters of a worker as others read them: as text, JSON or Prometheus exposition,
 * from this process or from another one. The counters are those of
 * rp_worker_get_stats(); beside them is a histogram of how long dispatches took.
 */
#ifndef RINGPLANE_STATS_H
#define RINGPLANE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * From the submit to the collected outcome, in ns, of the dispatches that began while
 * this was measured. Quantiles are right to 0.8 %. All 0 when none was.
 */
struct rp_latency {
	size_t size; /* sizeof(struct rp_latency), set by the caller */
	uint64_t count;
	uint64_t mean_ns;
	uint64_t p50_ns, p90_ns, p99_ns, p999_ns;
	uint64_t max_ns;
	bool measured; /* it is on */
};

/* Measure, or stop: off at first, because it costs two readings of the clock a dispatch.
 * What was measured stays. Threads: any. 0, or -EINVAL for NULL. */
RP_API int rp_worker_measure_latency(struct rp_worker *worker, bool on);

/* Threads: any. 0, or -EINVAL for NULL or a size that this build does not know. */
RP_API int rp_worker_get_latency(struct rp_worker *worker,
				 struct rp_latency *latency_out);

enum rp_stats_format {
	RP_STATS_TEXT = 0,	 /* a counter a line, name and value */
	RP_STATS_JSON = 1,	 /* one object, in one line */
	RP_STATS_PROMETHEUS = 2, /* text exposition 0.0.4; names begin with ringplane_ */
};

/*
 * Write counters as text, as snprintf() does.
 *
 * latency     NULL: without.
 * labels      of Prometheus, as they stand between the braces ("worker=\"a\""); NULL or
 *             "": none. Ignored otherwise.
 * buf         may be NULL when bytes is 0.
 *
 * Threads     any. Blocks: no.
 * Returns     the length of all of it, the final zero not counted; more than `bytes` - 1
 *             means that it was cut. -EINVAL: an argument
 */
RP_API int rp_stats_print(const struct rp_worker_stats *stats,
			  const struct rp_latency *latency, enum rp_stats_format format,
			  const char *labels, char *buf, size_t bytes);

/*
 * Read the counters of another process's worker while it lives. Nothing is asked of that
 * process and nothing is changed in it; the kernel lets those read who may trace it.
 *
 * pid         the process that prepared the worker.
 * nth         which of its workers, from 0.
 * latency_out NULL: not wanted.
 *
 * Threads     any. Blocks: no.
 * Returns     0
 *             -EINVAL      NULL, or a size that this build does not know
 *             -ESRCH       no such process
 *             -ENOENT      it has no such worker
 *             -EPERM, -EACCES  it may not be read
 *             -EOPNOTSUPP  its library has other counters than this one
 *             -EPROTO      what was read makes no sense; the worker may have just ended
 */
RP_API int rp_stats_peek(int pid, uint32_t nth, struct rp_worker_stats *stats_out,
			 struct rp_latency *latency_out);

#ifdef __cplusplus
}
#endif

#endif
