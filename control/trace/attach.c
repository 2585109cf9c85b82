/* SPDX-License-Identifier: MIT */
/* Attaching to a worker's rings, and spans as users see them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/trace.h>

#include "base/error.h"
#include "trace/identity.h"
#include "worker/worker.h"

#define NS_PER_S 1e9

/* Below this, what two readings of both clocks say about their rates is noise. */
#define RATE_NS_MIN 5000000u

static_assert(RP_TRACE_HOST == RPI_TRACE_HOST && RP_TRACE_DEVICE == RPI_TRACE_DEVICE &&
		      RP_TRACE_KERNELS == RPI_TRACE_KERNELS,
	      "the public bits are those of the rings");

/* An entry or a callback as spans show it. */
struct label {
	char name[RP_SPAN_NAME_BYTES];
	char id[RP_SPAN_NAME_BYTES];
};

struct labels {
	struct label *entries;	 /* [entry_count] of the program */
	struct label *callbacks; /* [callback_count] */
};

struct rp_trace {
	struct rp_worker *worker;
	struct rpi_trace *shared;
	uint32_t log_count;
	uint32_t next_ring; /* to be read, of all rings of all logs */
	uint64_t at[RP_MAX_PEERS + 1][RPI_TRACE_RINGS];
	uint64_t dropped;
	uint64_t anchor_ticks, anchor_ns;
	double ns_per_tick;
	int32_t pids[RP_MAX_PEERS + 1]; /* as they were when it was attached */
	struct labels *programs;	/* [program_count] */
	uint32_t program_count;
};

static const struct {
	const char *name;
	uint32_t domain;
} names[] = {
#define NAME(id, domain, name) { name, RPI_TRACE_##domain },
	RPI_SPAN_NAMES(NAME)
#undef NAME
};

/* --- Who a task is -------------------------------------------------------- */

static void fill_label(struct label *out, const char *name, const void *fn,
		       const struct rp_program *program, const char *kind, uint32_t idx)
{
	rpi_format(out->name, sizeof(out->name), "%s", name);
	if (!fn || rpi_identity_of(fn, out->id, sizeof(out->id)))
		rpi_format(out->id, sizeof(out->id), "%s.%s%u", program->name, kind, idx);
}

static int label_program(struct rp_trace *trace, uint32_t idx)
{
	const struct rp_program *program = trace->worker->programs[idx];
	const struct rpi_callback *callbacks = trace->worker->callbacks[idx];
	struct labels *labels = &trace->programs[idx];
	uint32_t i;

	labels->entries = calloc(program->entry_count, sizeof(*labels->entries));
	labels->callbacks =
		calloc(program->callback_count + 1, sizeof(*labels->callbacks));
	if (!labels->entries || !labels->callbacks)
		return -ENOMEM;
	for (i = 0; i < program->entry_count; i++)
		fill_label(&labels->entries[i], program->entries[i].name,
			   (const void *)(uintptr_t)program->entries[i].fn, program,
			   "entry", i);
	for (i = 0; i < program->callback_count; i++)
		fill_label(&labels->callbacks[i], program->callbacks[i].name,
			   (const void *)(uintptr_t)callbacks[i].fn, program, "callback",
			   i);
	return 0;
}

static const struct label *find_label(const struct rp_trace *trace, uint32_t peer,
				      const struct rpi_trace_copy *copy)
{
	uint32_t program = copy->what >> 16 & UINT16_MAX;
	uint32_t entry = copy->what >> 32 & UINT16_MAX;

	/* What a process wrote: bound it. */
	if (!copy->task_seq || program >= trace->program_count)
		return NULL;
	if (peer < trace->worker->plane.chip_count)
		return entry < trace->worker->programs[program]->entry_count
			       ? &trace->programs[program].entries[entry]
			       : NULL;
	return entry < trace->worker->programs[program]->callback_count
		       ? &trace->programs[program].callbacks[entry]
		       : NULL;
}

/* --- Attaching ------------------------------------------------------------ */

/* How long a tick is. The longer ago the anchor, the better it is known. */
static void calibrate(struct rp_trace *trace)
{
	uint64_t ns = rpi_now_ns() - trace->anchor_ns;
	uint64_t ticks = rpi_clock_ticks() - trace->anchor_ticks;

	trace->ns_per_tick = NS_PER_S / (double)rpi_clock.frequency;
	if (ns >= RATE_NS_MIN && ticks)
		trace->ns_per_tick = (double)ns / (double)ticks;
}

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
	uint32_t i;

	for (i = 0; trace->programs && i < trace->program_count; i++) {
		free(trace->programs[i].entries);
		free(trace->programs[i].callbacks);
	}
	free(trace->programs);
	free(trace);
}

static int create(struct rp_worker *worker, struct rp_trace **trace_out)
{
	struct rp_trace *trace = calloc(1, sizeof(*trace));
	uint32_t i, k;
	int err = 0;

	if (!trace)
		return -ENOMEM;
	trace->worker = worker;
	trace->shared = worker->plane.tracer.trace;
	trace->log_count = worker->plane.peer_count + 1;
	trace->anchor_ticks = worker->anchor_ticks;
	trace->anchor_ns = worker->anchor_ns;
	trace->program_count = worker->program_count;
	trace->programs = calloc(worker->program_count, sizeof(*trace->programs));
	if (!trace->programs)
		err = -ENOMEM;
	for (i = 0; !err && i < trace->program_count; i++)
		err = label_program(trace, i);
	if (err) {
		destroy(trace);
		return err;
	}
	calibrate(trace);
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
	pthread_mutex_lock(&worker->lock);
	busy = worker->trace;
	if (!busy)
		worker->trace = trace;
	pthread_mutex_unlock(&worker->lock);
	if (busy) {
		destroy(trace);
		return rpi_fail(-EBUSY, "rp_trace_attach: somebody is attached to this "
					"worker, expected rp_trace_detach() first");
	}
	if (what & RPI_TRACE_KERNELS)
		what |= RPI_TRACE_DEVICE;
	if (!worker->device_spans)
		what &= ~(RPI_TRACE_DEVICE | RPI_TRACE_KERNELS);
	rpi_trace_want(trace->shared, what, RPI_TRACE_SPANS);
	*trace_out = trace;
	return 0;
}

void rp_trace_detach(struct rp_trace *trace)
{
	if (!trace)
		return;
	rpi_trace_want(trace->shared, 0, RPI_TRACE_SPANS);
	pthread_mutex_lock(&trace->worker->lock);
	trace->worker->trace = NULL;
	pthread_mutex_unlock(&trace->worker->lock);
	destroy(trace);
}

/* --- Reading -------------------------------------------------------------- */

static uint64_t to_ns(const struct rp_trace *trace, uint64_t ticks)
{
	double since = (double)(int64_t)(ticks - trace->anchor_ticks);

	return trace->anchor_ns + (uint64_t)(int64_t)(since * trace->ns_per_tick);
}

/* What a process wrote is judged: false for what no build of ours writes. */
static bool translate(const struct rp_trace *trace, uint32_t log,
		      const struct rpi_trace_copy *copy, struct rp_span *out)
{
	uint32_t name = copy->what & UINT16_MAX;
	const struct label *label = find_label(trace, log, copy);

	if (name >= RPI_SPAN_COUNT || copy->end < copy->begin)
		return false;
	memset(out, 0, sizeof(*out));
	rpi_format(out->name, sizeof(out->name), "%s", names[name].name);
	if (label) {
		memcpy(out->task_name, label->name, sizeof(out->task_name));
		memcpy(out->task_id, label->id, sizeof(out->task_id));
	}
	out->domain = names[name].domain == RPI_TRACE_HOST ? RP_SPAN_HOST
							   : RP_SPAN_DEVICE;
	out->peer = log + 1 < trace->log_count ? (int32_t)log : RP_SPAN_CALLER;
	out->pid = trace->pids[log];
	out->tid = (int32_t)copy->thread;
	out->run = copy->run_seq;
	out->task = copy->task_seq;
	out->begin_ns = to_ns(trace, copy->begin);
	out->duration_ns = to_ns(trace, copy->end) - out->begin_ns;
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
		if (translate(trace, log, &copy, &spans_out[count]))
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
