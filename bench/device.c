/* SPDX-License-Identifier: MIT */
/* rpbench device: memory of a chip taken and given back, which asks no chip. */
#include <errno.h>
#include <stdlib.h>

#include <ringplane/device.h>
#include <ringplane/worker.h>

#include "base/error.h"
#include "clock.h"
#include "command.h"
#include "dispatch_worker.h"
#include "empty.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LIVE	     10000u
#define BYTES_MAX    20000u
#define BATCH	     64u
#define MALLOC	     "device.malloc"
/* Twice what the blocks take when they are rounded up, so that there are holes. */
#define MEMORY_BYTES ((size_t)256 << 20)

struct device_bed {
	struct rp_worker *worker;
	struct rp_program *program;
	uint64_t seed;
	union {
		struct rp_tensor tensor;
		uint64_t address;
		void *pointer;
	} live[LIVE];
};

/* One kind of memory: what fills a place of `live`, and what empties it. */
struct device_kind {
	const char *name, *limits;
	int (*take)(struct device_bed *bed, uint32_t at, size_t bytes);
	int (*give)(struct device_bed *bed, uint32_t at);
};

static int take_tensor(struct device_bed *bed, uint32_t at, size_t bytes)
{
	const int64_t shape[] = { (int64_t)bytes };

	return rp_worker_alloc_tensor(bed->worker, 0, RP_INT8, 1, shape, NULL,
				      &bed->live[at].tensor);
}

static int give_tensor(struct device_bed *bed, uint32_t at)
{
	return rp_worker_free_tensor(bed->worker, &bed->live[at].tensor);
}

static int take_raw(struct device_bed *bed, uint32_t at, size_t bytes)
{
	return rp_worker_device_alloc(bed->worker, 0, bytes, &bed->live[at].address);
}

static int give_raw(struct device_bed *bed, uint32_t at)
{
	return rp_worker_device_free(bed->worker, 0, bed->live[at].address);
}

static int take_malloc(struct device_bed *bed, uint32_t at, size_t bytes)
{
	bed->live[at].pointer = malloc(bytes);
	return bed->live[at].pointer ? 0 : rpi_fail(-ENOMEM, MALLOC ": no memory");
}

static int give_malloc(struct device_bed *bed, uint32_t at)
{
	free(bed->live[at].pointer);
	return 0;
}

static const struct device_kind kinds[] = {
	{ MALLOC, NULL, take_malloc, give_malloc },
	{ "device.alloc", MALLOC, take_tensor, give_tensor },
	{ "device.alloc.raw", MALLOC, take_raw, give_raw },
};

/* xorshift: the same places and sizes for every kind. */
static uint64_t dice(struct device_bed *bed)
{
	bed->seed ^= bed->seed << 13;
	bed->seed ^= bed->seed >> 7;
	bed->seed ^= bed->seed << 17;
	return bed->seed;
}

static size_t some_bytes(struct device_bed *bed)
{
	return 1 + dice(bed) % BYTES_MAX;
}

static int start_worker(struct bench_case *c, struct device_bed *bed)
{
	struct rp_worker_options options;
	int err;

	err = bench_empty_program(c->name, &bed->program);
	if (err)
		return err;
	rp_worker_options_init(&options);
	options.device_memory_bytes = MEMORY_BYTES;
	options.worker_wait = RP_WAIT_BLOCK;
	return bench_worker_start(c->options, bed->program, &options, BENCH_PLACE_PEER,
				  &bed->worker);
}

/* What is still out goes with the worker, or with the process. */
static void device_teardown(struct bench_case *c)
{
	const struct device_kind *kind = c->arg;
	struct device_bed *bed = c->data;

	if (kind->take == take_malloc)
		for (uint32_t i = 0; i < LIVE; i++)
			free(bed->live[i].pointer);
	bench_worker_stop(bed->worker);
	rp_program_free(bed->program);
	free(bed);
	c->data = NULL;
}

static int device_setup(struct bench_case *c)
{
	const struct device_kind *kind = c->arg;
	struct device_bed *bed = calloc(1, sizeof(*bed));
	int err = 0;

	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	c->data = bed;
	bed->seed = 88172645463325252u;
	if (kind->take != take_malloc)
		err = start_worker(c, bed);
	for (uint32_t i = 0; !err && i < LIVE; i++)
		err = kind->take(bed, i, some_bytes(bed));
	if (err)
		device_teardown(c);
	return err;
}

/* A sample: one of the live blocks goes, another one comes. */
static int device_round(struct bench_case *c, struct bench_round *round)
{
	const struct device_kind *kind = c->arg;
	struct device_bed *bed = c->data;

	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t begin = bench_ticks();

		for (uint32_t pair = 0; pair < BATCH; pair++) {
			uint32_t at = (uint32_t)(dice(bed) % LIVE);
			int err = kind->give(bed, at);

			if (!err)
				err = kind->take(bed, at, some_bytes(bed));
			if (err)
				return err;
		}
		bench_samples_add(round->samples,
				  bench_ticks_ns(bench_ticks() - begin) / BATCH);
		round->work += BATCH;
	}
	return 0;
}

static int device_plan(struct bench_plan *plan, const struct bench_options *options)
{
	int err = 0;

	(void)options;
	for (size_t i = 0; !err && i < COUNT(kinds); i++) {
		struct bench_case c = { .unit = "ns",
					.limits = kinds[i].limits,
					.batch = BATCH,
					.arg = &kinds[i],
					.setup = device_setup,
					.round = device_round,
					.teardown = device_teardown };

		rpi_format(c.name, sizeof(c.name), "%s", kinds[i].name);
		err = bench_plan_add(plan, &c);
	}
	return err;
}

const struct bench_command bench_device_command = {
	.name = "device",
	.summary = "memory of a chip taken and given back",
	.plan = device_plan,
};
