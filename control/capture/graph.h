/* SPDX-License-Identifier: MIT */
/* The tasks of a run as their orchestration enqueued them, with the kernels that each has
 * submitted, and who comes after whom. */
#ifndef RPI_CAPTURE_GRAPH_H
#define RPI_CAPTURE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/kernels.h"
#include "capture/session.h"
#include "memory/history.h"

struct rpi_graph_edge {
	uint64_t from, to; /* nodes, or kernels of one node */
	enum rpi_reason reason;
	uint32_t from_arg, to_arg; /* where the reason is memory */
	char memory[80];	   /* which, in words; "" */
};

struct rpi_graph_node {
	const struct rpi_note_task *task;
	const struct rpi_label *label; /* NULL: there is none */
	struct rpi_list kernels;       /* struct rpi_cap_kernel */
	struct rpi_list kernel_edges;  /* struct rpi_graph_edge */
};

struct rpi_graph {
	struct rpi_graph_node *nodes; /* [node_count], in the order of the enqueuing */
	uint32_t node_count;
	struct rpi_list edges; /* struct rpi_graph_edge */
	bool whole;	       /* nothing of it was lost */
};

/* 0, or -ENOMEM with an error line. */
int rpi_graph_make(struct rpi_graph *graph, struct rpi_session *session);
void rpi_graph_free(struct rpi_graph *graph);

/* The parameter that the bytes are part of, else where they lie, in words. */
void rpi_graph_memory(struct rpi_session *session, const struct rpi_past *use, char *buf,
		      size_t bytes);

/* "read after write" and so on, "order". */
const char *rpi_graph_reason(enum rpi_reason reason);

#endif
