/* SPDX-License-Identifier: MIT */
/* Attaching to a worker's rings, and spans as users see them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/trace.h>

#include "base/error.h"
#include "trace/label.h"
#include "worker/worker.h"

static_assert(RP_TRACE_HOST == RPI_TRACE_HOST && RP_TRACE_DEVICE == RPI_TRACE_DEVICE &&
		      RP_TRACE_KERNELS == RPI_TRACE_KERNELS,
	      "the public bits are those of the rings");

struct rp_trace {
	struct rp_worker *worker;
	struct rpi_trace *shared;
	uint32_t log_count;
	uint32_t next_ring; /* to be read, of all rings of all logs */
	uint64_t at[RP_MAX_PEERS + 1][RPI_TRACE_RINGS];
	uint64_t dropped;
	uint32_t what; /* RPI_TRACE_*: others may want more */
	struct rpi_scale scale;
	int32_t pids[RP_MAX_PEERS + 1]; /* as they were when it was attached */
	struct rpi_labels labels;
};

/* --- Attaching ------------------------------------------------------------ */

static int check(const struct rp_worker *worker, uint32_t what)
{
	const uint32_t known = RP_TRACE_HOST | RP_TRACE_DEVICE | RP_TRACE_KERNELS;

	if (!worker)
		return rpi_fail(-EINVAL, "rp_trace_attach: worker NULL, expected one");
	if (!what || what & ~known)
		return rpi_fail(-EINVAL,
				"rp_trace_attach: what %#x, expected some of "
				"RP_TRACE_HOST, _DEVICE and _KERNELS",
				what);
	if (what & ~RPI_TRACE_BUILT)
		return rpi_fail(-EOPNOTSUPP,
				"rp_trace_attach: what %#x, this build has the spans %#x "
				"(SIMPLER_HOST_STRACE %d, SIMPLER_DFX %d)",
				what, known & RPI_TRACE_BUILT, SIMPLER_HOST_STRACE,
				SIMPLER_DFX);
	return 0;
}

static void destroy(struct rp_trace *trace)
{
	rpi_labels_free(&trace->labels);
	free(trace);
}

static int create(struct rp_worker *worker, struct rp_trace **trace_out)
{
	struct rp_trace *trace = calloc(1, sizeof(*trace));
	uint32_t i, k;

	if (!trace)
		return -ENOMEM;
	trace->worker = worker;
	trace->shared = worker->plane.tracer.trace;
	trace->log_count = worker->plane.peer_count + 1;
	if (rpi_labels_create(&trace->labels, worker)) {
		free(trace);
		return -ENOMEM;
	}
	rpi_scale_init(&trace->scale, worker);
	for (i = 0; i < trace->log_count; i++) {
		trace->pids[i] = i < worker->plane.peer_count ? rp_worker_pid(worker, i)
							      : (int32_t)getpid();
		/* From here on; what an earlier one left is not this one's. */
		for (k = 0; k < RPI_TRACE_RINGS; k++)
			trace->at[i][k] = atomic_load_explicit(
				&trace->shared->logs[i].rings[k].head,
				memory_order_relaxed);
	}
	*trace_out = trace;
	return 0;
}

/* Under the lock: what somebody wants is on, the rest off. Bits that stay are never off
 * meanwhile. */
static void want(struct rp_worker *worker)
{
	const uint32_t wants = worker->trace_wants | worker->capture_wants;

	rpi_trace_want(worker->plane.tracer.trace, wants, RPI_TRACE_SPANS & ~wants);
}

void rpi_trace_want_captured(struct rp_worker *worker, uint32_t wants)
{
	pthread_mutex_lock(&worker->lock);
	worker->capture_wants = wants;
	want(worker);
	pthread_mutex_unlock(&worker->lock);
}

int rp_trace_attach(struct rp_worker *worker, uint32_t what, struct rp_trace **trace_out)
{
	struct rp_trace *trace = NULL;
	bool busy;
	int err = check(worker, what);

	if (!err && !trace_out)
		err = rpi_fail(-EINVAL, "rp_trace_attach: trace_out NULL, expected one");
	if (err)
		return err;
	err = create(worker, &trace);
	if (err)
		return rpi_fail(err, "rp_trace_attach: no memory");
	if (what & RPI_TRACE_KERNELS)
		what |= RPI_TRACE_DEVICE;
	if (!worker->device_spans)
		what &= ~(RPI_TRACE_DEVICE | RPI_TRACE_KERNELS);
	if (what & RPI_TRACE_HOST)
		what |= RPI_TRACE_EDGES;
	trace->what = what;
	pthread_mutex_lock(&worker->lock);
	busy = worker->trace;
	if (!busy) {
		worker->trace = trace;
		worker->trace_wants = what;
		want(worker);
	}
	pthread_mutex_unlock(&worker->lock);
	if (busy) {
		destroy(trace);
		return rpi_fail(-EBUSY, "rp_trace_attach: somebody is attached to this "
					"worker, expected rp_trace_detach() first");
	}
	*trace_out = trace;
	return 0;
}

void rp_trace_detach(struct rp_trace *trace)
{
	if (!trace)
		return;
	pthread_mutex_lock(&trace->worker->lock);
	trace->worker->trace = NULL;
	trace->worker->trace_wants = 0;
	want(trace->worker);
	pthread_mutex_unlock(&trace->worker->lock);
	destroy(trace);
}

/* --- Reading -------------------------------------------------------------- */

/* What a process wrote is judged: false for what no build of ours writes. The name is
 * one of ours. */
static bool translate(const struct rp_trace *trace, uint32_t log,
		      const struct rpi_trace_copy *copy, struct rp_span *out)
{
	uint32_t name = copy->what & UINT16_MAX;
	const struct rpi_label *label =
		copy->task_seq ? rpi_labels_find(&trace->labels, log, copy->what) : NULL;

	if (copy->end < copy->begin)
		return false;
	memset(out, 0, sizeof(*out));
	rpi_format(out->name, sizeof(out->name), "%s", rpi_span_name(name));
	if (label) {
		memcpy(out->task_name, label->name, sizeof(out->task_name));
		memcpy(out->task_id, label->id, sizeof(out->task_id));
	}
	out->domain = rpi_span_domain(name) & (RPI_TRACE_HOST | RPI_TRACE_EDGES)
			      ? RP_SPAN_HOST
			      : RP_SPAN_DEVICE;
	out->peer = log + 1 < trace->log_count ? (int32_t)log : RP_SPAN_CALLER;
	out->pid = trace->pids[log];
	out->tid = (int32_t)copy->thread;
	out->run = copy->run_seq;
	out->task = copy->task_seq;
	out->begin_ns = rpi_scale_ns(&trace->scale, copy->begin);
	out->duration_ns = rpi_scale_ns(&trace->scale, copy->end) - out->begin_ns;
	out->value = copy->value;
	out->follows = -1;
	if (name == RPI_SPAN_EDGE) {
		out->follows = (int32_t)(copy->value >> 56);
		out->value = rpi_trace_edge(0, copy->value);
	}
	return true;
}

static size_t read_ring(struct rp_trace *trace, uint32_t idx, struct rp_span *spans_out,
			size_t max)
{
	uint32_t log = idx / RPI_TRACE_RINGS, which = idx % RPI_TRACE_RINGS;
	struct rpi_trace_copy copy;
	size_t count = 0;

	while (count < max &&
	       rpi_trace_take(&trace->shared->logs[log].rings[which],
			      &trace->at[log][which], &copy, &trace->dropped)) {
		const uint32_t name = copy.what & UINT16_MAX;

		/* A capture's, beside this trace. */
		if (name < RPI_SPAN_COUNT && !(rpi_span_domain(name) & trace->what))
			continue;
		if (name < RPI_SPAN_COUNT &&
		    translate(trace, log, &copy, &spans_out[count]))
			count++;
		else
			trace->dropped++;
	}
	return count;
}

size_t rp_trace_read(struct rp_trace *trace, struct rp_span *spans_out, size_t max)
{
	size_t count = 0;
	uint32_t i, rings;

	if (!trace || !spans_out)
		return 0;
	rings = trace->log_count * RPI_TRACE_RINGS;
	/* On with the ring where the last call found no room. */
	for (i = 0; i < rings; i++) {
		count += read_ring(trace, trace->next_ring, spans_out + count,
				   max - count);
		if (count == max)
			break;
		trace->next_ring = (trace->next_ring + 1) % rings;
	}
	return count;
}

uint64_t rp_trace_dropped(const struct rp_trace *trace)
{
	return trace ? trace->dropped : 0;
}
