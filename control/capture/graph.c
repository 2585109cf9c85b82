/* SPDX-License-Identifier: MIT */
/*
 * Edges between tasks: one for each pair of arguments of which one is written and that
 * share bytes, unless a later write of all of them lies between; and one from each task
 * of a process to its next one, which it runs in order.
 */
#include "capture/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "worker/worker.h"

const char *rpi_graph_reason(enum rpi_reason reason)
{
	switch (reason) {
	case RPI_REASON_RAW:
		return "read after write";
	case RPI_REASON_WAR:
		return "write after read";
	case RPI_REASON_WAW:
		return "write after write";
	case RPI_REASON_ORDER:
		return "order";
	default:
		return "unknown";
	}
}

/* --- Between tasks -------------------------------------------------------- */

struct making {
	struct rpi_session *session;
	struct rpi_graph *graph;
	bool no_memory;
};

void rpi_graph_memory(struct rpi_session *session, const struct rpi_past *use, char *buf,
		      size_t bytes)
{
	const struct rp_program *program = session->offer->program;
	const struct rp_arg *args = session->offer->args;
	uint32_t i;

	for (i = 0; i < program->param_count; i++) {
		const struct rp_tensor *tensor = &args[i].u.tensor;
		size_t size;

		if (args[i].kind != RP_ARG_TENSOR || tensor->resident != use->space ||
		    rp_tensor_bytes(tensor, &size) ||
		    use->view.base - (uintptr_t)tensor->data >= size)
			continue;
		rpi_format(buf, bytes, "%s", program->params[i].name);
		return;
	}
	if (use->space)
		rpi_format(buf, bytes, "resident %#" PRIx64, use->space);
	else
		rpi_format(buf, bytes, "%#" PRIxPTR "+%" PRId64, use->view.base,
			   use->view.span_bytes);
}

static void tell(void *context, const struct rpi_past *earlier,
		 const struct rpi_past *now, enum rpi_reason reason)
{
	struct making *making = context;
	struct rpi_graph_edge *edge =
		rpi_list_append(&making->graph->edges, 1, sizeof(*edge));

	if (!edge) {
		making->no_memory = true;
		return;
	}
	*edge = (struct rpi_graph_edge){ .from = earlier->user,
					 .to = now->user,
					 .reason = reason,
					 .from_arg = earlier->arg,
					 .to_arg = now->arg };
	rpi_graph_memory(making->session, now, edge->memory, sizeof(edge->memory));
}

static struct rpi_past use_of(const struct rpi_note_arg *note, uint32_t node,
			      uint32_t arg)
{
	return (struct rpi_past){ .view = note->view,
				  .space = note->arg.u.tensor.resident,
				  .user = node,
				  .arg = arg,
				  .write = note->arg.access & RP_OUT };
}

static void add_memory_edges(struct making *making, struct rpi_history *history,
			     uint32_t node)
{
	const struct rpi_note_task *task = making->graph->nodes[node].task;
	const struct rpi_note_arg *args = making->session->notes.args.at;
	struct rpi_past use;
	uint32_t i;

	args += task->arg_at;
	for (i = 0; i < task->arg_count; i++) {
		if (args[i].arg.kind != RP_ARG_TENSOR)
			continue;
		use = use_of(&args[i], node, i);
		rpi_history_find(history, &use, tell, making);
	}
	for (i = 0; i < task->arg_count; i++) {
		if (args[i].arg.kind != RP_ARG_TENSOR)
			continue;
		use = use_of(&args[i], node, i);
		if (rpi_history_add(history, &use))
			making->no_memory = true;
	}
}

static void add_edges(struct making *making)
{
	struct rpi_history history = { 0 };
	uint32_t last[RP_MAX_PEERS];
	uint32_t node;

	memset(last, 0xff, sizeof(last));
	for (node = 0; node < making->graph->node_count; node++) {
		const uint32_t peer = making->graph->nodes[node].task->peer;

		add_memory_edges(making, &history, node);
		if (last[peer] != UINT32_MAX) {
			struct rpi_graph_edge *edge =
				rpi_list_append(&making->graph->edges, 1, sizeof(*edge));

			if (edge)
				*edge = (struct rpi_graph_edge){
					.from = last[peer],
					.to = node,
					.reason = RPI_REASON_ORDER
				};
			else
				making->no_memory = true;
		}
		last[peer] = node;
	}
	rpi_history_free(&history);
}

/* --- Kernels -------------------------------------------------------------- */

static int by_task(const void *key, const void *element)
{
	const struct rpi_note_task *task = key;
	const struct rpi_seen *seen = element;

	if (task->peer != seen->peer)
		return task->peer < seen->peer ? -1 : 1;
	return (task->seq > seen->copy.task_seq) - (task->seq < seen->copy.task_seq);
}

/* Its records in the sorted reading. */
static const struct rpi_seen *records_of(const struct rpi_reading *reading,
					 const struct rpi_note_task *task,
					 size_t *count_out)
{
	const struct rpi_seen *all = reading->seen.at, *first, *past;

	*count_out = 0;
	if (!reading->seen.count)
		return NULL;
	first = bsearch(task, all, reading->seen.count, sizeof(*all), by_task);
	if (!first)
		return NULL;
	for (past = first; past < all + reading->seen.count; past++)
		if (by_task(task, past))
			break;
	while (first > all && !by_task(task, first - 1))
		first--;
	*count_out = (size_t)(past - first);
	return first;
}

static void add_kernels(struct making *making, struct rpi_graph_node *node)
{
	const struct rpi_capture_run *run = rpi_session_graph(making->session);
	struct rpi_list edges = { 0 };
	const struct rpi_cap_edge *at;
	struct rpi_graph_edge *kept;
	const struct rpi_seen *seen;
	size_t count;
	bool whole = true;
	uint32_t i;

	seen = records_of(&run->reading, node->task, &count);
	if (rpi_kernels_collect(seen, count, &node->kernels) ||
	    rpi_kernel_edges_collect(seen, count, &node->kernels, &edges, &whole))
		making->no_memory = true;
	kept = rpi_list_append(&node->kernel_edges, edges.count, sizeof(*kept));
	at = edges.at;
	for (i = 0; kept && i < edges.count; i++)
		kept[i] = (struct rpi_graph_edge){ .from = at[i].from,
						   .to = at[i].to,
						   .reason = at[i].reason,
						   .from_arg = at[i].from_arg,
						   .to_arg = at[i].to_arg };
	if (!kept)
		making->no_memory = true;
	making->graph->whole &= whole;
	free(edges.at);
}

int rpi_graph_make(struct rpi_graph *graph, struct rpi_session *session)
{
	const struct rpi_note_task *notes = session->notes.tasks.at;
	const struct rpi_reading *reading = &rpi_session_graph(session)->reading;
	struct making making = { .session = session, .graph = graph };
	uint32_t i;

	memset(graph, 0, sizeof(*graph));
	graph->whole = !session->notes.err && !reading->err && !reading->dropped;
	graph->nodes = calloc(session->notes.tasks.count + 1, sizeof(*graph->nodes));
	if (!graph->nodes)
		return rpi_session_no_memory();
	graph->node_count = session->notes.tasks.count;
	for (i = 0; i < graph->node_count; i++) {
		graph->nodes[i].task = &notes[i];
		graph->nodes[i].label =
			rpi_labels_find(&session->labels, notes[i].peer,
					rpi_trace_what((enum rpi_trace_name)0,
						       notes[i].program, notes[i].entry));
		add_kernels(&making, &graph->nodes[i]);
	}
	add_edges(&making);
	if (!making.no_memory)
		return 0;
	rpi_graph_free(graph);
	return rpi_session_no_memory();
}

void rpi_graph_free(struct rpi_graph *graph)
{
	uint32_t i;

	for (i = 0; i < graph->node_count; i++) {
		free(graph->nodes[i].kernels.at);
		free(graph->nodes[i].kernel_edges.at);
	}
	free(graph->nodes);
	free(graph->edges.at);
}
