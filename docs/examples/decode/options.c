/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <popt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

/* What the command line says in words; numbers are read from them. Not 0, which popt
 * gives to what it sets itself. */
enum text {
	TEXT_MODEL = 1,
	TEXT_TOKENIZER,
	TEXT_PROMPT,
	TEXT_STEPS,
	TEXT_CHIPS,
	TEXT_SEED,
	TEXT_TEMPERATURE,
	TEXT_TOP_P,
	TEXT_WAIT,
	TEXT_WEIGHTS,
	TEXT_SAMPLE,
	TEXT_COUNT,
};

/* As popt fills them, before they are judged. NULL: not given. */
struct raw {
	char *text[TEXT_COUNT];
	int persistent, reset, ids;
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

/* `value_out` keeps what it holds where the option is not given. */
static int read_whole(const char *option, const char *text, int64_t min, int64_t max,
		      int64_t *value_out)
{
	int64_t value;
	char *end;

	if (!text)
		return 0;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || value < min || value > max)
		return decode_fail(-EINVAL,
				   "%s: \"%s\", expected a number from %" PRId64
				   " to %" PRId64,
				   option, text, min, max);
	*value_out = value;
	return 0;
}

/* As a float, which is what is computed with: what is too small for one is 0. */
static int read_real(const char *option, const char *text, float min, float max,
		     const char *expected, float *value_out)
{
	float value;
	char *end;

	if (!text)
		return 0;
	value = strtof(text, &end);
	if (end == text || *end || !(value >= min && value <= max))
		return decode_fail(-EINVAL, "%s: \"%s\", expected %s", option, text,
				   expected);
	*value_out = value;
	return 0;
}

/* Chips meet ten times a token, the caller waits once. Where there is a CPU for each chip
 * but none for the caller, each chip gets its own, one of them beside the caller. */
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
}

static int read_numbers(struct options *o, char *const *text)
{
	int64_t steps = 256, chips = 2, seed = 1;
	struct sampler *sampler = &o->engine.sampler;
	int err = read_whole("--steps", text[TEXT_STEPS], 0, INT32_MAX, &steps);

	sampler->temperature = 0;
	sampler->top_p = 1;
	if (!err)
		err = read_whole("--chips", text[TEXT_CHIPS], 1, INT32_MAX, &chips);
	if (!err)
		err = read_whole("--seed", text[TEXT_SEED], INT64_MIN, INT64_MAX, &seed);
	if (!err)
		err = read_real("--temperature", text[TEXT_TEMPERATURE], 0, FLT_MAX,
				"a finite number, 0 or more", &sampler->temperature);
	if (!err)
		err = read_real("--top-p", text[TEXT_TOP_P], FLT_TRUE_MIN, 1,
				"above 0, at most 1", &sampler->top_p);
	o->steps = (int32_t)steps;
	o->engine.chips = (uint32_t)chips;
	sampler->seed = (uint64_t)seed;
	return err;
}

static int judge(struct options *o, const struct raw *raw)
{
	int wait = RP_WAIT_HYBRID, host = 0, chooser = CHOOSER_HOST;
	char *const *text = raw->text;
	int err = read_numbers(o, text);

	if (!err && text[TEXT_WAIT])
		err = look_up("--wait", text[TEXT_WAIT], waits, &wait);
	if (!err && text[TEXT_WEIGHTS])
		err = look_up("--weights", text[TEXT_WEIGHTS], places, &host);
	if (!err && text[TEXT_SAMPLE])
		err = look_up("--sample", text[TEXT_SAMPLE], choosers, &chooser);
	if (!err && !text[TEXT_MODEL] != !text[TEXT_TOKENIZER])
		err = decode_fail(
			-EINVAL,
			text[TEXT_MODEL]
				? "--model: \"%s\" without --tokenizer, expected "
				  "both, or neither"
				: "--tokenizer: \"%s\" without --model, expected "
				  "both, or neither",
			text[TEXT_MODEL] ? text[TEXT_MODEL] : text[TEXT_TOKENIZER]);
	if (err)
		return err;
	o->ids = raw->ids;
	o->engine.persistent = raw->persistent;
	o->engine.reset = raw->reset;
	o->engine.host_weights = host;
	o->engine.chooser = (enum chooser)chooser;
	o->engine.wait = (enum rp_wait_policy)wait;
	o->engine.worker_wait = (enum rp_wait_policy)wait;
	share_cpus(o);
	return 0;
}

/* Take the text over. */
static char *take(struct raw *raw, enum text which)
{
	char *text = raw->text[which];

	raw->text[which] = NULL;
	return text;
}

int options_parse(struct options *o, int argc, const char **argv)
{
	struct raw raw = { .persistent = 1, .reset = 1 };
	struct poptOption table[] = {
		{ "model", 'm', POPT_ARG_STRING, NULL, TEXT_MODEL,
		  "checkpoint of llama2.c, version 0 (none: one of fixed random weights)",
		  "FILE" },
		{ "tokenizer", 'z', POPT_ARG_STRING, NULL, TEXT_TOKENIZER,
		  "the tokenizer that goes with it", "FILE" },
		{ "prompt", 'i', POPT_ARG_STRING, NULL, TEXT_PROMPT,
		  "what the text begins with (\"" OPTIONS_PROMPT "\")", "TEXT" },
		{ "steps", 'n', POPT_ARG_STRING, NULL, TEXT_STEPS,
		  "positions to feed at most, 0: all that the model has (256)", "N" },
		{ "chips", 'c', POPT_ARG_STRING, NULL, TEXT_CHIPS,
		  "chips to share the work (2)", "N" },
		{ "persistent", 0, POPT_ARG_VAL, &raw.persistent, 1,
		  "keep windows from one dispatch to the next (default)", NULL },
		{ "no-persistent", 0, POPT_ARG_VAL, &raw.persistent, 0,
		  "allocate and release them with each", NULL },
		{ "reset", 0, POPT_ARG_VAL, &raw.reset, 1,
		  "zero them between dispatches (default)", NULL },
		{ "no-reset", 0, POPT_ARG_VAL, &raw.reset, 0,
		  "leave them as they are (one that is allocated anew is zero all the "
		  "same: no effect with --no-persistent)",
		  NULL },
		{ "wait", 'w', POPT_ARG_STRING, NULL, TEXT_WAIT,
		  "how all sides wait (hybrid)", "spin|hybrid|block" },
		{ "weights", 0, POPT_ARG_STRING, NULL, TEXT_WEIGHTS,
		  "on the chips, or passed with each dispatch (resident)",
		  "resident|host" },
		{ "sample", 0, POPT_ARG_STRING, NULL, TEXT_SAMPLE,
		  "who chooses the next token (host)", "host|callback|chip" },
		{ "temperature", 't', POPT_ARG_STRING, NULL, TEXT_TEMPERATURE,
		  "0: the best token each time, whatever --top-p and --seed (0)", "T" },
		{ "top-p", 'p', POPT_ARG_STRING, NULL, TEXT_TOP_P,
		  "only the likeliest that sum up to this (1)", "P" },
		{ "seed", 's', POPT_ARG_STRING, NULL, TEXT_SEED, "of the coins (1)",
		  "N" },
		{ "ids", 0, POPT_ARG_NONE, &raw.ids, 0, "print token ids, no text",
		  NULL },
		POPT_AUTOHELP POPT_TABLEEND
	};
	poptContext context = poptGetContext("decode", argc, argv, table, 0);
	int got, err;

	memset(o, 0, sizeof(*o));
	if (!context)
		return decode_fail(-ENOMEM, "no memory for the command line");
	while ((got = poptGetNextOpt(context)) > 0) {
		/* Of several the last one counts. */
		free(raw.text[got]);
		raw.text[got] = poptGetOptArg(context);
	}
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
	o->model = take(&raw, TEXT_MODEL);
	o->tokenizer = take(&raw, TEXT_TOKENIZER);
	o->prompt_is_ours = !raw.text[TEXT_PROMPT];
	o->prompt = o->prompt_is_ours ? strdup(OPTIONS_PROMPT) : take(&raw, TEXT_PROMPT);
	for (int i = 0; i < TEXT_COUNT; i++)
		free(raw.text[i]);
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
