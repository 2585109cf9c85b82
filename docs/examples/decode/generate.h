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

/*
 * Feed the prompt, then what comes of it, until `steps` positions have been fed (0, or
 * more than the model has: all that it has) or the model ends the text by BOS.
 *
 * prompt      at least one token.
 */
int generate(struct engine *engine, const struct model_config *config,
	     const int32_t *prompt, size_t prompt_count, int32_t steps, generate_fn each,
	     void *user, struct generate_result *result_out);

#endif
