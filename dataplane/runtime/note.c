/* SPDX-License-Identifier: MIT */
#include "runtime/note.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static void record(struct rpi_runtime *runtime, enum rpi_trace_name name, uint64_t begin,
		   uint64_t end, uint64_t value)
{
	struct rpi_trace_of of = runtime->of;

	of.value = value;
	rpi_trace_await_room(&runtime->config.tracer, &runtime->of);
	rpi_trace_record(&runtime->config.tracer, name, begin, end, &of);
}

void rpi_note_before(struct rpi_runtime *runtime, const struct rp_kernel *kernel)
{
	struct rpi_kernel_notes *notes = &runtime->notes;
	uint32_t i;

	for (i = 0; i < kernel->arg_count; i++)
		notes->fresh[i] = kernel->args[i].kind == RP_ARG_TENSOR &&
				  !kernel->args[i].u.tensor.data;
	notes->ticks = rpi_clock_ticks();
}

static void put_name(struct rpi_runtime *runtime, const char *name, uint64_t index)
{
	const char *at = name ? name : "";
	size_t left = strlen(at);
	uint32_t part = 0;

	do {
		uint64_t words[2] = { 0 };
		size_t bytes = left < RPI_NOTE_NAME_BYTES ? left : RPI_NOTE_NAME_BYTES;

		memcpy(words, at, bytes);
		record(runtime, RPI_SPAN_KERNEL_NAME, words[0], words[1],
		       rpi_note_name_value(index, part));
		at += bytes;
		left -= bytes;
	} while (left && ++part < RPI_NAME_PARTS);
}

static void tell(void *context, const struct rpi_past *earlier,
		 const struct rpi_past *now, enum rpi_reason reason)
{
	record(context, RPI_SPAN_KERNEL_EDGE, earlier->user,
	       rpi_note_why(reason, earlier->arg, now->arg), now->user);
}

/* Those that it names by id. Of an earlier run's there is nothing to tell. */
static void put_order(struct rpi_runtime *runtime, const struct rp_kernel *kernel,
		      uint64_t index)
{
	const struct rpi_kernel_notes *notes = &runtime->notes;
	size_t i;

	for (i = 0; i < kernel->dep_count; i++) {
		const rp_kernel_id id = kernel->deps[i];
		const struct rpi_list *ids = &notes->ids[rpi_id_ring(id)];
		uint64_t at = rpi_id_seq(id) - notes->first_seq[rpi_id_ring(id)];

		if (id && at < ids->count)
			record(runtime, RPI_SPAN_KERNEL_EDGE,
			       ((const uint32_t *)ids->at)[at],
			       rpi_note_why(RPI_REASON_ORDER, 0, 0), index);
	}
}

static struct rpi_past use_of(const struct rpi_runtime *runtime,
			      const struct rp_kernel *kernel, uint32_t arg,
			      uint64_t index)
{
	return (struct rpi_past){ .view = runtime->ask.view[arg],
				  .user = index,
				  .arg = arg,
				  .write = kernel->args[arg].access & RP_OUT };
}

static int put_memory(struct rpi_runtime *runtime, const struct rp_kernel *kernel,
		      uint64_t index)
{
	const struct rpi_ask *ask = &runtime->ask;
	struct rpi_history *history = &runtime->notes.history;
	struct rpi_past now;
	uint32_t i;
	int err = 0;

	for (i = 0; i < ask->tensor_count; i++) {
		now = use_of(runtime, kernel, ask->tensor[i], index);
		if (runtime->notes.fresh[now.arg])
			rpi_history_forget(history, &now);
		else if (!(kernel->args[now.arg].access & RP_NO_DEP))
			rpi_history_find(history, &now, tell, runtime);
	}
	for (i = 0; !err && i < ask->tensor_count; i++) {
		now = use_of(runtime, kernel, ask->tensor[i], index);
		if (!(kernel->args[now.arg].access & RP_NO_DEP))
			err = rpi_history_add(history, &now);
	}
	return err;
}

static int put_id(struct rpi_kernel_notes *notes, rp_kernel_id id, uint64_t index)
{
	struct rpi_list *ids = &notes->ids[rpi_id_ring(id)];
	uint32_t *kept = rpi_list_append(ids, 1, sizeof(*kept));

	if (!kept)
		return -1;
	if (ids->count == 1)
		notes->first_seq[rpi_id_ring(id)] = rpi_id_seq(id);
	*kept = (uint32_t)index;
	return 0;
}

void rpi_note_after(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		    const struct rp_kernel *kernel, rp_kernel_id id)
{
	const uint64_t index = runtime->kernel_count - 1;
	int lost = 0;

	if (runtime->noted & RPI_TRACE_NAMES)
		put_name(runtime, kernel->name, index);
	if (!(runtime->noted & RPI_TRACE_GRAPH))
		return;
	put_order(runtime, kernel, index);
	if (scope->kind == RP_SCOPE_AUTO)
		lost = put_memory(runtime, kernel, index);
	if (put_id(&runtime->notes, id, index) || lost)
		record(runtime, RPI_SPAN_KERNEL_EDGE, index,
		       rpi_note_why(RPI_REASON_NONE, 0, 0), index);
}

void rpi_note_end(struct rpi_runtime *runtime)
{
	struct rpi_kernel_notes *notes = &runtime->notes;
	uint32_t i;

	runtime->noted = 0;
	rpi_history_free(&notes->history);
	for (i = 0; i < RP_RING_COUNT; i++) {
		free(notes->ids[i].at);
		notes->ids[i] = (struct rpi_list){ 0 };
	}
}
