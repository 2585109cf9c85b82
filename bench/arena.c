/* SPDX-License-Identifier: MIT */
/*
 * rpbench arena: what the memory of the chip runtime costs, before and in a dispatch.
 * The runtime is opened in this process, as a chip opens it in its own; a dispatch is a
 * run of a few kernels with outputs.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/error.h"
#include "clock.h"
#include "command.h"
#include "runtime/runtime.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KERNELS	     64
#define OUTPUT_BYTES 8192
#define LATER	     "arena.later"
#define HOT	     "arena.hot"

struct arena_variant {
	const char *name, *limits;
	int (*round)(struct bench_case *c, struct bench_round *round);
	uint64_t window, heap; /* 0: the default */
	uint32_t cached;
	bool prewarm;
	bool cool; /* make the caches as cold as a start leaves them */
};

static struct rp_run_config config_of(uint64_t window, uint64_t heap)
{
	struct rp_run_config config = { .size = sizeof(config) };

	config.ring_task_window.all = window;
	config.ring_heap.all = heap;
	return config;
}

static int write_first(const struct rp_arg *args, size_t nargs)
{
	uint64_t *to = args[0].u.tensor.data;

	(void)nargs;
	*to = (uint64_t)(uintptr_t)to;
	return 0;
}

/* One dispatch's worth of kernels; its time is added where there are samples. */
static int dispatch(struct rpi_runtime *runtime, const struct rp_run_config *config,
		    struct bench_round *round, bool sample)
{
	uint64_t begin = bench_ticks();
	const int64_t shape[] = { OUTPUT_BYTES };
	const char *text;
	int err = 0;

	rpi_runtime_begin(runtime, config);
	for (int i = 0; i < KERNELS && !err; i++) {
		struct rp_arg arg = rp_out_new(RP_UINT8, 1, shape);
		struct rp_kernel kernel = { .fn = write_first,
					    .args = &arg,
					    .arg_count = 1 };

		err = rpi_runtime_submit(runtime, &kernel, NULL);
	}
	err = rpi_runtime_end(runtime, err, &text);
	if (sample)
		bench_samples_add(round->samples, bench_ticks_ns(bench_ticks() - begin));
	round->work += runtime->kernel_count;
	return err;
}

static int open_runtime(const struct arena_variant *v, struct rpi_runtime **runtime_out)
{
	struct rpi_runtime_config config = { .arena_cache = v->cached };

	return rpi_runtime_open(&config, runtime_out);
}

/* A sample is one build, without what the pages cost later. */
static int build_round(struct bench_case *c, struct bench_round *round)
{
	const struct arena_variant *v = c->arg;
	struct rp_run_config config = config_of(v->window, v->heap);
	struct rpi_sizing asked, none = { { { 0 } } }, sizing;
	int err = 0;

	rpi_sizing_from_config(&config, &asked);
	rpi_sizing_resolve(&asked, &none, &sizing);
	for (uint64_t i = 0; i < round->ops && !err; i++) {
		struct rpi_arena_cache cache;
		struct rpi_arena *arena;
		uint64_t begin;

		rpi_arena_cache_init(&cache, 1, RP_PAGES_AUTO);
		begin = bench_ticks();
		err = rpi_arena_get(&cache, &sizing, &arena);
		bench_samples_add(round->samples, bench_ticks_ns(bench_ticks() - begin));
		round->work += cache.builds;
		rpi_arena_cache_fini(&cache);
	}
	return err;
}

static uint64_t page_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* A runtime, its arena made ahead or not. */
static int make_runtime(const struct arena_variant *v, bool prewarm,
			struct rpi_runtime **runtime_out)
{
	struct rp_run_config config = config_of(v->window, v->heap);
	int err = open_runtime(v, runtime_out);

	if (!err && prewarm) {
		err = rpi_runtime_prewarm(*runtime_out, &config);
		if (err) {
			rpi_runtime_close(*runtime_out);
			*runtime_out = NULL;
		}
	}
	return err;
}

/* A sample is the first dispatch of a runtime. */
static int first_round(struct bench_case *c, struct bench_round *round)
{
	const struct arena_variant *v = c->arg;
	struct rp_run_config config = config_of(v->window, v->heap);
	int err = 0;

	for (uint64_t i = 0; i < round->ops && !err; i++) {
		struct rpi_runtime *runtime;
		uint64_t faults;

		err = make_runtime(v, v->prewarm, &runtime);
		if (err)
			return err;
		faults = page_faults();
		err = dispatch(runtime, &config, round, true);
		faults = page_faults() - faults;
		rpi_format(c->remark, sizeof(c->remark),
			   "%llu page faults in the last one",
			   (unsigned long long)faults);
		rpi_runtime_close(runtime);
	}
	return err;
}

/* A sample is a later one, of a runtime as old as that of the first. */
static int later_round(struct bench_case *c, struct bench_round *round)
{
	const struct arena_variant *v = c->arg;
	struct rp_run_config config = config_of(v->window, v->heap);
	int err = 0;

	for (uint64_t i = 0; i < round->ops && !err; i++) {
		struct rpi_runtime *runtime, *other = NULL;

		err = make_runtime(v, true, &runtime);
		if (err)
			return err;
		for (int k = 0; k < 2 && !err; k++)
			err = dispatch(runtime, &config, round, false);
		if (!err && v->cool) {
			err = make_runtime(v, true, &other);
			page_faults();
		}
		if (!err)
			err = dispatch(runtime, &config, round, true);
		rpi_runtime_close(other);
		rpi_runtime_close(runtime);
	}
	return err;
}

/* Dispatches of two vectors by turns. */
static int alternate_round(struct bench_case *c, struct bench_round *round)
{
	const struct arena_variant *v = c->arg;
	struct rp_run_config config[2] = { config_of(v->window, v->heap),
					   config_of(128, v->heap) };
	struct rpi_runtime *runtime;
	int err = open_runtime(v, &runtime);

	for (uint64_t i = 0; i < round->ops + 2 && !err; i++)
		err = dispatch(runtime, &config[i & 1], round, i >= 2);
	if (!err && !c->remark[0])
		rpi_format(c->remark, sizeof(c->remark), "%llu builds in %llu dispatches",
			   (unsigned long long)runtime->cache.builds,
			   (unsigned long long)round->ops + 2);
	rpi_runtime_close(runtime);
	return err;
}

static const struct arena_variant variants[] = {
	{ .name = "arena.build.default", .round = build_round },
	{ .name = "arena.build.small",
	  .round = build_round,
	  .window = 16,
	  .heap = 65536 },
	{ .name = "arena.build.large",
	  .round = build_round,
	  .window = 1 << 20,
	  .heap = (uint64_t)4 << 30 },
	{ .name = HOT, .round = later_round },
	{ .name = LATER, .round = later_round, .cool = true },
	{ .name = "arena.prewarmed.first",
	  .limits = LATER,
	  .round = first_round,
	  .prewarm = true },
	{ .name = "arena.cold.first", .limits = LATER, .round = first_round },
	{ .name = "arena.alternate.1slot",
	  .limits = HOT,
	  .round = alternate_round,
	  .cached = 1 },
	{ .name = "arena.alternate.2slots",
	  .limits = HOT,
	  .round = alternate_round,
	  .cached = 2 },
};

static int arena_plan(struct bench_plan *plan, const struct bench_options *options)
{
	int err = 0;

	(void)options;
	for (size_t i = 0; !err && i < COUNT(variants); i++) {
		struct bench_case c = { .unit = "ns",
					.limits = variants[i].limits,
					.ops_max = 2000,
					.arg = &variants[i],
					.round = variants[i].round };

		rpi_format(c.name, sizeof(c.name), "%s", variants[i].name);
		err = bench_plan_add(plan, &c);
	}
	return err;
}

const struct bench_command bench_arena_command = {
	.name = "arena",
	.summary = "what the rings of the chip runtime cost to make, and to find made",
	.plan = arena_plan,
};
