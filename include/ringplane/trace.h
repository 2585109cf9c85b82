/* SPDX-License-Identifier: MIT */
/*
 * Spans: where the time of dispatches goes, in the caller's process and in each worker
 * process. Nothing is recorded, written or printed until somebody attaches; until then a
 * span costs one branch.
 *
 * Names have dots, and the nesting is in them: a span's parent is the longest name of the
 * same task that its own begins with. In the caller's process: host.submit and its parts,
 * host.run (from the submit to the collected outcome), host.wait. With a dispatcher,
 * host.queue is the request's time in the queue, and host.submit follows it in the
 * dispatcher's thread, up to the last task; it has no .publish there. In a chip, for each
 * task: chip.run, .follow (waits for other processes' tasks), .bind (arguments to the
 * device), .runner_run, .writeback; below chip.run.runner_run the device's own:
 * .device_wall, .device_wall.orch (the entry), .device_wall.sched (from the first
 * kernel's begin to the last one's end), .device_wall.sched.kernel. In a callback worker:
 * callback.run and its parts.
 */
#ifndef RINGPLANE_TRACE_H
#define RINGPLANE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_worker;
struct rp_trace;

/* What to record. */
#define RP_TRACE_HOST	 0x1u /* host spans of every process */
#define RP_TRACE_DEVICE	 0x2u /* device spans of the chips */
#define RP_TRACE_KERNELS 0x4u /* and one for each kernel */

/* Whose clock. */
enum rp_span_domain {
	RP_SPAN_HOST = 0,
	RP_SPAN_DEVICE = 1,
};

/* Bytes of a name, the final zero included. */
#define RP_SPAN_NAME_BYTES 64

/* The caller's process as a peer; chips and callback workers are numbered from 0. */
#define RP_SPAN_CALLER (-1)

struct rp_span {
	char name[RP_SPAN_NAME_BYTES];
	/* The entry or callback, by name ("" of the caller's spans), and what it is known
	 * by everywhere: the build-id of the ELF object that it lies in and its place
	 * there, or its program and index where there is no build-id. */
	char task_name[RP_SPAN_NAME_BYTES];
	char task_id[RP_SPAN_NAME_BYTES];
	enum rp_span_domain domain;
	int32_t peer; /* RP_SPAN_CALLER, a chip, or past those a callback worker */
	int32_t pid;
	int32_t tid;
	uint64_t run;	      /* rp_run_id(); 0: of none */
	uint64_t task;	      /* its number among the tasks of its process; 0: of none */
	uint64_t begin_ns;    /* CLOCK_MONOTONIC */
	uint64_t duration_ns; /* 0 for an edge */
	/* A kernel: its number in the entry. An edge, the name "edge": its task follows
	 * the task `value` of the process `follows`. */
	uint64_t value;
	int32_t follows; /* a peer; -1 for what is no edge */
};

/*
 * Begin to record. One may be attached to a worker at a time.
 *
 * what        RP_TRACE_*; RP_TRACE_KERNELS takes RP_TRACE_DEVICE with it.
 * trace_out   end it with rp_trace_detach(), before the worker is freed.
 *
 * With SIMPLER_DEVICE_STRACE_ENABLE=0 in the environment at prepare, device spans are
 * silent: they are asked for and never come.
 *
 * Threads     any. Blocks: no.
 * Returns     0
 *             -EINVAL      NULL, no bit or an unknown one
 *             -EBUSY       somebody is attached
 *             -EOPNOTSUPP  this build has no such spans: it was made with
 *                          SIMPLER_HOST_STRACE=0 (host) or SIMPLER_DFX=0 (device)
 *             -ENOMEM
 * Spec        001, Environment Variables; 002, Reading per-launch timing
 */
RP_API int rp_trace_attach(struct rp_worker *worker, uint32_t what,
			   struct rp_trace **trace_out);

/*
 * Take what was recorded since: per thread in the order in which spans ended. A run's
 * spans are there once its outcome is, but for the waiting thread's own host.wait. The
 * first thread of a process that records keeps its newest 8192, the others share as many;
 * older ones are dropped and counted.
 *
 * spans_out   room for `max`.
 *
 * Threads     one at a time. Blocks: no.
 * Returns     how many were stored; fewer than `max`: that was all
 */
RP_API size_t rp_trace_read(struct rp_trace *trace, struct rp_span *spans_out,
			    size_t max);

/* Spans that were dropped before they were read. */
RP_API uint64_t rp_trace_dropped(const struct rp_trace *trace);

/* Stop recording; what was not read is gone. NULL: nothing. */
RP_API void rp_trace_detach(struct rp_trace *trace);

/* --- Text markers ---------------------------------------------------------- */

/* Bytes that a marker takes at most, the final zero included. */
#define RP_MARKER_BYTES 1024

/*
 * A span as one line of text, without a newline:
 *
 *	[STRACE] v=1 pid=7 tid=7 peer=0 run=3 inv=3 hid=... task=... dom=dev
 *	name=chip.run.runner_run.device_wall ts=... dur=... val=0 on=-1 sum=xxxxxxxx
 *
 * Times are in ns. `sum` is of what stands before it: a line that was cut, or into which
 * another was written, does not pass for a whole one.
 *
 * Returns     its length, or -EINVAL for NULL or a buffer below RP_MARKER_BYTES
 */
RP_API int rp_marker_format(const struct rp_span *span, char *buf, size_t bytes);

/*
 * The reverse; the marker may be anywhere in the line.
 *
 * Returns     0
 *             -ENOENT      there is no marker in it
 *             -EINVAL      one that is damaged, or of another version
 */
RP_API int rp_marker_parse(const char *line, struct rp_span *span_out);

/*
 * Read what was recorded and write it as markers, one a line, to a file (appended) or,
 * for path NULL, to the log callback at RP_LOG_INFO. The library writes none by itself:
 * where the spec has them on by default, here somebody attaches and asks.
 *
 * Blocks      for the file. Threads: as rp_trace_read().
 * Returns     0, -EINVAL for NULL, or what the file says
 * Spec        002, Reading per-launch timing
 */
RP_API int rp_trace_write_markers(struct rp_trace *trace, const char *path);

/* --- Export ---------------------------------------------------------------- */

/*
 * Write spans as JSON of the Chrome trace event format, which Perfetto and
 * chrome://tracing show: a track for each process and thread, device spans on tracks of
 * their own, and flows from each submit to its tasks and from each task to those that
 * follow it.
 *
 * Blocks      for the file. Threads: any.
 * Returns     0, -EINVAL for NULL, -ENOMEM, or what the file says; then it is not whole
 */
RP_API int rp_trace_export(const struct rp_span *spans, size_t count, const char *path);

#ifdef __cplusplus
}
#endif

#endif
