/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic. Sums run over lanes that the compiler makes vectors of, each in one
 * fixed order: no result depends on the width of a vector.
 */
#ifndef DECODE_KERNEL_H
#define DECODE_KERNEL_H

#include <stdint.h>

#define KERNEL_TILE 16

/* out = w x; w in tiles (see shard.h), `rows` a multiple of KERNEL_TILE. */
void kernel_matmul(float *out, const float *x, const float *w, int32_t columns,
		   int32_t rows);

/* out = x * weight / rms(x) */
void kernel_rmsnorm(float *out, const float *x, const float *weight, int32_t count);

/* Turn the pairs of each head; `rope` is that of the position. */
void kernel_rope(float *heads, const float *rope, int32_t head_count, int32_t head_size);

/*
 * One head's attention over `count` positions. Of keys and values each component lies
 * together, `room` positions apart from the next. scores: room for `count`, padded.
 */
void kernel_attention(float *out, const float *q, const float *keys, const float *values,
		      float *scores, int32_t head_size, int32_t count, int32_t room);

/* x += y */
void kernel_add(float *x, const float *y, int32_t count);

/* x += the sum of `terms`, 1, 2, 4 or 8 of them, added up in pairs, pairs of pairs. */
void kernel_add_tree(float *x, const float *const *terms, int32_t term_count,
		     int32_t count);

/* gate = silu(gate) * up */
void kernel_swiglu(float *gate, const float *up, int32_t count);

#endif
