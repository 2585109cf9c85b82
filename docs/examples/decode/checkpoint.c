/* SPDX-License-Identifier: MIT */
#include "checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fail.h"

#define HEADER_BYTES (7 * sizeof(int32_t))
/* What later versions of the format start with. */
#define LATER_MAGIC 0x616b3432

/* Bounds that keep every product below 2^63. */
#define DIM_MAX	   (1 << 16)
#define HIDDEN_MAX (1 << 18)
#define LAYERS_MAX (1 << 10)
#define VOCAB_MAX  (1 << 20)
#define SEQ_MAX	   (1 << 20)

uint64_t checkpoint_bytes(const struct model_config *c, bool shared_classifier)
{
	uint64_t dim = (uint64_t)c->dim, hidden = (uint64_t)c->hidden_dim,
		 kv = (uint64_t)model_kv_dim(c);
	uint64_t table = (uint64_t)c->vocab_size * dim;
	/* Two norms, four matrices of attention, three of the feed-forward part. */
	uint64_t layer = 2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * dim * hidden;
	uint64_t rope = (uint64_t)c->seq_len * (uint64_t)model_head_size(c);
	uint64_t floats = table + (uint64_t)c->layer_count * layer + dim + rope;

	return HEADER_BYTES + sizeof(float) * (floats + (shared_classifier ? 0 : table));
}

static int judge_field(const char *path, const char *name, int64_t value, int64_t max)
{
	if (value >= 1 && value <= max)
		return 0;
	return decode_fail(-EINVAL, "%s: %s %" PRId64 ", expected 1 to %" PRId64, path,
			   name, value, max);
}

static int judge(const char *path, const struct model_config *c)
{
	const struct {
		const char *name;
		int32_t value, max;
	} fields[] = {
		{ "dim", c->dim, DIM_MAX },
		{ "hidden_dim", c->hidden_dim, HIDDEN_MAX },
		{ "n_layers", c->layer_count, LAYERS_MAX },
		{ "n_heads", c->head_count, DIM_MAX },
		{ "n_kv_heads", c->kv_head_count, DIM_MAX },
		{ "vocab_size", c->vocab_size, VOCAB_MAX },
		{ "seq_len", c->seq_len, SEQ_MAX },
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(fields) / sizeof(fields[0]); i++)
		err = judge_field(path, fields[i].name, fields[i].value, fields[i].max);
	if (err)
		return err;
	if (c->dim % c->head_count || c->dim / c->head_count % 2)
		return decode_fail(
			-EINVAL,
			"%s: dim %d with n_heads %d, expected heads of an even "
			"size",
			path, c->dim, c->head_count);
	if (c->head_count % c->kv_head_count)
		return decode_fail(-EINVAL,
				   "%s: n_kv_heads %d, expected a divisor of n_heads %d",
				   path, c->kv_head_count, c->head_count);
	return 0;
}

static const float *take(const float **at, uint64_t floats)
{
	const float *part = *at;

	*at += floats;
	return part;
}

/* Find the matrices; the file is known to hold them all. */
static void divide(struct checkpoint *m, bool shared_classifier)
{
	const struct model_config *c = &m->config;
	uint64_t layers = (uint64_t)c->layer_count, dim = (uint64_t)c->dim;
	uint64_t hidden = (uint64_t)c->hidden_dim, kv = (uint64_t)model_kv_dim(c);
	const float *at = (const float *)m->range.base + HEADER_BYTES / sizeof(float);

	m->embedding = take(&at, (uint64_t)c->vocab_size * dim);
	m->rms_att = take(&at, layers * dim);
	m->wq = take(&at, layers * dim * dim);
	m->wk = take(&at, layers * kv * dim);
	m->wv = take(&at, layers * kv * dim);
	m->wo = take(&at, layers * dim * dim);
	m->rms_ffn = take(&at, layers * dim);
	m->w1 = take(&at, layers * hidden * dim);
	m->w2 = take(&at, layers * dim * hidden);
	m->w3 = take(&at, layers * hidden * dim);
	m->rms_final = take(&at, dim);
	/* Two tables for the rotation, which everybody computes instead. */
	take(&at, (uint64_t)c->seq_len * (uint64_t)model_head_size(c));
	m->classifier = shared_classifier ? m->embedding : at;
}

static int read_header(const char *path, struct checkpoint *m)
{
	int32_t words[7];
	uint64_t bytes;
	bool shared;
	int err;

	if (m->range.bytes < HEADER_BYTES)
		return decode_fail(-EINVAL,
				   "%s: %zu bytes, expected a header of %zu and weights",
				   path, m->range.bytes, HEADER_BYTES);
	memcpy(words, m->range.base, sizeof(words));
	if (words[0] == LATER_MAGIC)
		return decode_fail(-EINVAL,
				   "%s: a checkpoint of version %d, expected version 0, "
				   "which has no magic number",
				   path, words[1]);
	shared = words[5] > 0;
	m->config = (struct model_config){ .dim = words[0],
					   .hidden_dim = words[1],
					   .layer_count = words[2],
					   .head_count = words[3],
					   .kv_head_count = words[4],
					   .vocab_size = words[5],
					   .seq_len = words[6] };
	/* INT32_MIN has no counterpart; as it is, it is refused. */
	if (words[5] < 0 && words[5] != INT32_MIN)
		m->config.vocab_size = -words[5];
	err = judge(path, &m->config);
	if (err)
		return err;
	bytes = checkpoint_bytes(&m->config, shared);
	if (bytes != m->range.bytes)
		return decode_fail(-EINVAL,
				   "%s: %zu bytes, expected the %" PRIu64
				   " that its header asks for",
				   path, m->range.bytes, bytes);
	divide(m, shared);
	return 0;
}

int checkpoint_open(const char *path, struct checkpoint *out)
{
	struct checkpoint m = { 0 };
	int err = decode_pass(rp_map_file(path, 0, 0, &m.range));

	if (err)
		return err;
	err = read_header(path, &m);
	if (err) {
		rp_unmap_file(&m.range);
		return err;
	}
	*out = m;
	return 0;
}

void checkpoint_close(struct checkpoint *checkpoint)
{
	rp_unmap_file(&checkpoint->range);
	memset(checkpoint, 0, sizeof(*checkpoint));
}
