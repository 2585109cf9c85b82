/* SPDX-License-Identifier: MIT */
/*
 * rpbench decode: the loop of docs/examples/decode, run four ways, beside the same
 * forward pass in one thread of one process.
 */
#include <popt.h>

#include "base/error.h"
#include "command.h"
#include "decode_bed.h"
#include "limit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define SINGLE	     "limits.forward.tokens"
#define SLEEP	     "limits.sleep"

/* A CPU clock is coarse; and with two tokens in flight one step may wait for both and the
 * next for none. */
#define BATCH 16

/* The caller has nothing to do but to call: the chips choose. */
#define TOKENS(text, how, n)                                                 \
	{                                                                    \
		.name = "decode." text, .way = (how), .figure = DECODE_TIME, \
		.chips = (n), .chooser = CHOOSER_CHIP                        \
	}
/* Asleep while it waits, so that its CPU time is what it spends on calls. */
#define OVERHEAD(text, how)                                                     \
	{                                                                       \
		.name = "decode." text ".overhead", .way = (how),               \
		.figure = DECODE_OVERHEAD, .chips = 1, .chooser = CHOOSER_CHIP, \
		.wait = RP_WAIT_BLOCK                                           \
	}
#define WALL(text, how, n, policy)                                           \
	{                                                                    \
		.name = "decode." text, .way = (how), .figure = DECODE_WALL, \
		.chips = (n), .chooser = CHOOSER_CHIP, .wait = (policy)      \
	}

/* In the order of their turns: the limit next to what is held against it. */
static const struct decode_variant variants[] = {
	{ .name = SINGLE, .way = DECODE_SINGLE, .figure = DECODE_TIME },
	TOKENS("persistent.reset.tokens", DECODE_RESET, 2),
	TOKENS("persistent.keep.tokens", DECODE_KEEP, 2),
	TOKENS("prepared.tokens", DECODE_PREPARED, 2),
	TOKENS("oneshot.tokens", DECODE_ONESHOT, 2),
	TOKENS("persistent.reset.tokens.1chip", DECODE_RESET, 1),
	{ .name = "decode.persistent.reset.tokens.host",
	  .way = DECODE_RESET,
	  .chips = 1,
	  .chooser = CHOOSER_HOST },
	OVERHEAD("persistent.reset", DECODE_RESET),
	OVERHEAD("persistent.keep", DECODE_KEEP),
	OVERHEAD("prepared", DECODE_PREPARED),
	OVERHEAD("oneshot", DECODE_ONESHOT),
	WALL("persistent.reset.wall", DECODE_RESET, 1, RP_WAIT_SPIN),
	WALL("persistent.keep.wall", DECODE_KEEP, 1, RP_WAIT_SPIN),
	WALL("prepared.wall", DECODE_PREPARED, 1, RP_WAIT_SPIN),
	WALL("oneshot.wall", DECODE_ONESHOT, 1, RP_WAIT_SPIN),
	WALL("persistent.reset.wall.2chips", DECODE_RESET, 2, RP_WAIT_HYBRID),
};

/* Who waits for a token asleep spends at least a sleep on it. */
static const char *limit_of(const struct decode_variant *v)
{
	if (v->figure == DECODE_TIME)
		return v->chips ? SINGLE : NULL;
	return v->figure == DECODE_OVERHEAD && v->way != DECODE_ONESHOT ? SLEEP : NULL;
}

/* Of one chip a token's time is not mixed with the one before, of one shot neither. */
static bool is_plain(const struct decode_variant *v)
{
	return (v->figure == DECODE_WALL && v->chips == 1) || v->way == DECODE_ONESHOT;
}

static int decode_plan(struct bench_plan *plan, const struct bench_options *options)
{
	int err = bench_limit_plan(plan, SLEEP);

	(void)options;
	for (size_t i = 0; !err && i < COUNT(variants); i++) {
		const struct decode_variant *v = &variants[i];
		bool rate = v->figure == DECODE_TIME;
		struct bench_case c = { .unit = rate ? "1/s" : "ns",
					.per_sample = 1,
					.limits = limit_of(v),
					.batch = is_plain(v) ? 1 : BATCH,
					.arg = v,
					.setup = decode_bed_setup,
					.round = decode_round,
					.teardown = decode_bed_teardown,
					.enter = decode_bed_enter,
					.leave = decode_bed_leave };

		rpi_format(c.name, sizeof(c.name), "%s", v->name);
		err = bench_plan_add(plan, &c);
	}
	return err;
}

static const struct poptOption own_options[] = {
	{ "model", 'm', POPT_ARG_STRING, &decode_model_path, 0,
	  "checkpoint of llama2.c, version 0 (fixed random weights, the shape of "
	  "stories260K)",
	  "FILE" },
	POPT_TABLEEND
};

const struct bench_command bench_decode_command = {
	.name = "decode",
	.summary = "the decode loop of docs/examples/decode, four ways",
	.options = own_options,
	.plan = decode_plan,
};
