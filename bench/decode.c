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
#define YIELD	     "limits.yield"

/* A CPU clock is coarse; and with two tokens in flight one step may wait for both and the
 * next for none. */
#define BATCH 16

#define CASE(text, how, what, n, who, policy)                                         \
	{                                                                             \
		.name = "decode." text, .way = (how), .figure = (what), .chips = (n), \
		.chooser = CHOOSER_##who, .wait = RP_WAIT_##policy                    \
	}
#define TOKENS(text, how, n, who) CASE(text, how, DECODE_TIME, n, who, HYBRID)
/* Asleep while it waits, so that its CPU time is what it spends on calls. */
#define OVERHEAD(text, how) CASE(text ".overhead", how, DECODE_OVERHEAD, 1, CHIP, BLOCK)
#define WALL(text, how)	    CASE(text ".wall", how, DECODE_WALL, 1, CHIP, SPIN)

/* In the order of their turns: the limit next to what is held against it. Where chips
 * choose the caller has nothing to do but to call, with two tokens in flight. */
static const struct decode_variant variants[] = {
	{ .name = SINGLE, .way = DECODE_SINGLE, .figure = DECODE_TIME },
	TOKENS("persistent.reset.tokens", DECODE_RESET, 2, CHIP),
	TOKENS("persistent.keep.tokens", DECODE_KEEP, 2, CHIP),
	TOKENS("prepared.tokens", DECODE_PREPARED, 2, CHIP),
	TOKENS("oneshot.tokens", DECODE_ONESHOT, 2, CHIP),
	TOKENS("persistent.reset.tokens.1chip", DECODE_RESET, 1, CHIP),
	TOKENS("persistent.reset.tokens.host", DECODE_RESET, 2, HOST),
	TOKENS("persistent.reset.tokens.host.1chip", DECODE_RESET, 1, HOST),
	TOKENS("persistent.reset.tokens.callback", DECODE_RESET, 2, CALLBACK),
	OVERHEAD("persistent.reset", DECODE_RESET),
	OVERHEAD("persistent.keep", DECODE_KEEP),
	OVERHEAD("prepared", DECODE_PREPARED),
	OVERHEAD("oneshot", DECODE_ONESHOT),
	/* Its CPU goes to the chips while it waits, as far as there are too few. */
	CASE("persistent.reset.overhead.2chips", DECODE_RESET, DECODE_OVERHEAD, 2, CHIP,
	     HYBRID),
	WALL("persistent.reset", DECODE_RESET),
	WALL("persistent.keep", DECODE_KEEP),
	WALL("prepared", DECODE_PREPARED),
	WALL("oneshot", DECODE_ONESHOT),
	CASE("persistent.reset.wall.host", DECODE_RESET, DECODE_WALL, 1, HOST, SPIN),
	CASE("persistent.reset.wall.2chips", DECODE_RESET, DECODE_WALL, 2, CHIP, HYBRID),
};

/* Who waits for a token asleep spends at least a sleep on it; and who has to have a CPU
 * that a chip is on gets it and gives it back. */
static const char *limit_of(const struct decode_variant *v)
{
	if (v->figure == DECODE_TIME)
		return v->chips ? SINGLE : NULL;
	if (v->chips > 1)
		return YIELD;
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
	if (!err)
		err = bench_limit_plan(plan, YIELD);
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
