/* SPDX-License-Identifier: MIT */
/* What tasks were given, and what they made of it: dump_args.json, and a file for the
 * bytes of each tensor. The guide has the format. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "capture/collectors.h"
#include "capture/drain.h"
#include "capture/graph.h"
#include "capture/json.h"
#include "worker/worker.h"

#define FILE_NAME "dump_args.json"

static bool on(const struct rp_capture *asked)
{
	return asked->enable_dump_args;
}

static uint32_t wants(const struct rp_capture *asked, uint32_t pass, uint32_t passes)
{
	(void)asked, (void)passes;
	return pass == 1 ? RPI_TRACE_ARGS : 0;
}

static int begin(struct rpi_session *session)
{
	struct rpi_dump *dump;

	if (session->pass > 1)
		return 0;
	dump = calloc(1, sizeof(*dump));
	if (!dump)
		return rpi_session_no_memory();
	dump->session = session;
	session->dump = dump;
	return rpi_drain_start(dump);
}

static void end(struct rpi_session *session)
{
	if (session->dump)
		rpi_drain_stop(session->dump);
}

static void release(struct rpi_session *session)
{
	if (session->dump)
		free(session->dump->dumped.at);
	free(session->dump);
	session->dump = NULL;
}

/* --- The index ------------------------------------------------------------ */

/* By process, task and argument, before goes before after. */
static int by_place(const void *left, const void *right)
{
	const struct rpi_dumped *a = left, *b = right;

	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	if (a->head.task_seq != b->head.task_seq)
		return a->head.task_seq < b->head.task_seq ? -1 : 1;
	if (a->head.arg != b->head.arg)
		return a->head.arg < b->head.arg ? -1 : 1;
	return (a->head.phase > b->head.phase) - (a->head.phase < b->head.phase);
}

static bool same_arg(const struct rpi_dumped *a, const struct rpi_dumped *b)
{
	return a->peer == b->peer && a->head.task_seq == b->head.task_seq &&
	       a->head.arg == b->head.arg;
}

/* The caller's argument that it was. */
static const struct rpi_note_arg *find_note(const struct rpi_session *session,
					    const struct rpi_dumped *dumped)
{
	const struct rpi_note_task *tasks = session->notes.tasks.at;
	const struct rpi_note_arg *args = session->notes.args.at;
	uint32_t i;

	for (i = 0; i < session->notes.tasks.count; i++)
		if (tasks[i].peer == dumped->peer &&
		    tasks[i].seq == dumped->head.task_seq &&
		    dumped->head.arg < tasks[i].arg_count)
			return &args[tasks[i].arg_at + dumped->head.arg];
	return NULL;
}

static json_t *dims_of(const int64_t *dims, uint32_t rank)
{
	json_t *out = json_array();
	uint32_t i;

	for (i = 0; out && i < rank; i++)
		rpi_cap_add(&out, json_integer(dims[i]));
	return out;
}

/* Where the bytes are; null for what has none in this phase. */
static json_t *bytes_of(struct rpi_session *session, const struct rpi_dumped *dumped,
			uint32_t of)
{
	char name[RPI_DUMP_NAME_BYTES], path[RPI_DUMP_NAME_BYTES + 24];
	uint32_t number;
	const char *kind = rpi_session_kind(session, dumped->peer, &number);

	if (!dumped->head.sent || !dumped->whole)
		return json_null();
	rpi_dump_name(&dumped->head, name, sizeof(name));
	if (of == RPI_PLACE_ALL)
		rpi_format(path, sizeof(path), "%s%u/%s",
			   strcmp(kind, "chip") ? kind : "rank", number, name);
	else
		rpi_format(path, sizeof(path), "%s", name);
	return json_pack("{s:s, s:o, s:b, s:i}", "file", path, "bytes",
			 rpi_cap_u64(dumped->head.sent), "truncated",
			 dumped->head.sent < dumped->head.bytes, "status", dumped->err);
}

static bool add_tensor(struct rpi_session *session, const struct rpi_dumped *dumped,
		       json_t *out)
{
	static const char *const access[] = { "", "in", "out", "inout" };
	const struct rpi_dump_head *head = &dumped->head;
	const struct rpi_note_arg *note = find_note(session, dumped);
	char memory[80] = "";

	if (note) {
		const struct rpi_past use = { .view = note->view,
					      .space = note->arg.u.tensor.resident };

		rpi_graph_memory(session, &use, memory, sizeof(memory));
	}
	return rpi_cap_set(out, "kind", json_string("tensor")) &&
	       rpi_cap_set(out, "memory", rpi_cap_text(memory)) &&
	       rpi_cap_set(out, "dtype",
			   json_string(rp_dtype_name((enum rp_dtype)head->dtype))) &&
	       rpi_cap_set(out, "access", json_string(access[head->access & RP_INOUT])) &&
	       rpi_cap_set(out, "shape", dims_of(head->shape, head->rank)) &&
	       rpi_cap_set(out, "strides", dims_of(head->strides, head->rank)) &&
	       rpi_cap_set(out, "bytes", rpi_cap_u64(head->bytes));
}

/* A number where it is one, NULL where it is none. */
static json_t *value_of(const struct rpi_dump_head *head)
{
	const struct rp_scalar scalar = { .dtype = head->dtype,
					  .value.bits = head->bits };

	switch (head->dtype) {
	case RP_FLOAT32:
		return json_real((double)scalar.value.f32);
	case RP_INT8:
		return json_integer((int8_t)head->bits);
	case RP_INT16:
		return json_integer((int16_t)head->bits);
	case RP_INT32:
		return json_integer(scalar.value.i32);
	case RP_INT64:
		return json_integer(scalar.value.i64);
	case RP_UINT8:
	case RP_UINT16:
	case RP_UINT32:
	case RP_UINT64:
		/* Integers of jansson have a sign: past them it is rounded. */
		return head->bits > INT64_MAX ? json_real((double)head->bits)
					      : rpi_cap_u64(head->bits);
	case RP_BOOL:
		return json_boolean(head->bits & 1);
	default:
		return NULL;
	}
}

static bool add_scalar(const struct rpi_dump_head *head, json_t *out)
{
	json_t *value = value_of(head);
	char bits[24];

	rpi_format(bits, sizeof(bits), "%#" PRIx64, head->bits);
	return rpi_cap_set(out, "kind", json_string("scalar")) &&
	       rpi_cap_set(out, "dtype",
			   json_string(rp_dtype_name((enum rp_dtype)head->dtype))) &&
	       rpi_cap_set(out, "value", value ? value : json_null()) &&
	       rpi_cap_set(out, "bits", json_string(bits));
}

/* All that was told of one argument. */
static json_t *arg_of(struct rpi_session *session, const struct rpi_dumped *first,
		      uint32_t count, uint32_t of)
{
	json_t *out = json_pack("{s:i}", "arg", (int)first->head.arg);
	const struct rpi_dumped *after = count > 1 ? first + 1 : NULL;
	bool ok = out;

	if (first->head.kind == RP_ARG_TENSOR) {
		const bool has_before = first->head.phase == RPI_DUMP_BEFORE;

		if (!has_before)
			after = first;
		ok = ok && add_tensor(session, first, out) &&
		     rpi_cap_set(out, "before",
				 has_before ? bytes_of(session, first, of)
					    : json_null()) &&
		     rpi_cap_set(out, "after",
				 after ? bytes_of(session, after, of) : json_null());
	} else if (first->head.kind == RP_ARG_SCALAR) {
		ok = ok && add_scalar(&first->head, out);
	} else {
		ok = ok && rpi_cap_set(out, "kind", json_string("domain"));
	}
	if (ok)
		return out;
	json_decref(out);
	return NULL;
}

static json_t *task_of(struct rpi_session *session, const struct rpi_dumped *first,
		       uint32_t count, uint32_t of)
{
	const struct rpi_label *label =
		rpi_labels_find(&session->labels, first->peer,
				rpi_trace_what((enum rpi_trace_name)0,
					       first->head.program, first->head.entry));
	json_t *out, *args = json_array();
	uint32_t at = 0, next, number;
	const char *kind = rpi_session_kind(session, first->peer, &number);

	for (; args && at < count; at = next) {
		for (next = at + 1; next < count && same_arg(&first[at], &first[next]);
		     next++)
			;
		rpi_cap_add(&args, arg_of(session, &first[at], next - at, of));
	}
	out = json_pack("{s:s, s:i, s:o, s:o, s:o}", "process", kind, "number",
			(int)number, "task", rpi_cap_u64(first->head.task_seq), "entry",
			rpi_cap_text(label ? label->name : ""), "args", args);
	return out;
}

static json_t *tasks_of(struct rpi_session *session, uint32_t of)
{
	const struct rpi_dumped *dumped = session->dump->dumped.at;
	const uint32_t count = session->dump->dumped.count;
	json_t *out = json_array();
	uint32_t at = 0, next;

	for (; out && at < count; at = next) {
		for (next = at + 1;
		     next < count && dumped[next].peer == dumped[at].peer &&
		     dumped[next].head.task_seq == dumped[at].head.task_seq;
		     next++)
			;
		if (of != RPI_PLACE_ALL && of != dumped[at].peer)
			continue;
		rpi_cap_add(&out, task_of(session, &dumped[at], next - at, of));
	}
	return out;
}

static bool is_whole(const struct rpi_dump *dump, uint32_t of)
{
	const struct rpi_dumped *dumped = dump->dumped.at;
	uint32_t i;

	for (i = 0; i < dump->dumped.count; i++)
		if ((of == RPI_PLACE_ALL || of == dumped[i].peer) &&
		    (!dumped[i].whole || dumped[i].err))
			return false;
	return !dump->err;
}

static json_t *file_of(struct rpi_session *session, uint32_t of)
{
	json_t *root = rpi_cap_head(session, "ringplane.dump_args", of);

	if (root &&
	    rpi_cap_set(root, "run", rpi_cap_u64(rpi_session_graph(session)->run)) &&
	    rpi_cap_set(root, "whole", json_boolean(is_whole(session->dump, of))) &&
	    rpi_cap_set(root, "tasks", tasks_of(session, of)))
		return root;
	json_decref(root);
	return NULL;
}

static int write_files(struct rpi_session *session)
{
	const uint32_t peers = rpi_session_peers(session);
	struct rpi_dump *dump = session->dump;
	uint32_t peer;
	int err;

	if (dump->dumped.count)
		qsort(dump->dumped.at, dump->dumped.count, sizeof(struct rpi_dumped),
		      by_place);
	err = rpi_cap_write(session, RPI_PLACE_ALL, FILE_NAME,
			    file_of(session, RPI_PLACE_ALL));
	for (peer = 0; !err && peer < peers; peer++)
		err = rpi_cap_write(session, peer, FILE_NAME, file_of(session, peer));
	/* What went wrong first says more. */
	if (dump->err) {
		err = dump->err;
		rpi_error_set(dump->text);
	}
	return err;
}

static const char *const files[] = { FILE_NAME, "task*.arg*.before.bin",
				     "task*.arg*.after.bin", NULL };

const struct rpi_collector rpi_dump_args_collector = {
	.on = on,
	.wants = wants,
	.begin = begin,
	.end = end,
	.write = write_files,
	.release = release,
	.files = files,
};
