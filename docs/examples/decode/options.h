/* SPDX-License-Identifier: MIT */
#ifndef DECODE_OPTIONS_H
#define DECODE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

/* The prompt of a user who gives none. */
#define OPTIONS_PROMPT "Once upon a time"

struct options {
	char *model, *tokenizer; /* NULL: one that is made up */
	char *prompt;
	bool prompt_is_ours; /* the user gave none */
	int32_t steps;
	bool ids;	     /* print token ids, no text */
	int cpus[CHIPS_MAX]; /* that engine.chip_cpus names, if it names any */
	struct engine_options engine;
};

/* -EINVAL with a line. Prints help and exits where that is asked for. */
int options_parse(struct options *options, int argc, const char **argv);
void options_free(struct options *options);

#endif
