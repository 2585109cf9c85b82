/* SPDX-License-Identifier: MIT */
/*
 * rpbench tasks: kernels through the chip runtime, in this process as in a chip's. A
 * sample is the mean of one kernel over a run of so many: submitted, run, retired.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "clock.h"
#include "command.h"
#include "runtime/runtime.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Kernels of one sample, in scopes of so many. */
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
	uint64_t window;
};

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

/* Submit one sample's kernels, all of them after `deps`. */
static int submit_all(struct tasks_bed *bed, const struct tasks_variant *v,
		      const rp_kernel_id *deps)
{
	struct rp_arg args[4];
	struct rp_kernel kernel = {
		.fn = do_nothing, .args = args, .deps = deps, .dep_count = v->dep_count
	};
	int err = 0;

	for (uint32_t i = 0; i < KERNELS && !err; i++) {
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

#define THREADS(what, fn)                                                        \
	{ .name = "tasks." what, .shape = fn },                                  \
		{ .name = "tasks." what ".1thread", .shape = fn, .threads = 1 }, \
	{                                                                        \
		.name = "tasks." what ".2threads", .shape = fn, .threads = 2     \
	}

static const struct tasks_variant variants[] = {
	THREADS("submit_retire", shape_apart),
	{ .name = "tasks.submit_retire.window64", .shape = shape_apart, .window = 64 },
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
	int err = 0;

	(void)options;
	for (size_t i = 0; !err && i < COUNT(variants); i++) {
		struct bench_case c = { .unit = "ns",
					.batch = KERNELS,
					.ops_max = 2000,
					.arg = &variants[i],
					.setup = tasks_setup,
					.round = tasks_round,
					.teardown = tasks_teardown };

		rpi_format(c.name, sizeof(c.name), "%s", variants[i].name);
		err = bench_plan_add(plan, &c);
	}
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

static int tasks_finish(struct bench_results *results,
			const struct bench_options *options)
{
	const struct bench_result *deps = bench_result_find(results, "tasks.deps.1");
	const struct bench_result *plain =
		bench_result_find(results, "tasks.submit_retire");
	size_t runs = 0;
	int err = 0;

	(void)options;
	if (deps)
		runs = deps->run_count;
	if (plain && plain->run_count > runs)
		runs = plain->run_count;
	for (size_t run = 0; !err && run < runs; run++) {
		double few = median_of(results, "tasks.deps.1", run);
		double many = median_of(results, "tasks.deps.9", run);
		double kernel = median_of(results, "tasks.submit_retire", run);

		err = add_value(results, "tasks.edge", (many - few) / 8);
		if (!err)
			err = add_value(results, "tasks.rate", 1e9 / kernel);
	}
	return err;
}

const struct bench_command bench_tasks_command = {
	.name = "tasks",
	.summary = "kernels through the chip runtime: submitted, run, retired",
	.plan = tasks_plan,
	.finish = tasks_finish,
};
