/* SPDX-License-Identifier: MIT */
/* The loop itself, a sample for each token. */
#include "base/error.h"
#include "clock.h"
#include "decode_bed.h"
#include "fail.h"

/* What each text begins with. */
#define FIRST 9

static int feed(struct decode_bed *bed)
{
	int32_t pos = DECODE_FROM + bed->fed % (DECODE_TO - DECODE_FROM), token;

	/* A text begins anew; else the chips know what they chose. */
	if (pos == DECODE_FROM)
		token = FIRST;
	else
		token = bed->variant->chooser == CHOOSER_CHIP ? TOKEN_CHOSEN : bed->token;
	bed->fed++;
	return engine_feed(bed->engine, token, pos);
}

/* One token in, one out; with `last` none follows. */
static int step(struct decode_bed *bed, uint64_t left)
{
	unsigned int depth = engine_depth(bed->engine);
	int err = 0;

	while (!err && (uint64_t)(bed->fed - bed->taken) < left &&
	       (unsigned int)(bed->fed - bed->taken) < depth)
		err = feed(bed);
	if (!err)
		err = engine_take(bed->engine, &bed->token);
	bed->taken++;
	return err;
}

static int step_single(struct decode_bed *bed)
{
	const struct sampler best = { .temperature = 0 };
	int32_t pos = DECODE_FROM + bed->fed % (DECODE_TO - DECODE_FROM);
	const float *logits =
		solo_step(bed->solo, pos == DECODE_FROM ? FIRST : bed->token, pos);

	if (!logits)
		return -1;
	bed->token =
		sampler_choose(&best, logits, bed->model.config.vocab_size, pos, NULL);
	bed->fed++;
	return 0;
}

/* Of `count` tokens, the mean of the figure. */
static int measure(struct decode_bed *bed, uint64_t count, uint64_t left, double *ns_out)
{
	enum decode_figure figure = bed->variant->figure;
	struct engine_costs before = { 0 }, after = { 0 };
	int64_t cpu = figure == DECODE_OVERHEAD ? bench_cpu_ns() : 0;
	uint64_t begin;
	int err = 0;

	if (figure == DECODE_WALL)
		engine_costs(bed->engine, &before);
	begin = bench_ticks();
	for (uint64_t i = 0; i < count && !err; i++)
		err = bed->solo ? step_single(bed) : step(bed, left - i);
	if (figure == DECODE_WALL)
		engine_costs(bed->engine, &after);
	if (figure == DECODE_OVERHEAD)
		*ns_out = (double)(bench_cpu_ns() - cpu);
	else if (figure == DECODE_WALL)
		*ns_out = (double)(after.wall_ns - before.wall_ns -
				   (after.chip_ns - before.chip_ns));
	else
		*ns_out = bench_ticks_ns(bench_ticks() - begin);
	*ns_out /= (double)count;
	return err;
}

int decode_round(struct bench_case *c, struct bench_round *round)
{
	uint64_t batch = c->batch > 1 ? c->batch : 1, left = round->ops * batch;
	struct decode_bed *bed = c->data;

	/* The same tokens in every round. */
	bed->fed = bed->taken = 0;
	for (uint64_t i = 0; i < round->ops; i++, left -= batch) {
		double ns;
		int err = measure(bed, batch, left, &ns);

		if (err)
			return rpi_fail(err, "%s", decode_error());
		bench_samples_add(round->samples, ns);
		round->work = round->work * 31 + (uint64_t)bed->token;
	}
	return 0;
}
