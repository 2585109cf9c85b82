/* SPDX-License-Identifier: MIT */
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

/* 0 <= coin < 1. */
static float coin_of(uint64_t seed, int32_t position)
{
	uint64_t z = seed + (uint64_t)(position + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	return (float)(z >> 40) * 0x1p-24f;
}

static int32_t best_of(const float *logits, int32_t count)
{
	int32_t best = 0;

	for (int32_t i = 1; i < count; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

static int likelier(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->probability != y->probability)
		return x->probability > y->probability ? -1 : 1;
	return x->token < y->token ? -1 : x->token > y->token;
}

static void softmax(const struct sampler *s, const float *logits, int32_t count,
		    struct candidate *room)
{
	float best = logits[best_of(logits, count)], sum = 0;

	for (int32_t i = 0; i < count; i++) {
		room[i].probability = expf((logits[i] - best) / s->temperature);
		room[i].token = i;
		sum += room[i].probability;
	}
	for (int32_t i = 0; i < count; i++)
		room[i].probability /= sum;
}

/* Keep the likeliest that sum up to top_p; returns how many, and their sum. */
static int32_t cut(float top_p, int32_t count, struct candidate *room, float *sum_out)
{
	float least = count > 1 ? (1 - top_p) / (float)(count - 1) : 0, sum = 0;
	int32_t kept = 0;

	/* What is below this can't be among them: there is less to sort. */
	for (int32_t i = 0; i < count; i++)
		if (room[i].probability >= least)
			room[kept++] = room[i];
	if (!kept) /* a small top_p of many that are alike */
		kept = count;
	qsort(room, (size_t)kept, sizeof(*room), likelier);
	for (int32_t i = 0; i < kept; i++) {
		sum += room[i].probability;
		if (sum > top_p) {
			kept = i + 1;
			break;
		}
	}
	*sum_out = sum;
	return kept;
}

int32_t sampler_choose(const struct sampler *s, const float *logits, int32_t count,
		       int32_t position, struct candidate *room)
{
	float sum = 1, at = 0, coin;

	if (!(s->temperature > 0))
		return best_of(logits, count);
	softmax(s, logits, count, room);
	if (s->top_p > 0 && s->top_p < 1)
		count = cut(s->top_p, count, room, &sum);
	coin = coin_of(s->seed, position) * sum;
	for (int32_t i = 0; i < count; i++) {
		at += room[i].probability;
		if (coin < at)
			return room[i].token;
	}
	return room[count - 1].token;
}
