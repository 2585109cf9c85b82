/* SPDX-License-Identifier: MIT */
/*
 * rpbench tasks: kernels through the chip runtime, in this process as in a chip's. A
 * sample is the mean of one kernel over a run of so many: submitted, run, retired.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "clock.h"
#include "command.h"
#include "runtime/runtime.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Kernels of one sample where the variant has no number of its own, in scopes of so many.
 */
#define KERNELS	   1024
#define SCOPE	   64
#define CELLS	   64
#define CELL_WORDS 32
#define TILES	   8

struct tasks_bed {
	struct rpi_runtime *runtime;
	uint64_t cells[3][CELLS][CELL_WORDS];
};

/* The arguments of the i-th kernel of a shape; returns how many. */
typedef uint32_t (*shape_fn)(struct tasks_bed *bed, uint32_t i, struct rp_arg *args);

struct tasks_variant {
	const char *name;
	shape_fn shape;
	uint32_t threads;
	uint32_t dep_count; /* ids of kernels that are held up meanwhile */
	bool submit_only;   /* a sample is the submit alone */
	bool full;	    /* not in a quick run */
	uint32_t kernels;   /* of a run; 0: KERNELS */
	uint64_t window;
};

/* Kernels of a sample of short runs. */
#define LENGTHS_MIN 10000u

#define RUN	    "tasks.run."

static struct rp_tensor cell(struct tasks_bed *bed, uint32_t set, uint32_t idx)
{
	return (struct rp_tensor){ .data = bed->cells[set][idx % CELLS],
				   .dtype = RP_UINT64,
				   .rank = 1,
				   .shape = { CELL_WORDS },
				   .strides = { 1 } };
}

/* Two inputs, one output, no kernel that follows another. */
static uint32_t shape_apart(struct tasks_bed *bed, uint32_t i, struct rp_arg *args)
{
	args[0] = rp_in(cell(bed, 0, i));
	args[1] = rp_in(cell(bed, 1, i));
	args[2] = rp_out(cell(bed, 2, i));
	return 3;
}

/* The same with an output that the runtime allocates. */
static uint32_t shape_heap(struct tasks_bed *bed, uint32_t i, struct rp_arg *args)
{
	const int64_t shape[] = { CELL_WORDS };

	args[0] = rp_in(cell(bed, 0, i));
	args[1] = rp_in(cell(bed, 1, i));
	args[2] = rp_out_new(RP_UINT64, 1, shape);
	return 3;
}

static uint32_t shape_chain(struct tasks_bed *bed, uint32_t i, struct rp_arg *args)
{
	(void)i;
	args[0] = rp_inout(cell(bed, 0, 0));
	return 1;
}

/* One writer, then readers until the scope's end. */
static uint32_t shape_fanout(struct tasks_bed *bed, uint32_t i, struct rp_arg *args)
{
	if (i % SCOPE == 0) {
		args[0] = rp_out(cell(bed, 0, 0));
		return 1;
	}
	args[0] = rp_in(cell(bed, 0, 0));
	args[1] = rp_out(cell(bed, 1, i));
	return 2;
}

/* Writers, then one reader of them all. */
static uint32_t shape_fanin(struct tasks_bed *bed, uint32_t i, struct rp_arg *args)
{
	if (i % SCOPE != SCOPE - 1) {
		args[0] = rp_out(cell(bed, 0, i));
		return 1;
	}
	args[0] = rp_in(cell(bed, 0, 0));
	args[0].u.tensor.shape[0] = CELLS * CELL_WORDS;
	args[1] = rp_out(cell(bed, 1, 0));
	return 2;
}

/* C[i][j] += A[i][k] * B[k][j], tile by tile. */
static uint32_t shape_matmul(struct tasks_bed *bed, uint32_t n, struct rp_arg *args)
{
	uint32_t k = n % TILES, j = n / TILES % TILES, i = n / TILES / TILES % TILES;

	args[0] = rp_in(cell(bed, 0, i * TILES + k));
	args[1] = rp_in(cell(bed, 1, k * TILES + j));
	args[2] = rp_inout(cell(bed, 2, i * TILES + j));
	return 3;
}

static uint32_t shape_none(struct tasks_bed *bed, uint32_t i, struct rp_arg *args)
{
	(void)bed;
	(void)i;
	(void)args;
	return 0;
}

static int do_nothing(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return 0;
}

static _Atomic bool let_go;

/* Holds up the only thread, and with it all that is in the queue behind it. */
static int hold(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	while (!atomic_load_explicit(&let_go, memory_order_acquire))
		rpi_cpu_pause();
	return 0;
}

static int tasks_setup(struct bench_case *c)
{
	const struct tasks_variant *v = c->arg;
	struct rpi_runtime_config config = { .compute_threads = v->threads,
					     .patient = true };
	struct tasks_bed *bed = calloc(1, sizeof(*bed));
	int err;

	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	err = rpi_runtime_open(&config, &bed->runtime);
	if (err) {
		free(bed);
		return err;
	}
	c->data = bed;
	return 0;
}

static void tasks_teardown(struct bench_case *c)
{
	struct tasks_bed *bed = c->data;

	rpi_runtime_close(bed->runtime);
	free(bed);
	c->data = NULL;
}

static uint32_t kernels_of(const struct tasks_variant *v)
{
	return v->kernels ? v->kernels : KERNELS;
}

/* Runs of one sample. */
static uint32_t runs_of(const struct tasks_variant *v)
{
	return v->kernels && v->kernels < LENGTHS_MIN ? LENGTHS_MIN / v->kernels : 1;
}

/* Submit one sample's kernels, all of them after `deps`. */
static int submit_all(struct tasks_bed *bed, const struct tasks_variant *v,
		      const rp_kernel_id *deps)
{
	struct rp_arg args[4];
	struct rp_kernel kernel = {
		.fn = do_nothing, .args = args, .deps = deps, .dep_count = v->dep_count
	};
	uint32_t kernels = kernels_of(v);
	int err = 0;

	for (uint32_t i = 0; i < kernels && !err; i++) {
		if (i % SCOPE == 0)
			err = rpi_runtime_scope_begin(bed->runtime, RP_SCOPE_AUTO);
		kernel.arg_count = v->shape(bed, i, args);
		if (!err)
			err = rpi_runtime_submit(bed->runtime, &kernel, NULL);
		if (!err && i % SCOPE == SCOPE - 1)
			err = rpi_runtime_scope_end(bed->runtime);
	}
	return err;
}

/* Kernels that don't start before they are let go, for the others to follow. */
static int hold_up(struct tasks_bed *bed, uint32_t count, rp_kernel_id *ids)
{
	struct rp_kernel kernel = { .fn = hold };
	int err = 0;

	for (uint32_t i = 0; i < count && !err; i++)
		err = rpi_runtime_submit(bed->runtime, &kernel, &ids[i]);
	return err;
}

/* How much of the rings a run of whatever length has used at most. */
static void remark_peaks(struct bench_case *c, struct tasks_bed *bed)
{
	struct rp_ring_state state;

	if (rpi_runtime_ring_state(bed->runtime, 1, &state))
		return;
	rpi_format(c->remark, sizeof(c->remark),
		   "at most %llu kernels and %llu bytes of the heap in use",
		   (unsigned long long)state.task_window.peak,
		   (unsigned long long)state.heap.peak);
}

/* Runs of so many kernels; a sample has as many short ones as make up for its clock. */
static int lengths_round(struct bench_case *c, struct bench_round *round)
{
	const struct tasks_variant *v = c->arg;
	struct rp_run_config config = { .size = sizeof(config) };
	uint64_t repeats = runs_of(v);
	struct tasks_bed *bed = c->data;
	int64_t begin;
	const char *text;
	int err = 0;

	for (uint64_t i = 0; i < round->ops && !err; i++) {
		/* A long run is sure to be interrupted, a short one is not. */
		begin = bench_cpu_ns();
		for (uint64_t k = 0; k < repeats && !err; k++) {
			rpi_runtime_begin(bed->runtime, &config);
			err = submit_all(bed, v, NULL);
			if (!i && !k)
				remark_peaks(c, bed);
			round->work += bed->runtime->kernel_count;
			err = rpi_runtime_end(bed->runtime, err, &text);
		}
		bench_samples_add(round->samples, (double)(bench_cpu_ns() - begin) /
							  (double)(repeats * v->kernels));
	}
	return err;
}

static int tasks_round(struct bench_case *c, struct bench_round *round)
{
	const struct tasks_variant *v = c->arg;
	struct rp_run_config config = { .size = sizeof(config) };
	struct tasks_bed *bed = c->data;
	rp_kernel_id ids[64];
	int err = 0;

	config.ring_task_window.all = v->window;
	for (uint64_t i = 0; i < round->ops && !err; i++) {
		uint64_t begin, submitted, end;
		const char *text;

		atomic_store_explicit(&let_go, false, memory_order_relaxed);
		rpi_runtime_begin(bed->runtime, &config);
		err = hold_up(bed, v->dep_count, ids);
		begin = bench_ticks();
		if (!err)
			err = submit_all(bed, v, ids);
		submitted = bench_ticks();
		atomic_store_explicit(&let_go, true, memory_order_release);
		round->work += bed->runtime->kernel_count;
		err = rpi_runtime_end(bed->runtime, err, &text);
		end = v->submit_only ? submitted : bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(end - begin) / KERNELS);
	}
	return err;
}

#define THREADS(what, fn)                                                          \
	{ .name = "tasks." what, .shape = (fn) },                                  \
		{ .name = "tasks." what ".1thread", .shape = (fn), .threads = 1 }, \
	{                                                                          \
		.name = "tasks." what ".2threads", .shape = (fn), .threads = 2     \
	}

static const struct tasks_variant variants[] = {
	THREADS("submit_retire", shape_apart),
	{ .name = "tasks.submit_retire.window64", .shape = shape_apart, .window = 64 },
	{ .name = "tasks.submit_retire.heap", .shape = shape_heap },
	{ .name = RUN "10", .shape = shape_heap, .kernels = 10 },
	{ .name = RUN "1000", .shape = shape_heap, .kernels = 1000 },
	{ .name = RUN "100000", .shape = shape_heap, .kernels = 100000 },
	{ .name = RUN "1000000", .shape = shape_heap, .kernels = 1000000 },
	{ .name = RUN "10000000",
	  .shape = shape_heap,
	  .kernels = 10000000,
	  .full = true },
	THREADS("chain", shape_chain),
	THREADS("fanout", shape_fanout),
	THREADS("fanin", shape_fanin),
	THREADS("matmul", shape_matmul),
	{ .name = "tasks.deps.1",
	  .shape = shape_none,
	  .threads = 1,
	  .dep_count = 1,
	  .submit_only = true },
	{ .name = "tasks.deps.9",
	  .shape = shape_none,
	  .threads = 1,
	  .dep_count = 9,
	  .submit_only = true },
};

static int tasks_plan(struct bench_plan *plan, const struct bench_options *options)
{
	/* A pattern names what a quick run would leave out. */
	bool quick = options->quick && !options->only;
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(variants); i++) {
		struct bench_case c = {
			.unit = "ns",
			.batch = kernels_of(&variants[i]) * runs_of(&variants[i]),
			.ops_max = 2000,
			.arg = &variants[i],
			.setup = tasks_setup,
			.round = variants[i].kernels ? lengths_round : tasks_round,
			.teardown = tasks_teardown
		};

		if (quick && variants[i].full)
			continue;
		rpi_format(c.name, sizeof(c.name), "%s", variants[i].name);
		err = bench_plan_add(plan, &c);
	}
	if (!err)
		err = bench_plan_derive(plan, "tasks.flat", "ns", RUN "1000", RUN "*");
	if (!err)
		err = bench_plan_derive(plan, "tasks.edge", "ns", NULL, "tasks.deps.*");
	if (!err)
		err = bench_plan_derive(plan, "tasks.rate", "1/s", NULL,
					"tasks.submit_retire");
	return err;
}

static double median_of(const struct bench_results *results, const char *name, size_t run)
{
	const struct bench_result *result = bench_result_find(results, name);

	return result && run < result->run_count ? result->runs[run].p50 : (double)NAN;
}

static int add_value(struct bench_results *results, const char *name, double value)
{
	const struct bench_run run = {
		.p50 = value, .p99 = (double)NAN, .p999 = (double)NAN, .max = (double)NAN
	};
	struct bench_result *line = bench_result_find(results, name);

	return line && isfinite(value) ? bench_result_run(line, &run) : 0;
}

/* A kernel of the dearest run, of whatever length. */
static double dearest(const struct bench_results *results, size_t run)
{
	double most = 0;
	size_t count = 0;

	for (size_t i = 0; i < COUNT(variants); i++) {
		double value = variants[i].kernels
				       ? median_of(results, variants[i].name, run)
				       : (double)NAN;

		if (!isfinite(value))
			continue;
		most = fmax(most, value);
		count++;
	}
	return count > 1 ? most : (double)NAN;
}

static size_t most_runs(const struct bench_results *results)
{
	size_t runs = 0;

	for (size_t i = 0; i < COUNT(variants); i++) {
		const struct bench_result *line =
			bench_result_find(results, variants[i].name);

		if (line && line->run_count > runs)
			runs = line->run_count;
	}
	return runs;
}

static int tasks_finish(struct bench_results *results,
			const struct bench_options *options)
{
	size_t runs = most_runs(results);
	int err = 0;

	(void)options;
	for (size_t run = 0; !err && run < runs; run++) {
		double few = median_of(results, "tasks.deps.1", run);
		double many = median_of(results, "tasks.deps.9", run);
		double kernel = median_of(results, "tasks.submit_retire", run);

		err = add_value(results, "tasks.edge", (many - few) / 8);
		if (!err)
			err = add_value(results, "tasks.rate", 1e9 / kernel);
		if (!err)
			err = add_value(results, "tasks.flat", dearest(results, run));
	}
	return err;
}

const struct bench_command bench_tasks_command = {
	.name = "tasks",
	.summary = "kernels through the chip runtime: submitted, run, retired",
	.plan = tasks_plan,
	.finish = tasks_finish,
};
