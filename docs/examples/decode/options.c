/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <popt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

/* As popt fills them, before they are judged. */
struct raw {
	int steps, chips, persistent, reset, ids;
	long long seed;
	double temperature, top_p;
	char *model, *tokenizer, *prompt, *wait, *weights, *sample;
};

/* A word and what it stands for. */
struct word {
	const char *text;
	int value;
};

static int look_up(const char *option, const char *text, const struct word *words,
		   int *value_out)
{
	char list[64] = "";

	for (const struct word *w = words; w->text; w++) {
		if (strcmp(w->text, text) == 0) {
			*value_out = w->value;
			return 0;
		}
		if (list[0])
			strncat(list, ", ", sizeof(list) - strlen(list) - 1);
		strncat(list, w->text, sizeof(list) - strlen(list) - 1);
	}
	return decode_fail(-EINVAL, "%s: \"%s\", expected one of %s", option, text, list);
}

static const struct word waits[] = { { "hybrid", RP_WAIT_HYBRID },
				     { "spin", RP_WAIT_SPIN },
				     { "block", RP_WAIT_BLOCK },
				     { NULL, 0 } };
static const struct word places[] = { { "resident", 0 }, { "host", 1 }, { NULL, 0 } };
static const struct word choosers[] = { { "host", CHOOSER_HOST },
					{ "callback", CHOOSER_CALLBACK },
					{ "chip", CHOOSER_CHIP },
					{ NULL, 0 } };

static int judge_numbers(const struct raw *raw)
{
	if (raw->steps < 0)
		return decode_fail(-EINVAL, "--steps: %d, expected 0 or more",
				   raw->steps);
	if (raw->chips < 1)
		return decode_fail(-EINVAL, "--chips: %d, expected 1 or more",
				   raw->chips);
	if (!(raw->temperature >= 0) || !isfinite(raw->temperature))
		return decode_fail(-EINVAL, "--temperature: %g, expected 0 or more",
				   raw->temperature);
	if (!(raw->top_p > 0 && raw->top_p <= 1))
		return decode_fail(-EINVAL, "--top-p: %g, expected above 0, at most 1",
				   raw->top_p);
	return 0;
}

/*
 * Chips meet ten times a token, the caller waits once. Where there is a CPU for each chip
 * but none for the caller, each gets its own and spins as if the caller were not there,
 * which sleeps.
 */
static void share_cpus(struct options *o)
{
	struct engine_options *engine = &o->engine;
	uint32_t found = 0;
	cpu_set_t set;

	if (engine->wait != RP_WAIT_HYBRID || engine->chips < 2 ||
	    engine->chips > CHIPS_MAX || sched_getaffinity(0, sizeof(set), &set) ||
	    engine->chips != (uint32_t)CPU_COUNT(&set))
		return;
	for (int cpu = 0; found < engine->chips; cpu++)
		if (CPU_ISSET(cpu, &set))
			o->cpus[found++] = cpu;
	engine->chip_cpus = o->cpus;
	engine->wait = RP_WAIT_BLOCK;
	engine->spin_us_min = 20;
	engine->spin_us_max = 200;
}

static int judge(struct options *o, const struct raw *raw)
{
	int wait = RP_WAIT_HYBRID, host = 0, chooser = CHOOSER_HOST;
	int err = judge_numbers(raw);

	if (!err && raw->wait)
		err = look_up("--wait", raw->wait, waits, &wait);
	if (!err && raw->weights)
		err = look_up("--weights", raw->weights, places, &host);
	if (!err && raw->sample)
		err = look_up("--sample", raw->sample, choosers, &chooser);
	if (!err && raw->model && !raw->tokenizer)
		err = decode_fail(-EINVAL,
				  "--model: %s without --tokenizer, expected both, or "
				  "neither",
				  raw->model);
	if (!err && raw->tokenizer && !raw->model)
		err = decode_fail(-EINVAL,
				  "--tokenizer: %s without --model, expected both, or "
				  "neither",
				  raw->tokenizer);
	if (err)
		return err;
	o->steps = raw->steps;
	o->ids = raw->ids;
	o->engine = (struct engine_options){
		.chips = (uint32_t)raw->chips,
		.persistent = raw->persistent,
		.reset = raw->reset,
		.host_weights = host,
		.chooser = (enum chooser)chooser,
		.sampler = { (float)raw->temperature, (float)raw->top_p,
			     (uint64_t)raw->seed },
		.wait = (enum rp_wait_policy)wait,
		.worker_wait = (enum rp_wait_policy)wait,
	};
	share_cpus(o);
	return 0;
}

int options_parse(struct options *o, int argc, const char **argv)
{
	struct raw raw = { .steps = 256,
			   .chips = 2,
			   .persistent = 1,
			   .reset = 1,
			   .seed = 1,
			   .top_p = 1 };
	struct poptOption table[] = {
		{ "model", 'm', POPT_ARG_STRING, &raw.model, 0,
		  "checkpoint of llama2.c, version 0 (none: one of fixed random weights)",
		  "FILE" },
		{ "tokenizer", 'z', POPT_ARG_STRING, &raw.tokenizer, 0,
		  "the tokenizer that goes with it", "FILE" },
		{ "prompt", 'i', POPT_ARG_STRING, &raw.prompt, 0,
		  "what the text begins with (\"Once upon a time\")", "TEXT" },
		{ "steps", 'n', POPT_ARG_INT, &raw.steps, 0,
		  "positions to feed at most, 0: all that the model has (256)", "N" },
		{ "chips", 'c', POPT_ARG_INT, &raw.chips, 0,
		  "chips to share the work (2)", "N" },
		{ "persistent", 0, POPT_ARG_VAL, &raw.persistent, 1,
		  "keep windows from one dispatch to the next (default)", NULL },
		{ "no-persistent", 0, POPT_ARG_VAL, &raw.persistent, 0,
		  "allocate and release them with each", NULL },
		{ "reset", 0, POPT_ARG_VAL, &raw.reset, 1,
		  "zero them between dispatches (default)", NULL },
		{ "no-reset", 0, POPT_ARG_VAL, &raw.reset, 0, "leave them as they are",
		  NULL },
		{ "wait", 'w', POPT_ARG_STRING, &raw.wait, 0,
		  "how all sides wait (hybrid)", "spin|hybrid|block" },
		{ "weights", 0, POPT_ARG_STRING, &raw.weights, 0,
		  "on the chips, or passed with each dispatch (resident)",
		  "resident|host" },
		{ "sample", 0, POPT_ARG_STRING, &raw.sample, 0,
		  "who chooses the next token (host)", "host|callback|chip" },
		{ "temperature", 't', POPT_ARG_DOUBLE, &raw.temperature, 0,
		  "0: the best token each time (0)", "T" },
		{ "top-p", 'p', POPT_ARG_DOUBLE, &raw.top_p, 0,
		  "only the likeliest that sum up to this (1)", "P" },
		{ "seed", 's', POPT_ARG_LONGLONG, &raw.seed, 0, "of the coins (1)", "N" },
		{ "ids", 0, POPT_ARG_NONE, &raw.ids, 0, "print token ids, no text",
		  NULL },
		POPT_AUTOHELP POPT_TABLEEND
	};
	poptContext context = poptGetContext("decode", argc, argv, table, 0);
	int got, err;

	memset(o, 0, sizeof(*o));
	if (!context)
		return decode_fail(-ENOMEM, "no memory for the command line");
	got = poptGetNextOpt(context);
	if (got < -1)
		err = decode_fail(-EINVAL, "%s: %s",
				  poptBadOption(context, POPT_BADOPTION_NOALIAS),
				  poptStrerror(got));
	else if (poptPeekArg(context))
		err = decode_fail(-EINVAL, "\"%s\", expected options only",
				  poptPeekArg(context));
	else
		err = judge(o, &raw);
	poptFreeContext(context);
	o->model = raw.model;
	o->tokenizer = raw.tokenizer;
	o->prompt = raw.prompt ? raw.prompt : strdup("Once upon a time");
	free(raw.wait);
	free(raw.weights);
	free(raw.sample);
	if (!err && !o->prompt)
		err = decode_fail(-ENOMEM, "no memory for the command line");
	if (err)
		options_free(o);
	return err;
}

void options_free(struct options *o)
{
	free(o->model);
	free(o->tokenizer);
	free(o->prompt);
	memset(o, 0, sizeof(*o));
}
