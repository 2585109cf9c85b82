/* SPDX-License-Identifier: MIT */
/*
 * A model as llama2.c writes it (version 0), mapped read-only and shared: seven int32,
 * then float32 matrices, each row-major as (out, in).
 */
#ifndef DECODE_CHECKPOINT_H
#define DECODE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/host.h>

/* The header; in the file a negative vocab_size says that the classifier is its own. */
struct model_config {
	int32_t dim, hidden_dim, layer_count, head_count, kv_head_count, vocab_size,
		seq_len;
};

static inline int32_t model_head_size(const struct model_config *c)
{
	return c->dim / c->head_count;
}

/* Floats of one layer's keys at one position. */
static inline int32_t model_kv_dim(const struct model_config *c)
{
	return model_head_size(c) * c->kv_head_count;
}

struct checkpoint {
	struct model_config config;
	struct rp_host_range range; /* the whole file */
	const float *embedding;	    /* vocab_size x dim */
	const float *rms_att;	    /* of each layer: dim */
	const float *wq, *wk, *wv, *wo;
	const float *rms_ffn;
	const float *w1, *w2, *w3;
	const float *rms_final;
	const float *classifier; /* the embedding where it is shared */
};

/* Bytes of a file with this header. */
uint64_t checkpoint_bytes(const struct model_config *config, bool shared_classifier);

/*
 * Map and check a file. 0 or negative errno, with a line that names the file, the field,
 * its value and what was expected; nothing is mapped then.
 */
int checkpoint_open(const char *path, struct checkpoint *checkpoint_out);

/* No worker may be using it. */
void checkpoint_close(struct checkpoint *checkpoint);

#endif
