/* SPDX-License-Identifier: MIT */
/* Records of a swimlane as spans, for Perfetto. */
#include <ringplane/capture.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <ringplane/trace.h>

#include "base/error.h"
#include "base/list.h"

static const char call[] = "rp_capture_export";

/* What the system numbers ends well before. */
#define ID_MAX 99999999

struct reading {
	json_t *root;
	struct rpi_list spans; /* struct rp_span */
	bool bad, no_memory;
};

/* What is not there, or is of another kind, makes the file a bad one. */
static uint64_t number(struct reading *in, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	in->bad |= !json_is_integer(value) || json_integer_value(value) < 0;
	return in->bad ? 0 : (uint64_t)json_integer_value(value);
}

/* The number of a process, of a thread, or among the worker's processes. */
static int32_t id(struct reading *in, const json_t *object, const char *key)
{
	const uint64_t value = number(in, object, key);

	in->bad |= value > ID_MAX;
	return in->bad ? 0 : (int32_t)value;
}

static const char *text(struct reading *in, const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	in->bad |= !value;
	return value ? value : "";
}

static const json_t *array(struct reading *in, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	in->bad |= !json_is_array(value);
	return value;
}

/* One that is not in every file; NULL. */
static const json_t *array_if_any(struct reading *in, const json_t *object,
				  const char *key)
{
	return json_object_get(object, key) ? array(in, object, key) : NULL;
}

static int32_t pid_of(struct reading *in, int64_t peer)
{
	const json_t *all = array(in, in->root, "processes");
	const json_t *process;
	size_t i;

	json_array_foreach(all, i, process)
	{
		const json_t *own = json_object_get(process, "peer");

		if (json_is_integer(own) && json_integer_value(own) == peer)
			return id(in, process, "pid");
	}
	in->bad = true;
	return 0;
}

static struct rp_span *add(struct reading *in, const struct rp_span *like)
{
	struct rp_span *span = rpi_list_append(&in->spans, 1, sizeof(*span));

	if (!span) {
		in->no_memory = true;
		return NULL;
	}
	*span = *like;
	return span;
}

/* A thing with a beginning, an end and a thread. */
static void add_timed(struct reading *in, const struct rp_span *like, const char *name,
		      const json_t *object)
{
	const uint64_t begin_ns = number(in, object, "begin_ns");
	const uint64_t end_ns = number(in, object, "end_ns");
	struct rp_span *span;

	in->bad |= end_ns < begin_ns;
	span = in->bad ? NULL : add(in, like);
	if (!span)
		return;
	rpi_format(span->name, sizeof(span->name), "%s", name);
	span->tid = id(in, object, "thread");
	span->begin_ns = begin_ns;
	span->duration_ns = end_ns - begin_ns;
}

static void add_kernels(struct reading *in, struct rp_span like, const json_t *kernels)
{
	const json_t *kernel;
	size_t i;

	like.domain = RP_SPAN_DEVICE;
	json_array_foreach(kernels, i, kernel)
	{
		const char *name = text(in, kernel, "name");

		like.value = number(in, kernel, "kernel");
		/* One that has not run is in no track. */
		if (json_object_get(kernel, "begin_ns"))
			add_timed(in, &like, name[0] ? name : "kernel", kernel);
	}
}

static bool is_device(const char *name)
{
	return strstr(name, ".device_wall");
}

static void add_phases(struct reading *in, const struct rp_span *like,
		       const json_t *phases)
{
	const json_t *phase;
	size_t i;

	json_array_foreach(phases, i, phase)
	{
		struct rp_span own = *like;
		const char *name = text(in, phase, "name");

		own.domain = is_device(name) ? RP_SPAN_DEVICE : RP_SPAN_HOST;
		add_timed(in, &own, name, phase);
	}
}

static bool is_callback(struct reading *in, int32_t peer)
{
	const json_t *process =
		json_array_get(array(in, in->root, "processes"), (size_t)peer);

	return !strcmp(text(in, process, "kind"), "callback");
}

static void add_tasks(struct reading *in, uint64_t run)
{
	const json_t *tasks = array(in, in->root, "tasks"), *task;
	size_t i;

	json_array_foreach(tasks, i, task)
	{
		const int32_t peer = id(in, task, "peer");
		struct rp_span like = { .peer = peer,
					.run = run,
					.task = number(in, task, "task"),
					.follows = -1 };

		like.pid = pid_of(in, peer);
		rpi_format(like.task_name, sizeof(like.task_name), "%s",
			   text(in, task, "entry"));
		rpi_format(like.task_id, sizeof(like.task_id), "%s",
			   text(in, task, "id"));
		add_timed(in, &like, is_callback(in, peer) ? "callback.run" : "chip.run",
			  task);
		add_phases(in, &like, array_if_any(in, task, "phases"));
		add_kernels(in, like, array_if_any(in, task, "kernels"));
	}
}

static void add_host(struct reading *in, uint64_t run)
{
	const json_t *host = array_if_any(in, in->root, "host");
	struct rp_span like = { .peer = RP_SPAN_CALLER, .run = run, .follows = -1 };
	const json_t *span;
	size_t i;

	/* The file of one process has none. */
	if (!host)
		return;
	like.pid = pid_of(in, RP_SPAN_CALLER);
	json_array_foreach(host, i, span)
	{
		add_timed(in, &like, text(in, span, "name"), span);
	}
}

static void add_edges(struct reading *in, uint64_t run)
{
	const json_t *edges = array(in, in->root, "edges"), *edge;
	size_t i;

	json_array_foreach(edges, i, edge)
	{
		const struct rp_span span = {
			.name = "edge",
			.peer = id(in, edge, "to_peer"),
			.run = run,
			.task = number(in, edge, "to_task"),
			.value = number(in, edge, "from_task"),
			.follows = id(in, edge, "from_peer"),
		};

		add(in, &span);
	}
}

/* Of edges only the ends are shown, so their own time is that of any span. */
static void place_edges(struct reading *in)
{
	struct rp_span *spans = in->spans.at;
	uint32_t i;

	for (i = 0; i < in->spans.count; i++) {
		if (spans[i].follows < 0)
			continue;
		spans[i].begin_ns = spans[0].begin_ns;
		spans[i].pid = spans[0].pid;
		spans[i].tid = spans[0].tid;
		spans[i].domain = spans[0].domain;
	}
}

static int load(struct reading *in, const char *path)
{
	json_error_t error;

	in->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!in->root && json_error_code(&error) == json_error_cannot_open_file)
		return rpi_fail(errno ? -errno : -ENOENT, "%s: '%s': %s", call, path,
				error.text);
	if (!in->root)
		return rpi_fail(
			json_error_code(&error) == json_error_out_of_memory ? -ENOMEM
									    : -EINVAL,
			"%s: '%s': line %d: %s", call, path, error.line, error.text);
	if (strcmp(text(in, in->root, "format"), "ringplane.swimlane") != 0 ||
	    number(in, in->root, "version") != 1)
		return rpi_fail(-EINVAL,
				"%s: '%s' is no record of a swimlane, or of another "
				"version, expected version 1",
				call, path);
	return 0;
}

static int convert(struct reading *in, const char *records_path, const char *path)
{
	const uint64_t run = number(in, in->root, "run");

	add_host(in, run);
	add_tasks(in, run);
	add_edges(in, run);
	if (in->no_memory)
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	if (in->bad)
		return rpi_fail(-EINVAL,
				"%s: '%s' lacks a member, or has one of another kind, "
				"expected it as rp_worker_submit() wrote it",
				call, records_path);
	place_edges(in);
	return rp_trace_export(in->spans.at, in->spans.count, path);
}

int rp_capture_export(const char *records_path, const char *path)
{
	struct reading in = { 0 };
	int err;

	if (!records_path || !path)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", call,
				path ? "records_path" : "path");
	err = load(&in, records_path);
	if (!err)
		err = convert(&in, records_path, path);
	json_decref(in.root);
	free(in.spans.at);
	return err;
}
