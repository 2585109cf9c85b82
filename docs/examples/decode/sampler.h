/* SPDX-License-Identifier: MIT */
/* Choosing a token from logits. Without state: the coin of a position follows from the
 * seed, so that the host, a callback and every chip choose the same one. */
#ifndef DECODE_SAMPLER_H
#define DECODE_SAMPLER_H

#include <stdint.h>

struct sampler {
	float temperature; /* 0: the best one */
	float top_p;	   /* below 1: only the likeliest that sum up to this */
	uint64_t seed;
};

struct candidate {
	float probability;
	int32_t token;
};

/* `room` has `count` entries; it is not touched when temperature is 0. */
int32_t sampler_choose(const struct sampler *sampler, const float *logits, int32_t count,
		       int32_t position, struct candidate *room);

#endif
