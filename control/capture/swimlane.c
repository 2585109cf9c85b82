/* SPDX-License-Identifier: MIT */
/* When things ran: chip_swimlane_records.json. The guide has the format. */
#include <stdlib.h>

#include "capture/collectors.h"
#include "capture/json.h"
#include "capture/kernels.h"
#include "capture/tasks.h"
#include "worker/worker.h"

#define FILE_NAME "chip_swimlane_records.json"

static bool on(const struct rp_capture *asked)
{
	return asked->enable_chip_swimlane;
}

static uint32_t wants(const struct rp_capture *asked, uint32_t pass, uint32_t passes)
{
	const uint32_t level = asked->enable_chip_swimlane;
	uint32_t bits = RPI_TRACE_HOST;

	/* The first of two runs is read only if it fails. */
	(void)pass, (void)passes;
	if (level >= 2)
		bits |= RPI_TRACE_DEVICE;
	if (level >= 3)
		bits |= RPI_TRACE_KERNELS | RPI_TRACE_NAMES;
	if (level >= 4)
		bits |= RPI_TRACE_LIFE;
	return bits;
}

static json_t *ns(const struct rpi_capture_run *run, uint64_t ticks)
{
	return rpi_cap_u64(rpi_scale_ns(&run->scale, ticks));
}

static json_t *span_of(const struct rpi_capture_run *run, const struct rpi_seen *seen)
{
	return json_pack("{s:s, s:o, s:o, s:o}", "name",
			 rpi_span_name(rpi_seen_name(seen)), "begin_ns",
			 ns(run, seen->copy.begin), "end_ns", ns(run, seen->copy.end),
			 "thread", rpi_cap_u64(seen->copy.thread));
}

static json_t *kernel_of(const struct rpi_capture_run *run,
			 const struct rpi_cap_kernel *kernel)
{
	json_t *out = json_pack("{s:o, s:o}", "kernel", rpi_cap_u64(kernel->index),
				"name", rpi_cap_text(kernel->name));
	bool ok = out;

	if (ok && kernel->lived)
		ok = rpi_cap_set(out, "submitted_ns", ns(run, kernel->submitted)) &&
		     rpi_cap_set(out, "ready_ns", ns(run, kernel->ready));
	if (ok && kernel->ran)
		ok = rpi_cap_set(out, "begin_ns", ns(run, kernel->begin)) &&
		     rpi_cap_set(out, "end_ns", ns(run, kernel->end)) &&
		     rpi_cap_set(out, "thread", rpi_cap_u64(kernel->thread));
	if (ok)
		return out;
	json_decref(out);
	return NULL;
}

static json_t *kernels_of(const struct rpi_capture_run *run,
			  const struct rpi_cap_task *task)
{
	struct rpi_list kernels = { 0 };
	json_t *out = NULL;
	uint32_t i;

	if (!rpi_kernels_collect(task->seen, task->seen_count, &kernels))
		out = json_array();
	for (i = 0; out && i < kernels.count; i++) {
		const struct rpi_cap_kernel *at = kernels.at;

		rpi_cap_add(&out, kernel_of(run, &at[i]));
	}
	free(kernels.at);
	return out;
}

/* Parts of a task, or what the caller's process did. */
static json_t *spans_of(const struct rpi_capture_run *run, const struct rpi_seen *seen,
			size_t count, bool (*shown)(const struct rpi_seen *seen))
{
	json_t *out = json_array();
	size_t i;

	for (i = 0; out && i < count; i++) {
		if (!shown(&seen[i]) || seen[i].copy.begin > seen[i].copy.end)
			continue;
		rpi_cap_add(&out, span_of(run, &seen[i]));
	}
	return out;
}

static bool is_phase(const struct rpi_seen *seen)
{
	const uint32_t name = rpi_seen_name(seen);

	return name == RPI_SPAN_PAUSE ||
	       (name < RPI_SPAN_COUNT &&
		(rpi_span_domain(name) & (RPI_TRACE_HOST | RPI_TRACE_DEVICE)) &&
		!rpi_cap_is_whole(seen));
}

static bool is_run(const struct rpi_seen *seen)
{
	return rpi_seen_name(seen) == RPI_SPAN_RUN;
}

static bool is_host(const struct rpi_seen *seen)
{
	const uint32_t name = rpi_seen_name(seen);

	return name < RPI_SPAN_COUNT && (rpi_span_domain(name) & RPI_TRACE_HOST);
}

/* Nothing was lost, and the edges are of these tasks. */
static bool is_complete(struct rpi_session *session, const struct rpi_cap_tasks *tasks)
{
	const struct rpi_reading *reading = &rpi_session_timed(session)->reading;

	return !reading->dropped && !reading->err && !session->notes.err &&
	       (session->pass < 2 || tasks->matches);
}

static json_t *task_of(struct rpi_session *session, const struct rpi_cap_task *task)
{
	const struct rpi_capture_run *run = rpi_session_timed(session);
	const uint32_t level = session->asked.enable_chip_swimlane;
	json_t *out = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "peer",
				(int)task->peer, "task", rpi_cap_u64(task->seq), "entry",
				rpi_cap_text(task->label ? task->label->name : ""), "id",
				rpi_cap_text(task->label ? task->label->id : ""),
				"begin_ns", ns(run, task->begin), "end_ns",
				ns(run, task->end), "thread", rpi_cap_u64(task->thread),
				"whole", task->whole);
	bool ok = out;

	if (ok && level >= 2)
		ok = rpi_cap_set(out, "phases",
				 spans_of(run, task->seen, task->seen_count, is_phase));
	if (ok && level >= 3)
		ok = rpi_cap_set(out, "kernels", kernels_of(run, task));
	if (ok)
		return out;
	json_decref(out);
	return NULL;
}

/* Of one process, or of all. */
static json_t *tasks_of(struct rpi_session *session, const struct rpi_cap_tasks *tasks,
			uint32_t of)
{
	const struct rpi_cap_task *at = tasks->tasks.at;
	json_t *out = json_array();
	uint32_t i;

	for (i = 0; out && i < tasks->tasks.count; i++) {
		if (of != RPI_PLACE_ALL && at[i].peer != of)
			continue;
		rpi_cap_add(&out, task_of(session, &at[i]));
	}
	return out;
}

static json_t *edge_of(const struct rpi_cap_task *from, const struct rpi_cap_task *to)
{
	return json_pack("{s:i, s:o, s:i, s:o}", "from_peer", (int)from->peer,
			 "from_task", rpi_cap_u64(from->seq), "to_peer", (int)to->peer,
			 "to_task", rpi_cap_u64(to->seq));
}

/* Those that lead into one task. */
static void add_edges(struct rpi_session *session, const struct rpi_cap_tasks *tasks,
		      const struct rpi_note_task *note, json_t **out)
{
	const struct rpi_dep *deps = session->notes.deps.at;
	const struct rpi_cap_task *to = rpi_cap_task_find(tasks, note->peer, note->seq);
	uint32_t i;

	for (i = 0; to && *out && i < note->dep_count; i++) {
		const struct rpi_dep *dep = &deps[note->dep_at + i];
		const struct rpi_cap_task *from =
			rpi_cap_task_find(tasks, dep->peer, dep->seq);

		if (from)
			rpi_cap_add(out, edge_of(from, to));
	}
}

/* Into the tasks of one process, or of all. */
static json_t *edges_of(struct rpi_session *session, const struct rpi_cap_tasks *tasks,
			uint32_t of)
{
	const struct rpi_note_task *notes = session->notes.tasks.at;
	json_t *out = json_array();
	uint32_t i;

	/* Who followed whom in a run of other tasks says nothing of these. */
	if (session->pass > 1 && !tasks->matches)
		return out;
	for (i = 0; out && i < session->notes.tasks.count; i++)
		if (of == RPI_PLACE_ALL || notes[i].peer == of)
			add_edges(session, tasks, &notes[i], &out);
	return out;
}

/* What the caller's process did. */
static json_t *host_of(struct rpi_session *session)
{
	const struct rpi_capture_run *run = rpi_session_timed(session);
	const struct rpi_seen *seen = run->reading.seen.at;
	const uint32_t peers = session->worker->plane.peer_count;
	size_t at = 0;

	while (at < run->reading.seen.count && seen[at].peer < peers)
		at++;
	return spans_of(run, seen + at, run->reading.seen.count - at,
			session->asked.enable_chip_swimlane >= 2 ? is_host : is_run);
}

static json_t *file_of(struct rpi_session *session, const struct rpi_cap_tasks *tasks,
		       uint32_t of)
{
	const struct rpi_capture_run *run = rpi_session_timed(session);
	json_t *root = rpi_cap_head(session, "ringplane.swimlane", of);
	bool ok = root;

	ok = ok &&
	     rpi_cap_set(root, "level",
			 json_integer(session->asked.enable_chip_swimlane)) &&
	     rpi_cap_set(root, "dropped", rpi_cap_u64(run->reading.dropped)) &&
	     rpi_cap_set(root, "whole", json_boolean(is_complete(session, tasks)));
	if (ok && of == RPI_PLACE_ALL)
		ok = rpi_cap_set(root, "host", host_of(session));
	ok = ok && rpi_cap_set(root, "tasks", tasks_of(session, tasks, of)) &&
	     rpi_cap_set(root, "edges", edges_of(session, tasks, of));
	if (ok)
		return root;
	json_decref(root);
	return NULL;
}

static int write_files(struct rpi_session *session)
{
	const uint32_t peers = session->worker->plane.peer_count;
	struct rpi_cap_tasks tasks;
	uint32_t peer;
	int err;

	err = rpi_cap_tasks_collect(session, &tasks);
	if (err)
		return err;
	err = rpi_cap_write(session, RPI_PLACE_ALL, FILE_NAME,
			    file_of(session, &tasks, RPI_PLACE_ALL));
	for (peer = 0; !err && peer < peers; peer++)
		err = rpi_cap_write(session, peer, FILE_NAME,
				    file_of(session, &tasks, peer));
	rpi_cap_tasks_free(&tasks);
	return err;
}

static const char *const files[] = { FILE_NAME, NULL };

const struct rpi_collector rpi_swimlane = {
	.on = on,
	.wants = wants,
	.write = write_files,
	.files = files,
};
