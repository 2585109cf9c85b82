/* SPDX-License-Identifier: MIT */
/* Who follows whom, and why: dep_gen.json and dep_gen.dot. The guide has the format. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "capture/collectors.h"
#include "capture/graph.h"
#include "capture/json.h"

#define JSON_NAME "dep_gen.json"
#define DOT_NAME  "dep_gen.dot"

static bool on(const struct rp_capture *asked)
{
	return asked->enable_dep_gen;
}

static uint32_t wants(const struct rp_capture *asked, uint32_t pass, uint32_t passes)
{
	(void)asked, (void)passes;
	return pass == 1 ? RPI_TRACE_NAMES | RPI_TRACE_GRAPH : 0;
}

/* --- JSON ----------------------------------------------------------------- */

static json_t *edge_of(const struct rpi_graph_edge *edge)
{
	json_t *out = json_pack("{s:o, s:o, s:s}", "from", rpi_cap_u64(edge->from), "to",
				rpi_cap_u64(edge->to), "reason",
				rpi_graph_reason(edge->reason));
	bool ok = out;

	if (ok && edge->reason != RPI_REASON_ORDER)
		ok = rpi_cap_set(out, "from_arg", json_integer(edge->from_arg)) &&
		     rpi_cap_set(out, "to_arg", json_integer(edge->to_arg));
	if (ok && edge->memory[0])
		ok = rpi_cap_set(out, "memory", rpi_cap_text(edge->memory));
	if (ok)
		return out;
	json_decref(out);
	return NULL;
}

static json_t *edges_of(const struct rpi_list *edges)
{
	const struct rpi_graph_edge *at = edges->at;
	json_t *out = json_array();
	uint32_t i;

	for (i = 0; out && i < edges->count; i++)
		rpi_cap_add(&out, edge_of(&at[i]));
	return out;
}

static json_t *kernels_of(const struct rpi_graph_node *node)
{
	const struct rpi_cap_kernel *at = node->kernels.at;
	json_t *out = json_array();
	uint32_t i;

	for (i = 0; out && i < node->kernels.count; i++) {
		rpi_cap_add(&out,
			    json_pack("{s:o, s:o}", "kernel", rpi_cap_u64(at[i].index),
				      "name", rpi_cap_text(at[i].name)));
	}
	return out;
}

static json_t *node_of(struct rpi_session *session, const struct rpi_graph_node *node,
		       uint32_t id)
{
	uint32_t number;
	const char *kind = rpi_session_kind(session, node->task->peer, &number);
	json_t *out = json_pack("{s:i, s:s, s:i, s:o, s:o, s:o}", "node", (int)id, "kind",
				kind, "number", (int)number, "task",
				rpi_cap_u64(node->task->seq), "entry",
				rpi_cap_text(node->label ? node->label->name : ""), "id",
				rpi_cap_text(node->label ? node->label->id : ""));
	bool ok = out && rpi_cap_set(out, "kernels", kernels_of(node)) &&
		  rpi_cap_set(out, "kernel_edges", edges_of(&node->kernel_edges));

	if (ok)
		return out;
	json_decref(out);
	return NULL;
}

static json_t *nodes_of(struct rpi_session *session, const struct rpi_graph *graph,
			uint32_t of)
{
	json_t *out = json_array();
	uint32_t i;

	for (i = 0; out && i < graph->node_count; i++) {
		if (of != RPI_PLACE_ALL && graph->nodes[i].task->peer != of)
			continue;
		rpi_cap_add(&out, node_of(session, &graph->nodes[i], i));
	}
	return out;
}

/* All edges, or those that lead into tasks of one process. */
static json_t *task_edges(const struct rpi_graph *graph, uint32_t of)
{
	const struct rpi_graph_edge *at = graph->edges.at;
	json_t *out = json_array();
	uint32_t i;

	for (i = 0; out && i < graph->edges.count; i++) {
		if (of != RPI_PLACE_ALL && graph->nodes[at[i].to].task->peer != of)
			continue;
		rpi_cap_add(&out, edge_of(&at[i]));
	}
	return out;
}

static json_t *file_of(struct rpi_session *session, const struct rpi_graph *graph,
		       uint32_t of)
{
	json_t *root = rpi_cap_head(session, "ringplane.dep_gen", of);
	bool ok = root &&
		  rpi_cap_set(root, "graph_run",
			      rpi_cap_u64(rpi_session_graph(session)->run)) &&
		  rpi_cap_set(root, "whole", json_boolean(graph->whole)) &&
		  rpi_cap_set(root, "nodes", nodes_of(session, graph, of)) &&
		  rpi_cap_set(root, "edges", task_edges(graph, of));

	if (ok)
		return root;
	json_decref(root);
	return NULL;
}

/* --- Graphviz ------------------------------------------------------------- */

/* A name inside quotes. */
static void put_text(FILE *file, const char *text)
{
	while (*text) {
		const size_t length = rpi_utf8_length(text);
		const uint8_t byte = (uint8_t)*text;

		if (byte == '"' || byte == '\\')
			fputc('\\', file);
		if (!length || byte < ' ' || byte == 0x7f)
			fputc('?', file);
		else
			fwrite(text, 1, length, file);
		text += length ? length : 1;
	}
}

static void put_edge(FILE *file, const char *indent, const char *from, const char *to,
		     const struct rpi_graph_edge *edge)
{
	fprintf(file, "%s%s -> %s [label=\"%s", indent, from, to,
		rpi_graph_reason(edge->reason));
	if (edge->memory[0]) {
		fputc(' ', file);
		put_text(file, edge->memory);
	}
	fprintf(file, "\"%s];\n",
		edge->reason == RPI_REASON_ORDER ? ", style=dashed" : "");
}

/* A task with kernels is a box around them, and a point that its edges go to. */
static void put_node(FILE *file, struct rpi_session *session,
		     const struct rpi_graph_node *node, uint32_t id)
{
	const struct rpi_cap_kernel *kernels = node->kernels.at;
	const struct rpi_graph_edge *edges = node->kernel_edges.at;
	uint32_t number, i;
	const char *kind = rpi_session_kind(session, node->task->peer, &number);

	if (node->kernels.count)
		fprintf(file, "\tsubgraph cluster_%u {\n", id);
	fprintf(file, "\tt%u [shape=box, label=\"", id);
	put_text(file, node->label ? node->label->name : "");
	fprintf(file, "\\n%s %u, task %" PRIu64 "\"];\n", kind, number, node->task->seq);
	for (i = 0; i < node->kernels.count; i++) {
		fprintf(file, "\t\tt%u_k%" PRIu64 " [label=\"", id, kernels[i].index);
		put_text(file, kernels[i].name);
		fprintf(file, "\\n%" PRIu64 "\"];\n", kernels[i].index);
	}
	for (i = 0; i < node->kernel_edges.count; i++) {
		char from[48], to[48];

		rpi_format(from, sizeof(from), "t%u_k%" PRIu64, id, edges[i].from);
		rpi_format(to, sizeof(to), "t%u_k%" PRIu64, id, edges[i].to);
		put_edge(file, "\t\t", from, to, &edges[i]);
	}
	if (node->kernels.count)
		fputs("\t}\n", file);
}

struct dot {
	struct rpi_session *session;
	const struct rpi_graph *graph;
	uint32_t of;
};

static int put_dot(FILE *file, void *context)
{
	const struct dot *dot = context;
	const struct rpi_graph *graph = dot->graph;
	const struct rpi_graph_edge *edges = graph->edges.at;
	uint32_t i;

	fprintf(file, "digraph run_%" PRIu64 " {\n",
		rpi_session_graph(dot->session)->run);
	for (i = 0; i < graph->node_count; i++)
		if (dot->of == RPI_PLACE_ALL || graph->nodes[i].task->peer == dot->of)
			put_node(file, dot->session, &graph->nodes[i], i);
	for (i = 0; i < graph->edges.count; i++) {
		char from[24], to[24];

		if (dot->of != RPI_PLACE_ALL &&
		    (graph->nodes[edges[i].to].task->peer != dot->of ||
		     graph->nodes[edges[i].from].task->peer != dot->of))
			continue;
		rpi_format(from, sizeof(from), "t%u", (uint32_t)edges[i].from);
		rpi_format(to, sizeof(to), "t%u", (uint32_t)edges[i].to);
		put_edge(file, "\t", from, to, &edges[i]);
	}
	fputs("}\n", file);
	return 0;
}

/* --- Files ---------------------------------------------------------------- */

static int write_pair(struct rpi_session *session, const struct rpi_graph *graph,
		      uint32_t of)
{
	struct dot dot = { session, graph, of };
	int err = rpi_cap_write(session, of, JSON_NAME, file_of(session, graph, of));

	return err ? err : rpi_place_write(&session->place, of, DOT_NAME, put_dot, &dot);
}

static int write_files(struct rpi_session *session)
{
	struct rpi_graph graph;
	uint32_t peer;
	int err;

	err = rpi_graph_make(&graph, session);
	if (err)
		return err;
	err = write_pair(session, &graph, RPI_PLACE_ALL);
	for (peer = 0; !err && peer < rpi_session_peers(session); peer++)
		err = write_pair(session, &graph, peer);
	rpi_graph_free(&graph);
	return err;
}

static const char *const files[] = { JSON_NAME, DOT_NAME, NULL };

const struct rpi_collector rpi_dep_gen = {
	.on = on,
	.wants = wants,
	.write = write_files,
	.files = files,
};
