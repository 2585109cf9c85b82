/* SPDX-License-Identifier: MIT */
#include "forward.h"

#include <errno.h>
#include <string.h>

#include "kernel.h"

void forward_init(struct forward *f, const float *weights, float *state,
		  struct exchange *exchange)
{
	memcpy(&f->head, weights, sizeof(f->head));
	shard_layout_init(&f->layout, &f->head);
	f->weights = weights;
	f->state = state;
	f->exchange = exchange;
}

static float *x_of(const struct forward *f, int32_t t)
{
	return f->state + f->layout.x + (size_t)t * (size_t)f->layout.dim_rows;
}

/* Cache lines of one layer: component d of kv row r at position t. */
static void remember(float *cache, const float *row, int32_t rows, int32_t room,
		     int32_t pos)
{
	for (int32_t r = 0; r < rows; r++)
		cache[(size_t)r * (size_t)room + (size_t)pos] = row[r];
}

static void attend(struct forward *f, int32_t l, int32_t pos, const float *qkv)
{
	const struct shard_layout *o = &f->layout;
	float *keys = f->state + o->keys + (size_t)l * o->layer_cache;
	float *values = f->state + o->values + (size_t)l * o->layer_cache;
	int32_t share = o->heads / o->kv_heads;

	remember(keys, qkv + o->q_rows, o->kv_rows, o->seq_room, pos);
	remember(values, qkv + o->q_rows + o->kv_rows, o->kv_rows, o->seq_room, pos);
	for (int32_t h = 0; h < o->heads; h++) {
		size_t head =
			(size_t)(h / share) * (size_t)o->head_size * (size_t)o->seq_room;
		size_t at = (size_t)h * (size_t)o->head_size;

		kernel_attention(f->state + o->heads_out + at, qkv + at, keys + head,
				 values + head, f->state + o->scores, o->head_size,
				 pos + 1, o->seq_room);
	}
}

/* This chip's parts of w x for token t of `count`. */
static void make_parts(const struct forward *f, float *own, const float *x,
		       const float *w, int32_t columns, int32_t t, int32_t count)
{
	const struct shard_layout *o = &f->layout;
	size_t row = (size_t)o->dim_rows;

	for (int32_t p = 0; p < o->own_parts; p++)
		kernel_matmul(own + ((size_t)p * (size_t)count + (size_t)t) * row,
			      x + (size_t)p * (size_t)columns,
			      w + (size_t)p * row * (size_t)columns, columns,
			      o->dim_rows);
}

/* Add this chip's parts up in its own room, then those of all chips to the residual. */
static int add_up(struct forward *f, float *own, uint32_t k, int32_t count)
{
	int32_t floats = count * f->layout.dim_rows;
	const float *sums[PARTS_MAX];
	int err;

	for (int32_t step = 1; step < f->layout.own_parts; step *= 2)
		for (int32_t p = 0; p < f->layout.own_parts; p += 2 * step)
			kernel_add(own + (size_t)p * (size_t)floats,
				   own + (size_t)(p + step) * (size_t)floats, floats);
	err = f->exchange->meet(f->exchange, k, sums);
	if (!err)
		kernel_add_tree(x_of(f, 0), sums, f->head.chips, floats);
	return err;
}

static int attention(struct forward *f, int32_t l, int32_t count, int32_t pos)
{
	const struct shard_layout *o = &f->layout;
	const float *layer = f->weights + o->layers + (size_t)l * o->layer_floats;
	const float *norm =
		f->weights + o->rms_att + (size_t)l * (size_t)f->head.config.dim;
	float *qkv = f->state + o->act,
	      *own = f->exchange->own(f->exchange, 2 * (uint32_t)l);
	int32_t dim = f->head.config.dim;

	for (int32_t t = 0; t < count; t++) {
		const float *rope =
			f->weights + o->rope + (size_t)(pos + t) * (size_t)o->head_size;

		kernel_rmsnorm(f->state + o->norm, x_of(f, t), norm, dim);
		kernel_matmul(qkv, f->state + o->norm, layer + o->qkv, dim, o->qkv_rows);
		/* The keys' heads lie behind the queries'. */
		kernel_rope(qkv, rope, o->heads + o->kv_heads, o->head_size);
		attend(f, l, pos + t, qkv);
		make_parts(f, own, f->state + o->heads_out, layer + o->wo, o->att_part, t,
			   count);
	}
	return add_up(f, own, 2 * (uint32_t)l, count);
}

static int feed_forward(struct forward *f, int32_t l, int32_t count)
{
	const struct shard_layout *o = &f->layout;
	const float *layer = f->weights + o->layers + (size_t)l * o->layer_floats;
	const float *norm =
		f->weights + o->rms_ffn + (size_t)l * (size_t)f->head.config.dim;
	float *act = f->state + o->act;
	float *own = f->exchange->own(f->exchange, 2 * (uint32_t)l + 1);
	int32_t dim = f->head.config.dim;

	for (int32_t t = 0; t < count; t++) {
		kernel_rmsnorm(f->state + o->norm, x_of(f, t), norm, dim);
		kernel_matmul(act, f->state + o->norm, layer + o->w13, dim,
			      o->hidden_rows);
		kernel_swiglu(act, act + o->hidden, o->hidden);
		make_parts(f, own, act, layer + o->w2, o->ffn_part, t, count);
	}
	return add_up(f, own, 2 * (uint32_t)l + 1, count);
}

int forward_feed(struct forward *f, const int32_t *tokens, int32_t count, int32_t pos)
{
	const struct model_config *c = &f->head.config;
	const float *embedding = f->weights + f->layout.embedding;
	int err = 0;

	if (count < 1 || count > CHUNK_MAX || pos < 0 || pos > c->seq_len - count)
		return -ERANGE;
	for (int32_t t = 0; t < count; t++) {
		if (tokens[t] < 0 || tokens[t] >= c->vocab_size)
			return -ERANGE;
		memcpy(x_of(f, t), embedding + (size_t)tokens[t] * (size_t)c->dim,
		       (size_t)c->dim * sizeof(float));
	}
	for (int32_t l = 0; l < c->layer_count && !err; l++) {
		err = attention(f, l, count, pos);
		if (!err)
			err = feed_forward(f, l, count);
	}
	return err;
}

const float *forward_logits(struct forward *f, int32_t fed)
{
	const struct shard_layout *o = &f->layout;
	float *norm = f->state + o->norm, *logits = f->state + o->logits;

	kernel_rmsnorm(norm, x_of(f, fed - 1), f->weights + o->rms_final,
		       f->head.config.dim);
	kernel_matmul(logits, norm, f->weights + o->classifier, f->head.config.dim,
		      o->vocab_rows);
	return logits;
}
