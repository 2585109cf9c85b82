/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <math.h>
#include <stddef.h>

#define TILE KERNEL_TILE

void kernel_matmul(float *restrict out, const float *restrict x, const float *restrict w,
		   int32_t columns, int32_t rows)
{
	for (int32_t row = 0; row < rows; row += TILE) {
		/* Two sums, so that an addition need not wait for the one before. */
		float even[TILE] = { 0 }, odd[TILE] = { 0 };
		int32_t j = 0;

		for (; j + 1 < columns; j += 2, w += 2 * TILE)
			for (int i = 0; i < TILE; i++) {
				even[i] += x[j] * w[i];
				odd[i] += x[j + 1] * w[TILE + i];
			}
		if (j < columns) {
			for (int i = 0; i < TILE; i++)
				even[i] += x[j] * w[i];
			w += TILE;
		}
		for (int i = 0; i < TILE; i++)
			out[row + i] = even[i] + odd[i];
	}
}

static float sum_lanes(const float lanes[TILE])
{
	float sum = 0;

	for (int i = 0; i < TILE; i++)
		sum += lanes[i];
	return sum;
}

static float dot(const float *restrict a, const float *restrict b, int32_t count)
{
	float lanes[TILE] = { 0 };
	int32_t j = 0;

	for (; j + TILE <= count; j += TILE)
		for (int i = 0; i < TILE; i++)
			lanes[i] += a[j + i] * b[j + i];
	for (int i = 0; j < count; i++, j++)
		lanes[i] += a[j] * b[j];
	return sum_lanes(lanes);
}

void kernel_rmsnorm(float *restrict out, const float *restrict x,
		    const float *restrict weight, int32_t count)
{
	float scale = 1.0f / sqrtf(dot(x, x, count) / (float)count + 1e-5f);

	for (int32_t i = 0; i < count; i++)
		out[i] = weight[i] * (scale * x[i]);
}

void kernel_rope(float *heads, const float *rope, int32_t head_count, int32_t head_size)
{
	int32_t pairs = head_size / 2;

	for (int32_t h = 0; h < head_count; h++, heads += head_size)
		for (int32_t i = 0; i < pairs; i++) {
			float c = rope[i], s = rope[pairs + i];
			float a = heads[2 * i], b = heads[2 * i + 1];

			heads[2 * i] = a * c - b * s;
			heads[2 * i + 1] = a * s + b * c;
		}
}

static void softmax(float *scores, int32_t count)
{
	float best = scores[0], lanes[TILE] = { 0 }, inverse;

	for (int32_t t = 1; t < count; t++)
		best = scores[t] > best ? scores[t] : best;
	for (int32_t t = 0; t < count; t++) {
		scores[t] = expf(scores[t] - best);
		lanes[t % TILE] += scores[t];
	}
	inverse = 1.0f / sum_lanes(lanes);
	for (int32_t t = 0; t < count; t++)
		scores[t] *= inverse;
}

void kernel_attention(float *restrict out, const float *restrict q,
		      const float *restrict keys, const float *restrict values,
		      float *restrict scores, int32_t head_size, int32_t count,
		      int32_t room)
{
	float scale = 1.0f / sqrtf((float)head_size);

	for (int32_t t = 0; t < count; t++)
		scores[t] = 0;
	for (int32_t d = 0; d < head_size; d++) {
		const float *key = keys + (size_t)d * (size_t)room;

		for (int32_t t = 0; t < count; t++)
			scores[t] += q[d] * key[t];
	}
	for (int32_t t = 0; t < count; t++)
		scores[t] *= scale;
	softmax(scores, count);
	for (int32_t d = 0; d < head_size; d++)
		out[d] = dot(scores, values + (size_t)d * (size_t)room, count);
}

void kernel_swiglu(float *restrict gate, const float *restrict up, int32_t count)
{
	for (int32_t i = 0; i < count; i++)
		gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

void kernel_add(float *restrict x, const float *restrict y, int32_t count)
{
	for (int32_t i = 0; i < count; i++)
		x[i] += y[i];
}

#define PAIR(a, b) ((a)[i] + (b)[i])

void kernel_add_tree(float *restrict x, const float *const *t, int32_t term_count,
		     int32_t count)
{
	const float *restrict a = t[0], *restrict b, *restrict c, *restrict d;

	if (term_count == 1) {
		kernel_add(x, a, count);
	} else if (term_count == 2) {
		b = t[1];
		for (int32_t i = 0; i < count; i++)
			x[i] += PAIR(a, b);
	} else if (term_count == 4) {
		b = t[1], c = t[2], d = t[3];
		for (int32_t i = 0; i < count; i++)
			x[i] += PAIR(a, b) + PAIR(c, d);
	} else {
		for (int32_t i = 0; i < count; i++)
			x[i] += (PAIR(t[0], t[1]) + PAIR(t[2], t[3])) +
				(PAIR(t[4], t[5]) + PAIR(t[6], t[7]));
	}
}
