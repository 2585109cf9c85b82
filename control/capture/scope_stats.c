/* SPDX-License-Identifier: MIT */
/* How full rings have been, a line for each scope: scope_stats.jsonl. The guide has the
 * format. */
#include <stdlib.h>
#include <string.h>

#include "capture/collectors.h"
#include "capture/json.h"
#include "runtime/mark.h"
#include "worker/worker.h"

#define FILE_NAME "scope_stats.jsonl"

static bool on(const struct rp_capture *asked)
{
	return asked->enable_scope_stats;
}

static uint32_t wants(const struct rp_capture *asked, uint32_t pass, uint32_t passes)
{
	(void)asked, (void)passes;
	return pass == 1 ? RPI_TRACE_SCOPES : 0;
}

/* One scope, put together. */
struct scope {
	uint64_t words[RPI_MARK_PARTS][2];
	uint32_t parts; /* bit: it is there */
};

static json_t *usage_of(const struct scope *scope, enum rpi_mark_part part,
			uint64_t waits)
{
	return json_pack("{s:o, s:o, s:o}", "capacity",
			 rpi_cap_u64(scope->words[part][0]), "peak",
			 rpi_cap_u64(scope->words[part][1]), "waits",
			 rpi_cap_u64(waits & UINT32_MAX));
}

static json_t *line_of(struct rpi_session *session, const struct rpi_seen *seen,
		       const struct scope *scope)
{
	const struct rpi_capture_run *run = rpi_session_graph(session);
	const struct rpi_label *label =
		rpi_labels_find(&session->labels, seen->peer, seen->copy.what);
	const uint64_t what = scope->words[RPI_MARK_WHAT][0];
	const uint64_t *waits = scope->words[RPI_MARK_WAITS];
	const bool manual = RPI_MARK_KIND(what) == RP_SCOPE_MANUAL;
	uint32_t number;
	const char *kind = rpi_session_kind(session, seen->peer, &number);

	return json_pack(
		"{s:s, s:i, s:o, s:o, s:o, s:i, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o}",
		"process", kind, "number", (int)number, "task",
		rpi_cap_u64(seen->copy.task_seq), "entry",
		rpi_cap_text(label ? label->name : ""), "scope",
		rpi_cap_u64(RPI_MARK_NUMBER(seen->copy.value)), "depth",
		(int)RPI_MARK_DEPTH(what), "kind", manual ? "manual" : "auto", "ring",
		(int)RPI_MARK_RING(what), "begin_ns",
		rpi_cap_u64(rpi_scale_ns(&run->scale, scope->words[RPI_MARK_TIME][0])),
		"end_ns",
		rpi_cap_u64(rpi_scale_ns(&run->scale, scope->words[RPI_MARK_TIME][1])),
		"kernels", rpi_cap_u64(scope->words[RPI_MARK_WHAT][1]), "task_window",
		usage_of(scope, RPI_MARK_WINDOW, waits[0]), "heap",
		usage_of(scope, RPI_MARK_HEAP, waits[0] >> 32), "dep_pool",
		usage_of(scope, RPI_MARK_EDGES, waits[1]), "overlap_map",
		usage_of(scope, RPI_MARK_USES, waits[1] >> 32));
}

/* Records of scopes, sorted, and those scopes of which a part is missing. */
struct scopes {
	const struct rpi_seen **seen;
	size_t count;
	uint64_t lost;
};

static int by_scope(const void *left, const void *right)
{
	const struct rpi_seen *a = *(const struct rpi_seen *const *)left;
	const struct rpi_seen *b = *(const struct rpi_seen *const *)right;
	const uint64_t a_number = RPI_MARK_NUMBER(a->copy.value);
	const uint64_t b_number = RPI_MARK_NUMBER(b->copy.value);

	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	if (a->copy.task_seq != b->copy.task_seq)
		return a->copy.task_seq < b->copy.task_seq ? -1 : 1;
	return (a_number > b_number) - (a_number < b_number);
}

static int collect(struct rpi_session *session, struct scopes *out)
{
	const struct rpi_reading *reading = &rpi_session_graph(session)->reading;
	const struct rpi_seen *seen = reading->seen.at;
	uint32_t i;

	out->seen = calloc(reading->seen.count + 1, sizeof(*out->seen));
	if (!out->seen)
		return rpi_session_no_memory();
	for (i = 0; i < reading->seen.count; i++)
		if (rpi_seen_name(&seen[i]) == RPI_SPAN_SCOPE &&
		    RPI_MARK_PART(seen[i].copy.value) < RPI_MARK_PARTS)
			out->seen[out->count++] = &seen[i];
	qsort(out->seen, out->count, sizeof(*out->seen), by_scope);
	return 0;
}

/* The scope that begins at *at_io; moves past it. False: it is not whole. */
static bool next_scope(const struct scopes *scopes, size_t *at_io, struct scope *out)
{
	const struct rpi_seen *const *first = &scopes->seen[*at_io];

	memset(out, 0, sizeof(*out));
	for (; *at_io < scopes->count; (*at_io)++) {
		const struct rpi_trace_copy *copy = &scopes->seen[*at_io]->copy;
		const uint32_t part = RPI_MARK_PART(copy->value);

		if (by_scope(first, &scopes->seen[*at_io]))
			break;
		out->words[part][0] = copy->begin;
		out->words[part][1] = copy->end;
		out->parts |= 1u << part;
	}
	return out->parts == (1u << RPI_MARK_PARTS) - 1;
}

static void count_lost(struct scopes *scopes)
{
	struct scope scope;
	size_t at = 0;

	while (at < scopes->count)
		scopes->lost += !next_scope(scopes, &at, &scope);
}

/* A file on its way. */
struct output {
	struct rpi_session *session;
	const struct scopes *scopes;
	uint32_t of; /* RPI_PLACE_ALL, or a process */
};

static int put_json(FILE *file, json_t *line)
{
	int err = rpi_cap_put(file, line, JSON_COMPACT);

	json_decref(line);
	return err;
}

static json_t *head_of(const struct output *out)
{
	const struct rpi_capture_run *run = rpi_session_graph(out->session);
	const struct rpi_reading *reading = &run->reading;
	const bool whole = !reading->dropped && !reading->err && !out->scopes->lost;
	json_t *head = rpi_cap_head(out->session, "ringplane.scope_stats", out->of);

	if (head && rpi_cap_set(head, "run", rpi_cap_u64(run->run)) &&
	    rpi_cap_set(head, "dropped", rpi_cap_u64(reading->dropped)) &&
	    rpi_cap_set(head, "whole", json_boolean(whole)))
		return head;
	json_decref(head);
	return NULL;
}

static int put_lines(FILE *file, void *context)
{
	const struct output *out = context;
	struct scope scope;
	size_t at = 0;
	int err;

	err = put_json(file, head_of(out));
	while (!err && at < out->scopes->count) {
		const struct rpi_seen *seen = out->scopes->seen[at];

		if (next_scope(out->scopes, &at, &scope) &&
		    (out->of == RPI_PLACE_ALL || out->of == seen->peer))
			err = put_json(file, line_of(out->session, seen, &scope));
	}
	return err;
}

static int write_files(struct rpi_session *session)
{
	const uint32_t chips = session->worker->plane.chip_count;
	struct scopes scopes = { 0 };
	struct output out = { session, &scopes, RPI_PLACE_ALL };
	int err;

	err = collect(session, &scopes);
	if (err)
		return err;
	count_lost(&scopes);
	err = rpi_place_write(&session->place, RPI_PLACE_ALL, FILE_NAME, put_lines, &out);
	for (out.of = 0; !err && out.of < chips; out.of++)
		err = rpi_place_write(&session->place, out.of, FILE_NAME, put_lines,
				      &out);
	free(scopes.seen);
	return err;
}

static const char *const files[] = { FILE_NAME, NULL };

const struct rpi_collector rpi_scope_stats = {
	.on = on,
	.wants = wants,
	.write = write_files,
	.files = files,
};
