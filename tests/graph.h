/* SPDX-License-Identifier: MIT */
/*
 * Random programs of kernels over overlapping parts of one buffer and over heap outputs,
 * in nested scopes; run by the chip runtime, and one after the other by nobody's help.
 */
#ifndef RPI_TESTS_GRAPH_H
#define RPI_TESTS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/kernel.h>
#include <ringplane/worker.h>

#define GRAPH_OPS_MAX  4096
#define GRAPH_ARGS_MAX 6
#define GRAPH_DEPS_MAX 3
#define GRAPH_SIDE     16
#define GRAPH_BYTES    (4 * GRAPH_SIDE * GRAPH_SIDE * 4)

enum graph_kind {
	GRAPH_KERNEL,
	GRAPH_BEGIN,
	GRAPH_BEGIN_MANUAL, /* drained first; each kernel in it follows the last one */
	GRAPH_END,
};

struct graph_arg {
	struct rp_arg arg; /* of the buffer: data is an offset; of a heap output: unset */
	int32_t maker;	   /* op that allocates it, -1: of the buffer, own op: here */
};

struct graph_op {
	enum graph_kind kind;
	bool dropped; /* by the shrinking */
	bool late;    /* waits for a `ready` that says no a few times */
	uint32_t arg_count;
	uint32_t dep_count;
	struct graph_arg args[GRAPH_ARGS_MAX];
	int32_t deps[GRAPH_DEPS_MAX]; /* ops */
	uint64_t seed;
};

struct graph {
	uint32_t op_count;
	struct graph_op ops[GRAPH_OPS_MAX];
};

struct graph_setting {
	uint32_t threads;
	uint64_t window, heap, pool; /* of all rings; 0: the default */
	bool break_it; /* leave the dependencies out, to see that it is noticed */
};

/* What a program asks of the rings at least. */
#define GRAPH_WINDOW_MIN 16u
#define GRAPH_HEAP_MIN	 65536u

void graph_make(struct graph *graph, uint64_t seed, uint32_t op_count);

/* GRAPH_BYTES, which hold what both runs begin with. */
void graph_run_serially(const struct graph *graph, uint8_t *buffer);
/* 0, or the runtime's error with its line. */
int graph_run(const struct graph *graph, const struct graph_setting *setting,
	      uint8_t *buffer);

/* Whether a run of this setting differs from the serial one, `tries` times over. */
bool graph_differs(const struct graph *graph, const struct graph_setting *setting,
		   uint32_t tries);

/* Drop what is not needed for the difference, and print the rest. */
void graph_shrink(struct graph *graph, const struct graph_setting *setting);

#endif
