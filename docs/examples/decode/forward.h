/* SPDX-License-Identifier: MIT */
/* The forward pass of one chip, or of a process that has the whole model. */
#ifndef DECODE_FORWARD_H
#define DECODE_FORWARD_H

#include <stdint.h>

#include "shard.h"

/* How sums are made: each chip leaves its own, and gets those of all. */
struct exchange {
	/*
	 * Room for this chip's parts of sum `k` of the run: own_parts x rows x dim_rows
	 * floats. Their sum will stand in the first.
	 */
	float *(*own)(struct exchange *exchange, uint32_t k);
	/* The sum of each chip, by rank. 0 or negative errno. */
	int (*meet)(struct exchange *exchange, uint32_t k, const float **sums_out);
};

struct forward {
	struct shard_head head;
	struct shard_layout layout;
	const float *weights;
	float *state;
	struct exchange *exchange;
};

/* Sums of one run. */
static inline uint32_t forward_sums(const struct model_config *config)
{
	return 2 * (uint32_t)config->layer_count;
}

void forward_init(struct forward *forward, const float *weights, float *state,
		  struct exchange *exchange);

/*
 * Feed `count` tokens, at most CHUNK_MAX, at positions from `pos` on. 0, or what an
 * exchange returned; -ERANGE: a token or a position that the model does not have.
 */
int forward_feed(struct forward *forward, const int32_t *tokens, int32_t count,
		 int32_t pos);

/* This chip's logits after the last token that was fed; `fed` is how many those were. */
const float *forward_logits(struct forward *forward, int32_t fed);

#endif
