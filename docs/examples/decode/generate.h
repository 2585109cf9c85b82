/* SPDX-License-Identifier: MIT */
/* The decode loop: a prompt in, tokens out. */
#ifndef DECODE_GENERATE_H
#define DECODE_GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "tokenizer.h"

/* Called for each token, in order, in this thread. */
typedef void (*generate_fn)(int32_t before, int32_t token, void *user);

struct generate_result {
	int32_t count;	 /* tokens that were generated, a last BOS included */
	int64_t loop_ns; /* the whole loop, what `each` did included */
};

/* How many positions are fed at most: `steps`, but all that the model has for 0 or more.
 */
int32_t generate_limit(const struct model_config *config, int32_t steps);

/*
 * Feed the prompt, then what comes of it, until generate_limit() positions have been fed
 * or the model ends the text by BOS.
 *
 * prompt      at least one token.
 */
int generate(struct engine *engine, const struct model_config *config,
	     const int32_t *prompt, size_t prompt_count, int32_t steps, generate_fn each,
	     void *user, struct generate_result *result_out);

#endif
