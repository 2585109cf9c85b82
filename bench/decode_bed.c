/* SPDX-License-Identifier: MIT */
#include "decode_bed.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "dispatch_worker.h"
#include "fail.h"
#include "made.h"
#include "topology.h"

char *decode_model_path;

/* Leave the example's line where the runner looks for one. */
static int pass(int err)
{
	return err ? rpi_fail(err, "%s", decode_error()) : 0;
}

static int open_model(struct decode_bed *bed)
{
	struct made made;
	int err;

	if (decode_model_path)
		return pass(checkpoint_open(decode_model_path, &bed->model));
	err = pass(made_open(&made_default, true, &made));
	if (err)
		return err;
	err = pass(checkpoint_open(made.model, &bed->model));
	/* The mapping keeps it. */
	made_close(&made);
	return err;
}

static void stop(struct decode_bed *bed)
{
	engine_close(bed->engine);
	solo_close(bed->solo);
	bed->engine = NULL;
	bed->solo = NULL;
}

int decode_bed_setup(struct bench_case *c)
{
	struct decode_bed *bed = calloc(1, sizeof(*bed));
	int err;

	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	bed->variant = c->arg;
	/* With several chips the caller takes what CPU there is, and a worker for each
	 * dispatch is prepared by a thread that is not pinned. */
	bed->pinned = bed->variant->chips < 2 && bed->variant->way != DECODE_ONESHOT;
	err = open_model(bed);
	if (err) {
		free(bed);
		return err;
	}
	c->data = bed;
	if (bed->model.config.seq_len < DECODE_TO)
		err = rpi_fail(-ERANGE, "%s: seq_len %d, expected %d or more",
			       decode_model_path, bed->model.config.seq_len, DECODE_TO);
	else if (bed->variant->chips)
		err = pass(shard_check(&bed->model.config, bed->variant->chips))
			      ? BENCH_SKIP
			      : 0;
	if (err)
		decode_bed_teardown(c);
	return err;
}

void decode_bed_teardown(struct bench_case *c)
{
	struct decode_bed *bed = c->data;

	stop(bed);
	checkpoint_close(&bed->model);
	free(bed);
	c->data = NULL;
}

/* The library judges by the CPUs of this thread whether they are enough to spin on. */
static int open_engine(struct bench_case *c)
{
	struct decode_bed *bed = c->data;
	const struct decode_variant *v = bed->variant;
	int cpus[CHIPS_MAX + 1];
	struct engine_options options = {
		.chips = v->chips,
		.persistent = v->way == DECODE_RESET || v->way == DECODE_KEEP,
		.reset = v->way == DECODE_RESET,
		.one_shot = v->way == DECODE_ONESHOT,
		.chooser = v->chooser,
		.sampler.top_p = 1,
		.wait = v->wait,
		.worker_wait = v->worker_wait,
	};
	int err;

	/* Chips that meet ten times a token need a CPU each, be it the caller's. */
	if (!options.one_shot) {
		bench_worker_cpus(c->options, v->chips > 1, cpus, v->chips);
		options.chip_cpus = cpus;
	}
	if (bed->pinned) {
		cpus[v->chips] = c->options->cpu[BENCH_PARENT];
		err = bench_cpu_allow(cpus, v->chips + 1);
	} else {
		err = bench_cpu_allow(NULL, 0);
	}
	return err ? err : pass(engine_open(&bed->model, &options, &bed->engine));
}

/* Every position before the first that is measured. */
static int fill_cache(struct decode_bed *bed)
{
	int32_t tokens[DECODE_FROM];

	for (int32_t pos = 0; pos < DECODE_FROM; pos++) {
		tokens[pos] = (7 * pos + 1) % bed->model.config.vocab_size;
		if (bed->solo && !solo_step(bed->solo, tokens[pos], pos))
			return pass(-EINVAL);
	}
	return bed->engine ? pass(engine_prefill(bed->engine, tokens, DECODE_FROM, 0))
			   : 0;
}

static int start(struct bench_case *c)
{
	struct decode_bed *bed = c->data;
	int err = bed->variant->way == DECODE_SINGLE
			  ? pass(solo_open(&bed->model, &bed->solo))
			  : open_engine(c);

	return err ? err : fill_cache(bed);
}

/* What is started stays: idle chips sleep. */
int decode_bed_enter(struct bench_case *c)
{
	struct decode_bed *bed = c->data;
	int err = bed->engine || bed->solo ? 0 : start(c);

	if (!err)
		err = bed->pinned ? bench_cpu_pin(c->options->cpu[BENCH_PARENT])
				  : bench_cpu_allow(NULL, 0);
	if (err)
		stop(bed);
	return err;
}

void decode_bed_leave(struct bench_case *c)
{
	bench_cpu_pin(c->options->cpu[BENCH_PARENT]);
}
