/* SPDX-License-Identifier: MIT */
#include "shard.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "kernel.h"

static int32_t gcd(int32_t a, int32_t b)
{
	while (b) {
		int32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

int32_t shard_parts(const struct model_config *c)
{
	int32_t all = gcd(c->kv_head_count, c->hidden_dim), parts = 1;

	while (parts < PARTS_MAX && all % (2 * parts) == 0)
		parts *= 2;
	return parts;
}

int shard_check(const struct model_config *c, uint32_t chips)
{
	int32_t parts = shard_parts(c);
	char list[64] = "";
	size_t used = 0;

	if (chips && chips <= (uint32_t)parts && (uint32_t)parts % chips == 0)
		return 0;
	for (int32_t n = 1; n <= parts; n++)
		if (parts % n == 0)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d",
						 used ? ", " : "", n);
	return decode_fail(
		-EINVAL,
		"%u chips for %d heads, %d of keys, and %d hidden rows, expected "
		"one of %s",
		chips, c->head_count, c->kv_head_count, c->hidden_dim, list);
}

static int32_t tiles(int32_t rows)
{
	return (rows + KERNEL_TILE - 1) / KERNEL_TILE * KERNEL_TILE;
}

static size_t area(int32_t a, int32_t b)
{
	return (size_t)a * (size_t)b;
}

static size_t place(size_t *end, size_t floats)
{
	size_t at = *end;

	/* Each on a cache line of its own. */
	*end += (floats + KERNEL_TILE - 1) / KERNEL_TILE * KERNEL_TILE;
	return at;
}

static void lay_out_weights(struct shard_layout *o, const struct shard_head *head)
{
	const struct model_config *c = &head->config;
	size_t end = 0, layer = 0;

	place(&end, sizeof(struct shard_head) / sizeof(float));
	o->rms_att = place(&end, area(c->layer_count, c->dim));
	o->rms_ffn = place(&end, area(c->layer_count, c->dim));
	o->rms_final = place(&end, (size_t)c->dim);
	o->rope = place(&end, area(c->seq_len, o->head_size));
	o->qkv = place(&layer, area(o->qkv_rows, c->dim));
	o->wo = place(&layer, (size_t)o->own_parts * area(o->dim_rows, o->att_part));
	o->w13 = place(&layer, area(o->hidden_rows, c->dim));
	o->w2 = place(&layer, (size_t)o->own_parts * area(o->dim_rows, o->ffn_part));
	o->layer_floats = layer;
	o->layers = place(&end, (size_t)c->layer_count * layer);
	o->classifier = place(&end, area(o->vocab_rows, c->dim));
	o->embedding = place(&end, area(c->vocab_size, c->dim));
	o->weight_floats = end;
}

static void lay_out_state(struct shard_layout *o, const struct shard_head *head)
{
	const struct model_config *c = &head->config;
	size_t end = 0;

	o->seq_room = tiles(c->seq_len);
	o->layer_cache = area(o->kv_rows, o->seq_room);
	o->keys = place(&end, (size_t)c->layer_count * o->layer_cache);
	o->values = place(&end, (size_t)c->layer_count * o->layer_cache);
	o->x = place(&end, area(CHUNK_MAX, o->dim_rows));
	o->norm = place(&end, (size_t)o->dim_rows);
	o->act = place(&end, (size_t)(o->qkv_rows > o->hidden_rows ? o->qkv_rows
								   : o->hidden_rows));
	o->scores = place(&end, (size_t)o->seq_room);
	o->heads_out = place(&end, (size_t)o->q_rows);
	o->logits = place(&end, (size_t)o->vocab_rows);
	o->all_logits = place(&end, (size_t)c->vocab_size);
	o->candidates = place(&end, 2 * (size_t)c->vocab_size);
	o->chosen = place(&end, 1);
	o->state_floats = end;
}

void shard_vocab(const struct shard_head *head, int32_t *from_out, int32_t *count_out)
{
	int64_t vocab = head->config.vocab_size;

	*from_out = (int32_t)(vocab * head->rank / head->chips);
	*count_out = (int32_t)(vocab * (head->rank + 1) / head->chips) - *from_out;
}

void shard_layout_init(struct shard_layout *o, const struct shard_head *head)
{
	const struct model_config *c = &head->config;
	int64_t vocab = c->vocab_size;

	o->head_size = model_head_size(c);
	o->heads = c->head_count / head->chips;
	o->kv_heads = c->kv_head_count / head->chips;
	o->q_rows = o->heads * o->head_size;
	o->kv_rows = o->kv_heads * o->head_size;
	o->qkv_rows = tiles(o->q_rows + 2 * o->kv_rows);
	o->hidden = c->hidden_dim / head->chips;
	o->hidden_rows = tiles(2 * o->hidden);
	o->own_parts = head->parts / head->chips;
	o->att_part = c->dim / head->parts;
	o->ffn_part = c->hidden_dim / head->parts;
	o->dim_rows = tiles(c->dim);
	shard_vocab(head, &o->vocab_from, &o->vocab);
	/* The same for every rank: shards are of one size. */
	o->vocab_rows = tiles((int32_t)((vocab + head->chips - 1) / head->chips));
	lay_out_weights(o, head);
	lay_out_state(o, head);
}

/* A part of a row-major matrix: `rows` rows, `columns` of each. */
struct source {
	const char *name;
	const float *first;
	size_t stride;
	int32_t rows, columns;
};

/* Pack it as the rows from `row` on of a matrix of tiles. */
static int pack(float *out, int32_t row, const struct source *from)
{
	for (int32_t i = 0; i < from->rows; i++) {
		const float *source = from->first + (size_t)i * from->stride;
		float *tile =
			out + area((row + i) / KERNEL_TILE, from->columns) * KERNEL_TILE;
		int32_t lane = (row + i) % KERNEL_TILE;

		for (int32_t j = 0; j < from->columns; j++) {
			if (!isfinite(source[j]))
				return decode_fail(
					-EINVAL,
					"%s: %f in row %d, column %d, expected "
					"a number",
					from->name, (double)source[j], i, j);
			tile[area(j, KERNEL_TILE) + (size_t)lane] = source[j];
		}
	}
	return 0;
}

static int pack_attention(const struct checkpoint *m, const struct shard_head *head,
			  const struct shard_layout *o, int32_t l, float *layer)
{
	int32_t dim = m->config.dim, kv_dim = model_kv_dim(&m->config);
	size_t width = (size_t)dim;
	const struct source rows[] = {
		{ "wq", m->wq + (area(l, dim) + area(head->rank, o->q_rows)) * width,
		  width, o->q_rows, dim },
		{ "wk", m->wk + (area(l, kv_dim) + area(head->rank, o->kv_rows)) * width,
		  width, o->kv_rows, dim },
		{ "wv", m->wv + (area(l, kv_dim) + area(head->rank, o->kv_rows)) * width,
		  width, o->kv_rows, dim },
	};
	int32_t row = 0;
	int err = 0;

	for (int i = 0; i < 3 && !err; i++) {
		err = pack(layer + o->qkv, row, &rows[i]);
		row += rows[i].rows;
	}
	for (int32_t p = 0; p < o->own_parts && !err; p++) {
		size_t column = area(head->rank * o->own_parts + p, o->att_part);
		const struct source part = { "wo", m->wo + area(l, dim) * width + column,
					     width, dim, o->att_part };

		err = pack(layer + o->wo + (size_t)p * area(o->dim_rows, o->att_part), 0,
			   &part);
	}
	return err;
}

static int pack_ffn(const struct checkpoint *m, const struct shard_head *head,
		    const struct shard_layout *o, int32_t l, float *layer)
{
	int32_t dim = m->config.dim, all = m->config.hidden_dim;
	size_t width = (size_t)dim, wide = (size_t)all;
	size_t first = (area(l, all) + area(head->rank, o->hidden)) * width;
	const struct source w1 = { "w1", m->w1 + first, width, o->hidden, dim };
	const struct source w3 = { "w3", m->w3 + first, width, o->hidden, dim };
	int err = pack(layer + o->w13, 0, &w1);

	if (!err)
		err = pack(layer + o->w13, o->hidden, &w3);
	for (int32_t p = 0; p < o->own_parts && !err; p++) {
		size_t column = area(head->rank * o->own_parts + p, o->ffn_part);
		const struct source part = { "w2", m->w2 + area(l, dim) * wide + column,
					     wide, dim, o->ffn_part };

		err = pack(layer + o->w2 + (size_t)p * area(o->dim_rows, o->ffn_part), 0,
			   &part);
	}
	return err;
}

static int check(const char *name, const float *from, size_t floats)
{
	for (size_t i = 0; i < floats; i++)
		if (!isfinite(from[i]))
			return decode_fail(-EINVAL, "%s: %f at %zu, expected a number",
					   name, (double)from[i], i);
	return 0;
}

static int copy_norm(const char *name, const float *from, size_t floats, float *to)
{
	memcpy(to, from, floats * sizeof(float));
	return check(name, from, floats);
}

/* Of each position: the cosines of a head's pairs, then the sines. */
static void make_rope(const struct model_config *c, float *rope)
{
	int32_t head_size = model_head_size(c), pairs = head_size / 2;

	for (int32_t pos = 0; pos < c->seq_len; pos++)
		for (int32_t i = 0; i < pairs; i++) {
			float power = (float)(2 * i) / (float)head_size;
			float angle = (float)pos * (1.0f / powf(10000.0f, power));

			rope[area(pos, head_size) + (size_t)i] = cosf(angle);
			rope[area(pos, head_size) + (size_t)(pairs + i)] = sinf(angle);
		}
}

int shard_pack(const struct checkpoint *m, const struct shard_head *head, float *out)
{
	const struct model_config *c = &m->config;
	size_t norms = area(c->layer_count, c->dim);
	struct shard_layout o;
	int err;

	shard_layout_init(&o, head);
	memset(out, 0, o.embedding * sizeof(float));
	memcpy(out, head, sizeof(*head));
	make_rope(c, out + o.rope);
	/* Once is enough. */
	err = head->rank ? 0
			 : check("embedding", m->embedding, area(c->vocab_size, c->dim));
	if (!err)
		err = copy_norm("rms_att", m->rms_att, norms, out + o.rms_att);
	if (!err)
		err = copy_norm("rms_ffn", m->rms_ffn, norms, out + o.rms_ffn);
	if (!err)
		err = copy_norm("rms_final", m->rms_final, (size_t)c->dim,
				out + o.rms_final);
	for (int32_t l = 0; l < c->layer_count && !err; l++) {
		float *layer = out + o.layers + (size_t)l * o.layer_floats;

		err = pack_attention(m, head, &o, l, layer);
		if (!err)
			err = pack_ffn(m, head, &o, l, layer);
	}
	if (!err) {
		const struct source rows = { "classifier",
					     m->classifier + area(o.vocab_from, c->dim),
					     (size_t)c->dim, o.vocab, c->dim };

		err = pack(out + o.classifier, 0, &rows);
	}
	return err;
}

void shard_add_embedding(const struct checkpoint *m, const struct shard_head *head,
			 float *out)
{
	struct shard_layout o;

	shard_layout_init(&o, head);
	memcpy(out + o.embedding, m->embedding,
	       area(m->config.vocab_size, m->config.dim) * sizeof(float));
}
