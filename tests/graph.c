/* SPDX-License-Identifier: MIT */
#include "graph.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* Kernels of one scope, and those of scopes that share a ring, at most: so that any
 * program fits rings of GRAPH_WINDOW_MIN and GRAPH_HEAP_MIN. */
#define SCOPE_KERNELS 8
#define DEPTH_MAX     6
#define DEPTH_SHARED  3
#define FRESH_MAX     1000 /* bytes of a heap output */

static uint64_t draw(uint64_t *seed)
{
	uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static uint32_t below(uint64_t *seed, uint32_t bound)
{
	return (uint32_t)(draw(seed) % bound);
}

/* --- Kernels ------------------------------------------------------------- */

static uint32_t size_of(const struct rp_tensor *t)
{
	return rp_dtype_bits((enum rp_dtype)t->dtype) / 8;
}

static int64_t count_of(const struct rp_tensor *t)
{
	int64_t n = 1;

	for (uint32_t k = 0; k < t->rank; k++)
		n *= t->shape[k];
	return n;
}

static uint8_t *element(const struct rp_tensor *t, int64_t i)
{
	int64_t at = 0;

	for (uint32_t k = t->rank; k-- > 0;) {
		at += i % t->shape[k] * t->strides[k];
		i /= t->shape[k];
	}
	return (uint8_t *)t->data + at * size_of(t);
}

static uint64_t fold(const struct rp_tensor *t, uint64_t sum)
{
	for (int64_t i = 0; i < count_of(t); i++) {
		const uint8_t *byte = element(t, i);

		for (uint32_t k = 0; k < size_of(t); k++)
			sum = sum * 31 + byte[k];
	}
	return sum;
}

static void scatter(const struct rp_tensor *t, uint64_t sum, bool keep)
{
	for (int64_t i = 0; i < count_of(t); i++) {
		uint8_t *byte = element(t, i);

		for (uint32_t k = 0; k < size_of(t); k++, sum = sum * 5 + 1)
			byte[k] = (uint8_t)((keep ? byte[k] * 7 : 0) + (sum >> 24));
	}
}

/* All that it reads goes into all that it writes. args[0] is the seed. */
static int mix(const struct rp_arg *args, size_t nargs)
{
	uint64_t sum = args[0].u.scalar.value.u64;

	for (size_t i = 1; i < nargs; i++)
		if (args[i].access & RP_IN)
			sum = fold(&args[i].u.tensor, sum);
	for (size_t i = 1; i < nargs; i++)
		if (args[i].access & RP_OUT)
			scatter(&args[i].u.tensor, sum, args[i].access & RP_IN);
	return 0;
}

/* No, mostly. */
static bool now_and_then(const struct rp_arg *args, size_t nargs)
{
	static _Atomic uint32_t asked;

	(void)args;
	(void)nargs;
	return atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) % 4 == 3;
}

/* --- Making -------------------------------------------------------------- */

/* A part of the buffer, seen as [4][16][16] int32 or as bytes. */
static struct rp_tensor part(uint64_t *seed)
{
	struct rp_tensor t = { .dtype = RP_INT32,
			       .rank = 3,
			       .shape = { 4, GRAPH_SIDE, GRAPH_SIDE },
			       .strides = { GRAPH_SIDE * GRAPH_SIDE, GRAPH_SIDE, 1 } };
	int64_t offset = 0;

	if (!below(seed, 4)) {
		t = (struct rp_tensor){ .dtype = RP_UINT8, .rank = 1, .strides = { 1 } };
		offset = below(seed, GRAPH_BYTES);
		t.shape[0] = 1 + below(seed, 64);
		if (t.shape[0] > GRAPH_BYTES - offset)
			t.shape[0] = GRAPH_BYTES - offset;
		t.data = (void *)(uintptr_t)offset;
		return t;
	}
	for (uint32_t k = 0; k < t.rank; k++) {
		int64_t start = below(seed, (uint32_t)t.shape[k]);
		int64_t step = 1 + below(seed, 3);
		int64_t most = (t.shape[k] - 1 - start) / step + 1;
		int64_t n = 1 + below(seed, (uint32_t)most);

		offset += start * t.strides[k];
		t.shape[k] = n;
		if (n > 1)
			t.strides[k] *= step;
	}
	while (t.rank > 1 && t.shape[0] == 1) {
		t.rank--;
		memmove(t.shape, t.shape + 1, t.rank * sizeof(t.shape[0]));
		memmove(t.strides, t.strides + 1, t.rank * sizeof(t.strides[0]));
	}
	t.data = (void *)(uintptr_t)(offset * 4);
	return t;
}

/* Whether any byte is in `map` already; sets those that are not, if none is. */
static bool taken(const struct rp_tensor *t, uint8_t *map)
{
	for (int pass = 0; pass < 2; pass++) {
		for (int64_t i = 0; i < count_of(t); i++) {
			uintptr_t at = (uintptr_t)element(t, i);

			for (uint32_t k = 0; k < size_of(t); k++) {
				if (!pass && map[at + k])
					return true;
				map[at + k] = (uint8_t)pass;
			}
		}
	}
	return false;
}

struct maker {
	struct graph *graph;
	uint64_t seed;
	uint32_t depth;
	bool manual; /* in a scope of that kind */
	/* Kernels with a heap output in the open scopes. */
	int32_t fresh[GRAPH_OPS_MAX];
	uint32_t fresh_count;
	uint32_t fresh_at[DEPTH_MAX + 1];
	uint32_t kernels[DEPTH_MAX + 1];
	uint32_t shared; /* since the scope of depth DEPTH_SHARED began */
	int32_t last;	 /* kernel */
};

static void add_args(struct maker *m, struct graph_op *op, int32_t idx)
{
	static const uint32_t accesses[] = { RP_IN, RP_IN, RP_OUT, RP_INOUT };
	uint8_t map[GRAPH_BYTES] = { 0 };
	uint32_t count = 1 + below(&m->seed, GRAPH_ARGS_MAX - 1);

	while (op->arg_count < count) {
		struct graph_arg *arg = &op->args[op->arg_count++];
		uint32_t what = below(&m->seed, 6);

		arg->maker = -1;
		if (!what && op->arg_count == 1) {
			int64_t bytes = 1 + below(&m->seed, FRESH_MAX);

			arg->arg = rp_out_new(RP_UINT8, 1, &bytes);
			arg->maker = idx;
			m->fresh[m->fresh_count++] = idx;
		} else if (what < 3 && m->fresh_count) {
			arg->maker = m->fresh[below(&m->seed, m->fresh_count)];
			arg->arg = rp_in((struct rp_tensor){ .dtype = RP_UINT8 });
			if (arg->maker == idx)
				op->arg_count--;
		} else {
			arg->arg =
				rp_arg_view(part(&m->seed),
					    (enum rp_access)accesses[below(&m->seed, 4)]);
			if (arg->arg.access & RP_OUT && taken(&arg->arg.u.tensor, map))
				arg->arg.access = RP_IN;
		}
	}
}

static void add_kernel(struct maker *m)
{
	int32_t idx = (int32_t)m->graph->op_count++;
	struct graph_op *op = &m->graph->ops[idx];

	op->kind = GRAPH_KERNEL;
	op->seed = draw(&m->seed);
	op->late = !below(&m->seed, 40);
	add_args(m, op, idx);
	if (m->manual) {
		op->deps[op->dep_count++] = m->last;
	} else if (!below(&m->seed, 8)) {
		op->deps[op->dep_count++] = below(&m->seed, (uint32_t)idx + 1) - 1;
	}
	m->last = idx;
	m->kernels[m->depth]++;
	m->shared += m->depth >= DEPTH_SHARED;
}

static void add_end(struct maker *m)
{
	m->graph->ops[m->graph->op_count++].kind = GRAPH_END;
	m->fresh_count = m->fresh_at[m->depth--];
	m->manual = false;
}

static void add_begin(struct maker *m)
{
	m->manual = !below(&m->seed, 8);
	m->graph->ops[m->graph->op_count++].kind = m->manual ? GRAPH_BEGIN_MANUAL
							     : GRAPH_BEGIN;
	m->fresh_at[++m->depth] = m->fresh_count;
	m->kernels[m->depth] = 0;
	if (m->depth == DEPTH_SHARED)
		m->shared = 0;
	m->last = -1;
}

void graph_make(struct graph *graph, uint64_t seed, uint32_t op_count)
{
	struct maker *m = calloc(1, sizeof(*m));

	memset(graph, 0, sizeof(*graph));
	m->graph = graph;
	m->seed = seed;
	if (op_count > GRAPH_OPS_MAX - DEPTH_MAX)
		op_count = GRAPH_OPS_MAX - DEPTH_MAX;
	while (graph->op_count < op_count) {
		uint32_t what = below(&m->seed, 8);

		if (what < 5 && m->kernels[m->depth] < SCOPE_KERNELS &&
		    (m->depth < DEPTH_SHARED || m->shared < GRAPH_WINDOW_MIN))
			add_kernel(m);
		else if (what < 7 && m->depth < DEPTH_MAX && !m->manual)
			add_begin(m);
		else if (m->depth)
			add_end(m);
	}
	while (m->depth)
		add_end(m);
	free(m);
}

/* --- Running ------------------------------------------------------------- */

struct runner {
	const struct graph *graph;
	uint8_t *buffer;
	struct rp_tensor made[GRAPH_OPS_MAX]; /* heap outputs, by op */
	rp_kernel_id ids[GRAPH_OPS_MAX];
};

/* The arguments of an op, in place; what it has no memory for is left out. */
static uint32_t fill_args(struct runner *r, const struct graph_op *op, int32_t idx,
			  struct rp_arg *args)
{
	uint32_t count = 0;

	args[count++] = rp_arg_u64(op->seed);
	for (uint32_t i = 0; i < op->arg_count; i++) {
		const struct graph_arg *from = &op->args[i];

		if (from->maker < 0) {
			args[count] = from->arg;
			args[count].u.tensor.data =
				r->buffer + (uintptr_t)from->arg.u.tensor.data;
		} else if (from->maker == idx) {
			args[count] = from->arg;
		} else if (r->made[from->maker].data) {
			args[count] = rp_in(r->made[from->maker]);
		} else {
			continue;
		}
		count++;
	}
	return count;
}

static void note_made(struct runner *r, int32_t idx, const struct graph_op *op,
		      const struct rp_arg *args)
{
	if (op->arg_count && op->args[0].maker == idx)
		r->made[idx] = args[1].u.tensor;
}

void graph_run_serially(const struct graph *graph, uint8_t *buffer)
{
	struct runner *r = calloc(1, sizeof(*r));
	struct rp_arg args[GRAPH_ARGS_MAX + 1];

	r->graph = graph;
	r->buffer = buffer;
	for (int32_t i = 0; i < (int32_t)graph->op_count; i++) {
		const struct graph_op *op = &graph->ops[i];
		uint32_t count;

		if (op->kind != GRAPH_KERNEL || op->dropped)
			continue;
		count = fill_args(r, op, i, args);
		if (op->args[0].maker == i) {
			args[1].u.tensor.strides[0] = 1;
			args[1].u.tensor.data = malloc(FRESH_MAX);
		}
		note_made(r, i, op, args);
		mix(args, count);
	}
	for (uint32_t i = 0; i < graph->op_count; i++)
		free(r->made[i].data);
	free(r);
}

static int submit(struct rpi_runtime *runtime, struct runner *r, int32_t idx,
		  bool break_it)
{
	const struct graph_op *op = &r->graph->ops[idx];
	struct rp_arg args[GRAPH_ARGS_MAX + 1];
	rp_kernel_id deps[GRAPH_DEPS_MAX];
	struct rp_kernel kernel = { .fn = mix, .name = "mix", .args = args };
	int err;

	kernel.arg_count = fill_args(r, op, idx, args);
	for (uint32_t i = 1; break_it && i < kernel.arg_count; i++)
		args[i].access |= RP_NO_DEP;
	for (uint32_t i = 0; i < op->dep_count; i++)
		deps[i] = op->deps[i] < 0 ? 0 : r->ids[op->deps[i]];
	kernel.deps = deps;
	kernel.dep_count = op->dep_count;
	kernel.ready = op->late ? now_and_then : NULL;
	err = rpi_runtime_submit(runtime, &kernel, &r->ids[idx]);
	if (!err)
		note_made(r, idx, op, args);
	return err;
}

static int step(struct rpi_runtime *runtime, struct runner *r, int32_t idx,
		const struct graph_setting *setting, bool *manual)
{
	int err = 0;

	switch (r->graph->ops[idx].kind) {
	case GRAPH_KERNEL:
		if (r->graph->ops[idx].dropped)
			return 0;
		return submit(runtime, r, idx, setting->break_it);
	case GRAPH_BEGIN:
		return rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO);
	case GRAPH_BEGIN_MANUAL:
		*manual = true;
		err = rpi_runtime_drain(runtime);
		return err ? err : rpi_runtime_scope_begin(runtime, RP_SCOPE_MANUAL);
	default:
		if (*manual)
			err = rpi_runtime_drain(runtime);
		*manual = false;
		return err ? err : rpi_runtime_scope_end(runtime);
	}
}

int graph_run(const struct graph *graph, const struct graph_setting *setting,
	      uint8_t *buffer)
{
	struct rpi_runtime_config config = { .compute_threads = setting->threads };
	struct rp_run_config run = { .size = sizeof(run),
				     .ring_task_window = { .all = setting->window },
				     .ring_heap = { .all = setting->heap },
				     .ring_dep_pool = { .all = setting->pool } };
	struct rpi_runtime *runtime;
	struct runner *r = calloc(1, sizeof(*r));
	const char *text;
	bool manual = false;
	int err;

	r->graph = graph;
	r->buffer = buffer;
	err = rpi_runtime_open(&config, &runtime);
	if (err) {
		free(r);
		return err;
	}
	rpi_runtime_begin(runtime, &run);
	for (int32_t i = 0; i < (int32_t)graph->op_count && !err; i++)
		err = step(runtime, r, i, setting, &manual);
	err = rpi_runtime_end(runtime, err, &text);
	rpi_runtime_close(runtime);
	free(r);
	return err;
}

/* --- Judging ------------------------------------------------------------- */

static void begin(uint8_t *buffer)
{
	for (uint32_t i = 0; i < GRAPH_BYTES; i++)
		buffer[i] = (uint8_t)(i * 17 + i / 256);
}

bool graph_differs(const struct graph *graph, const struct graph_setting *setting,
		   uint32_t tries)
{
	static _Alignas(64) uint8_t want[GRAPH_BYTES], got[GRAPH_BYTES];

	begin(want);
	graph_run_serially(graph, want);
	while (tries--) {
		int err;

		begin(got);
		err = graph_run(graph, setting, got);
		if (err) {
			printf("# the run failed: %s\n", rp_last_error());
			exit(1);
		}
		if (memcmp(want, got, GRAPH_BYTES))
			return true;
	}
	return false;
}

static void print(const struct graph *graph)
{
	for (uint32_t i = 0; i < graph->op_count; i++) {
		const struct graph_op *op = &graph->ops[i];

		if (op->dropped)
			continue;
		if (op->kind != GRAPH_KERNEL) {
			printf("# %4u %s\n", i,
			       op->kind == GRAPH_END	 ? "end"
			       : op->kind == GRAPH_BEGIN ? "begin"
							 : "begin manual");
			continue;
		}
		printf("# %4u kernel%s", i, op->late ? " late" : "");
		for (uint32_t k = 0; k < op->dep_count; k++)
			printf(" dep %d", op->deps[k]);
		for (uint32_t k = 0; k < op->arg_count; k++) {
			const struct rp_tensor *t = &op->args[k].arg.u.tensor;

			printf(" %s", op->args[k].arg.access == RP_IN	 ? "in"
				      : op->args[k].arg.access == RP_OUT ? "out"
									 : "inout");
			if (op->args[k].maker >= 0)
				printf(" of %d", op->args[k].maker);
			else
				printf(" at %" PRIuPTR, (uintptr_t)t->data);
			for (uint32_t d = 0; d < t->rank; d++)
				printf("%c%" PRId64 ":%" PRId64, d ? ',' : '[',
				       t->shape[d], t->strides[d]);
			printf("]");
		}
		printf("\n");
	}
}

void graph_shrink(struct graph *graph, const struct graph_setting *setting)
{
	const uint32_t tries = setting->threads ? 50 : 1;

	for (uint32_t chunk = graph->op_count / 2; chunk; chunk /= 2) {
		for (uint32_t from = 0; from < graph->op_count; from += chunk) {
			uint32_t past = from + chunk, i;
			bool before[GRAPH_OPS_MAX];

			if (past > graph->op_count)
				past = graph->op_count;
			for (i = from; i < past; i++) {
				before[i] = graph->ops[i].dropped;
				if (graph->ops[i].kind == GRAPH_KERNEL)
					graph->ops[i].dropped = true;
			}
			if (graph_differs(graph, setting, tries))
				continue;
			for (i = from; i < past; i++)
				graph->ops[i].dropped = before[i];
		}
	}
	print(graph);
}
