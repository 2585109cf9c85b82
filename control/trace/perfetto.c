/* SPDX-License-Identifier: MIT */
/*
 * Spans as Chrome trace events. A process is a process there, a thread a thread; a chip's
 * device is a thread of it with a number of its own. Flows are pairs of events of one id:
 * one inside the slice where they begin, one inside the slice where they end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/trace.h>

#include "base/error.h"
#include "base/utf8.h"

/* Past the numbers that the system gives to threads. */
#define DEVICE_TID 100000000

struct out {
	FILE *file;
	bool begun; /* an event has been written */
	uint64_t flows;
	uint64_t origin_ns; /* of the earliest span */
};

/* A name inside quotes. */
static void put_text(FILE *file, const char *text)
{
	while (*text) {
		const size_t length = rpi_utf8_length(text);
		const uint8_t byte = (uint8_t)*text;

		if (byte == '"' || byte == '\\')
			fputc('\\', file);
		if (!length)
			fputc('?', file);
		else if (byte < ' ' || byte == 0x7f)
			fprintf(file, "\\u%04x", byte);
		else
			fwrite(text, 1, length, file);
		text += length ? length : 1;
	}
}

static void begin_event(struct out *out)
{
	fprintf(out->file, out->begun ? ",\n" : "\n");
	out->begun = true;
}

/* Times are in us, as fractions. */
static void put_time(struct out *out, const char *key, uint64_t ns)
{
	fprintf(out->file, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000,
		(unsigned int)(ns % 1000));
}

static int tid_of(const struct rp_span *span)
{
	return span->domain == RP_SPAN_DEVICE ? DEVICE_TID + span->tid : span->tid;
}

static bool is_edge(const struct rp_span *span)
{
	return span->follows >= 0;
}

static void put_slice(struct out *out, const struct rp_span *span)
{
	begin_event(out);
	fprintf(out->file,
		"{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s\",\"name\":\"",
		span->pid, tid_of(span), span->domain == RP_SPAN_DEVICE ? "dev" : "host");
	put_text(out->file, span->name);
	fputs("\"", out->file);
	put_time(out, "ts", span->begin_ns - out->origin_ns);
	put_time(out, "dur", span->duration_ns);
	fprintf(out->file, ",\"args\":{\"run\":%" PRIu64, span->run);
	if (span->task) {
		fprintf(out->file, ",\"task\":%" PRIu64 ",\"entry\":\"", span->task);
		put_text(out->file, span->task_name);
		fputs("\",\"id\":\"", out->file);
		put_text(out->file, span->task_id);
		fputs("\"", out->file);
	}
	if (span->value)
		fprintf(out->file, ",\"value\":%" PRIu64, span->value);
	fputs("}}", out->file);
}

static void put_flow_end(struct out *out, const char *name, bool begins,
			 const struct rp_span *slice, uint64_t ns)
{
	begin_event(out);
	fprintf(out->file,
		"{\"ph\":\"%s\",\"id\":%" PRIu64
		",\"pid\":%d,\"tid\":%d,\"cat\":\"flow\","
		"\"name\":\"%s\"%s",
		begins ? "s" : "f", out->flows, slice->pid, tid_of(slice), name,
		begins ? "" : ",\"bp\":\"e\"");
	put_time(out, "ts", ns - out->origin_ns);
	fputs("}", out->file);
}

static void put_flow(struct out *out, const char *name, const struct rp_span *from,
		     uint64_t from_ns, const struct rp_span *to)
{
	out->flows++;
	put_flow_end(out, name, true, from, from_ns);
	put_flow_end(out, name, false, to, to->begin_ns);
}

/* --- Finding the two ends ------------------------------------------------- */

/* The slice of a whole task, or of a submit. */
struct anchor {
	int32_t peer;
	uint64_t number; /* the task's, the submit's run */
	const struct rp_span *span;
};

static int compare_anchors(const void *left, const void *right)
{
	const struct anchor *a = left, *b = right;

	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return 0;
}

static size_t find_anchors(const struct rp_span *spans, size_t count,
			   struct anchor *anchors)
{
	size_t found = 0, i;

	for (i = 0; i < count; i++) {
		const struct rp_span *span = &spans[i];
		bool submit = span->peer == RP_SPAN_CALLER;

		if (strcmp(span->name, "chip.run") != 0 &&
		    strcmp(span->name, "callback.run") != 0 &&
		    strcmp(span->name, "host.submit") != 0)
			continue;
		anchors[found++] =
			(struct anchor){ .peer = span->peer,
					 .number = submit ? span->run : span->task,
					 .span = span };
	}
	qsort(anchors, found, sizeof(*anchors), compare_anchors);
	return found;
}

static const struct rp_span *find(const struct anchor *anchors, size_t count,
				  int32_t peer, uint64_t number)
{
	const struct anchor key = { .peer = peer, .number = number };
	const struct anchor *found =
		bsearch(&key, anchors, count, sizeof(*anchors), compare_anchors);

	return found ? found->span : NULL;
}

static void put_flows(struct out *out, const struct rp_span *spans, size_t count,
		      const struct anchor *anchors, size_t anchor_count)
{
	size_t i;

	for (i = 0; i < anchor_count; i++) {
		const struct rp_span *task = anchors[i].span;
		const struct rp_span *submit;

		if (task->peer == RP_SPAN_CALLER)
			continue;
		submit = find(anchors, anchor_count, RP_SPAN_CALLER, task->run);
		if (submit)
			put_flow(out, "submit", submit, submit->begin_ns, task);
	}
	for (i = 0; i < count; i++) {
		const struct rp_span *from, *to;

		if (!is_edge(&spans[i]))
			continue;
		from = find(anchors, anchor_count, spans[i].follows, spans[i].value);
		to = find(anchors, anchor_count, spans[i].peer, spans[i].task);
		/* The producer may have been dropped, or be of before the trace. */
		if (from && to)
			put_flow(out, "follows", from, from->begin_ns + from->duration_ns,
				 to);
	}
}

/* --- Names of tracks ------------------------------------------------------ */

struct track {
	int32_t pid, tid, peer;
};

static int compare_tracks(const void *left, const void *right)
{
	const struct track *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static void put_name(struct out *out, const char *what, int32_t pid, int32_t tid,
		     const char *name)
{
	begin_event(out);
	fprintf(out->file,
		"{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":"
		"\"%s\"}}",
		pid, tid, what, name);
}

static void put_track(struct out *out, const struct track *track, bool new_process)
{
	char name[48];

	if (track->peer == RP_SPAN_CALLER)
		rpi_format(name, sizeof(name), "caller");
	else
		rpi_format(name, sizeof(name), "worker process %d", track->peer);
	if (new_process)
		put_name(out, "process_name", track->pid, track->tid, name);
	if (track->tid >= DEVICE_TID)
		rpi_format(name, sizeof(name), "device (thread %d)",
			   track->tid - DEVICE_TID);
	else
		rpi_format(name, sizeof(name), "thread %d", track->tid);
	put_name(out, "thread_name", track->pid, track->tid, name);
}

static void put_tracks(struct out *out, const struct rp_span *spans, size_t count,
		       struct track *tracks)
{
	size_t i;

	for (i = 0; i < count; i++)
		tracks[i] =
			(struct track){ spans[i].pid, tid_of(&spans[i]), spans[i].peer };
	qsort(tracks, count, sizeof(*tracks), compare_tracks);
	for (i = 0; i < count; i++)
		if (!i || compare_tracks(&tracks[i - 1], &tracks[i]))
			put_track(out, &tracks[i],
				  !i || tracks[i - 1].pid != tracks[i].pid);
}

static void put_all(struct out *out, const struct rp_span *spans, size_t count,
		    struct anchor *anchors, struct track *tracks)
{
	size_t i;

	out->origin_ns = count ? UINT64_MAX : 0;
	for (i = 0; i < count; i++)
		if (spans[i].begin_ns < out->origin_ns)
			out->origin_ns = spans[i].begin_ns;
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out->file);
	put_tracks(out, spans, count, tracks);
	for (i = 0; i < count; i++)
		if (!is_edge(&spans[i]))
			put_slice(out, &spans[i]);
	put_flows(out, spans, count, anchors, find_anchors(spans, count, anchors));
	fputs("\n]}\n", out->file);
}

int rp_trace_export(const struct rp_span *spans, size_t count, const char *path)
{
	struct out out = { 0 };
	struct anchor *anchors;
	struct track *tracks;
	int err = 0;

	if ((!spans && count) || !path)
		return rpi_fail(-EINVAL, "rp_trace_export: %s NULL, expected one",
				path ? "spans" : "path");
	anchors = calloc(count + 1, sizeof(*anchors));
	tracks = calloc(count + 1, sizeof(*tracks));
	if (!anchors || !tracks) {
		err = rpi_fail(-ENOMEM, "rp_trace_export: no memory for %zu spans",
			       count);
		goto free_tables;
	}
	out.file = fopen(path, "we");
	if (!out.file) {
		err = rpi_fail(-errno, "rp_trace_export: '%s': %s", path,
			       strerror(errno));
		goto free_tables;
	}
	errno = 0;
	put_all(&out, spans, count, anchors, tracks);
	if (ferror(out.file))
		err = errno ? -errno : -EIO;
	if (fclose(out.file) && !err)
		err = -errno;
	if (err)
		rpi_fail(err, "rp_trace_export: '%s': %s", path, strerror(-err));
free_tables:
	free(anchors);
	free(tracks);
	return err;
}
