/* SPDX-License-Identifier: MIT */
#include "capture/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

bool rpi_cap_is_whole(const struct rpi_seen *seen)
{
	return rpi_seen_name(seen) == RPI_SPAN_CHIP_RUN ||
	       rpi_seen_name(seen) == RPI_SPAN_CALLBACK_RUN;
}

/* A span with a beginning and an end, not a note. */
static bool is_span(const struct rpi_seen *seen)
{
	const uint32_t name = rpi_seen_name(seen);

	return name < RPI_SPAN_COUNT &&
	       (rpi_span_domain(name) &
		(RPI_TRACE_HOST | RPI_TRACE_DEVICE | RPI_TRACE_KERNELS)) &&
	       seen->copy.begin <= seen->copy.end;
}

/* One that was cut short lasts as long as what is known of it. */
static void widen(struct rpi_cap_task *task, const struct rpi_seen *seen)
{
	const struct rpi_trace_copy *copy = &seen->copy;

	if (rpi_cap_is_whole(seen)) {
		task->whole = true;
		task->begin = copy->begin;
		task->end = copy->end;
		task->thread = copy->thread;
		return;
	}
	if (task->whole || !is_span(seen))
		return;
	if (!task->thread || copy->begin < task->begin)
		task->begin = copy->begin;
	if (copy->end > task->end)
		task->end = copy->end;
	task->thread = copy->thread;
}

/* The records of one task. False: it is none. */
static bool fill(struct rpi_session *session, const struct rpi_seen *seen, size_t count,
		 struct rpi_cap_task *out)
{
	size_t i;

	*out = (struct rpi_cap_task){
		.peer = seen->peer,
		.seq = seen->copy.task_seq,
		.label = rpi_labels_find(&session->labels, seen->peer, seen->copy.what),
		.seen = seen,
		.seen_count = count
	};
	for (i = 0; i < count; i++) {
		if (rpi_seen_name(&seen[i]) == RPI_SPAN_CHIP_RESET)
			return false;
		widen(out, &seen[i]);
	}
	return out->thread;
}

static int add_tasks(struct rpi_session *session, struct rpi_cap_tasks *out)
{
	const struct rpi_reading *reading = &rpi_session_timed(session)->reading;
	const uint32_t peers = session->worker->plane.peer_count;
	const struct rpi_seen *seen = reading->seen.at;
	uint32_t at = 0, next, peer = 0;

	for (; at < reading->seen.count && seen[at].peer < peers; at = next) {
		struct rpi_cap_task task, *kept;

		next = rpi_reading_next(reading, at);
		while (peer < seen[at].peer)
			out->at[++peer] = out->tasks.count;
		if (!seen[at].copy.task_seq ||
		    !fill(session, &seen[at], next - at, &task))
			continue;
		kept = rpi_list_append(&out->tasks, 1, sizeof(*kept));
		if (!kept)
			return -1;
		*kept = task;
	}
	while (peer < peers)
		out->at[++peer] = out->tasks.count;
	return 0;
}

static int by_place(const void *left, const void *right)
{
	const struct rpi_cap_place *a = left, *b = right;

	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static int add_places(struct rpi_session *session, struct rpi_cap_tasks *out)
{
	const struct rpi_note_task *notes = session->notes.tasks.at;
	const uint32_t count = session->notes.tasks.count;
	uint32_t counts[RP_MAX_PEERS] = { 0 };
	struct rpi_cap_place *places;
	uint32_t i;

	places = rpi_list_append(&out->places, count, sizeof(*places));
	if (!places)
		return -1;
	for (i = 0; i < count; i++)
		places[i] = (struct rpi_cap_place){ .peer = notes[i].peer,
						    .ordinal = counts[notes[i].peer]++,
						    .seq = notes[i].seq };
	qsort(places, count, sizeof(*places), by_place);
	return 0;
}

static bool same_task(struct rpi_session *session, const struct rpi_note_task *note,
		      const struct rpi_cap_task *task)
{
	const uint64_t what =
		rpi_trace_what((enum rpi_trace_name)0, note->program, note->entry);

	return task->label == rpi_labels_find(&session->labels, note->peer, what);
}

static bool judge(struct rpi_session *session, const struct rpi_cap_tasks *tasks)
{
	const struct rpi_note_task *notes = session->notes.tasks.at;
	const struct rpi_cap_task *at = tasks->tasks.at;
	uint32_t next[RP_MAX_PEERS + 1];
	uint32_t i;

	memcpy(next, tasks->at, sizeof(next));
	for (i = 0; i < session->notes.tasks.count; i++) {
		const uint32_t peer = notes[i].peer;

		if (next[peer] == tasks->at[peer + 1]) {
			/* A run that failed came no further. */
			if (!session->status)
				return false;
			continue;
		}
		if (!same_task(session, &notes[i], &at[next[peer]++]))
			return false;
	}
	for (i = 0; i < session->worker->plane.peer_count; i++)
		if (next[i] != tasks->at[i + 1])
			return false;
	return true;
}

int rpi_cap_tasks_collect(struct rpi_session *session, struct rpi_cap_tasks *out)
{
	memset(out, 0, sizeof(*out));
	if (add_tasks(session, out) || add_places(session, out)) {
		rpi_cap_tasks_free(out);
		return rpi_session_no_memory();
	}
	out->matches = session->pass > 1 && judge(session, out);
	return 0;
}

void rpi_cap_tasks_free(struct rpi_cap_tasks *tasks)
{
	free(tasks->tasks.at);
	free(tasks->places.at);
}

static int by_seq(const void *key, const void *element)
{
	const uint64_t seq = *(const uint64_t *)key;
	const struct rpi_cap_task *task = element;

	return (seq > task->seq) - (seq < task->seq);
}

const struct rpi_cap_task *rpi_cap_task_find(const struct rpi_cap_tasks *tasks,
					     uint32_t peer, uint64_t seq)
{
	const struct rpi_cap_place key = { .peer = peer, .seq = seq };
	const struct rpi_cap_place *place =
		tasks->places.count ? bsearch(&key, tasks->places.at, tasks->places.count,
					      sizeof(*place), by_place)
				    : NULL;
	const struct rpi_cap_task *at = tasks->tasks.at;
	uint32_t first, count;

	/* Of a task that was not noted there is nothing to tell: a reset, or one of an
	 * earlier run. */
	if (!place || !tasks->tasks.count)
		return NULL;
	first = tasks->at[peer];
	count = tasks->at[peer + 1] - first;
	if (tasks->matches)
		return place->ordinal < count ? &at[first + place->ordinal] : NULL;
	return count ? bsearch(&seq, &at[first], count, sizeof(*at), by_seq) : NULL;
}
