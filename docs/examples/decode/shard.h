/* SPDX-License-Identifier: MIT */
/*
 * A chip's share of a model. Heads and the rows of the hidden layer are divided over the
 * chips; what they add to the residual is made in `parts`, whose number is the model's,
 * not the chips': a power of two, added up in pairs, pairs of pairs, and so on, of which
 * each chip has a branch. So sums have one order, and results are the same bits however
 * many chips there are.
 *
 * Matrices are packed for kernel_matmul(): tiles of 16 rows, of which each column lies
 * together. Rows are padded to whole tiles.
 */
#ifndef DECODE_SHARD_H
#define DECODE_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint.h"
#include "sampler.h"

#define PARTS_MAX 8
/* Positions of one prefill at most. */
#define CHUNK_MAX 32

/* What stands at the front of a shard: who it is for, and of what. */
struct shard_head {
	struct model_config config;
	int32_t chips, rank, parts;
	struct sampler sampler; /* where the chip chooses */
};

/* Sizes and places, in floats; all follow from the head. */
struct shard_layout {
	int32_t head_size, heads, kv_heads; /* of this chip */
	int32_t q_rows, kv_rows, qkv_rows;
	int32_t hidden, hidden_rows; /* rows: of w1 and w3 together, padded */
	int32_t own_parts;
	int32_t att_part, ffn_part; /* columns of a part */
	int32_t dim_rows;	    /* dim, padded */
	int32_t vocab_from, vocab, vocab_rows;

	/* Of the weights. */
	size_t rms_att, rms_ffn, rms_final, rope, layers, layer_floats;
	size_t qkv, wo, w13, w2; /* in a layer */
	size_t classifier, embedding, weight_floats;

	/* Of the state: the cache, then room for activations. */
	int32_t seq_room;
	size_t keys, values, layer_cache;
	size_t x, norm, act, scores, heads_out, logits, all_logits, candidates, chosen;
	size_t state_floats;
};

/* In how many parts the sums of a model are made. */
int32_t shard_parts(const struct model_config *config);

/*
 * Whether so many chips can share the model: 0, or -EINVAL with a line that has those
 * numbers that can.
 */
int shard_check(const struct model_config *config, uint32_t chips);

/* The rows of the classifier that a chip has. */
void shard_vocab(const struct shard_head *head, int32_t *from_out, int32_t *count_out);

void shard_layout_init(struct shard_layout *layout, const struct shard_head *head);

/* Write one chip's weights but for the embedding, which every chip has whole, and which
 * stands in the file as it does there. -EINVAL: a weight is no number; the line names it.
 */
int shard_pack(const struct checkpoint *checkpoint, const struct shard_head *head,
	       float *weights_out);

/* The embedding, too: for weights that stay on the host. */
void shard_add_embedding(const struct checkpoint *checkpoint,
			 const struct shard_head *head, float *weights_out);

#endif
