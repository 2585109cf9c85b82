/* SPDX-License-Identifier: MIT */
#include "solo.h"

#include <errno.h>
#include <stdlib.h>

#include "fail.h"
#include "forward.h"

struct solo {
	struct exchange exchange;
	struct forward forward;
	float *weights, *state, *parts;
};

static float *own(struct exchange *exchange, uint32_t k)
{
	(void)k;
	return ((struct solo *)exchange)->parts;
}

static int meet(struct exchange *exchange, uint32_t k, const float **sums_out)
{
	(void)k;
	sums_out[0] = ((struct solo *)exchange)->parts;
	return 0;
}

int solo_open(const struct checkpoint *checkpoint, struct solo **out)
{
	const struct shard_head head = { .config = checkpoint->config,
					 .chips = 1,
					 .parts = shard_parts(&checkpoint->config) };
	struct solo *solo = calloc(1, sizeof(*solo));
	struct shard_layout o;
	int err = -ENOMEM;

	shard_layout_init(&o, &head);
	if (solo) {
		solo->weights = calloc(o.weight_floats, sizeof(float));
		solo->state = calloc(o.state_floats, sizeof(float));
		solo->parts =
			calloc((size_t)head.parts * (size_t)o.dim_rows, sizeof(float));
	}
	if (solo && solo->weights && solo->state && solo->parts)
		err = shard_pack(checkpoint, &head, solo->weights);
	else
		decode_fail(err, "no memory for a model in one process");
	if (err) {
		solo_close(solo);
		return err;
	}
	solo->exchange.own = own;
	solo->exchange.meet = meet;
	shard_add_embedding(checkpoint, &head, solo->weights);
	forward_init(&solo->forward, solo->weights, solo->state, &solo->exchange);
	*out = solo;
	return 0;
}

void solo_close(struct solo *solo)
{
	if (!solo)
		return;
	free(solo->weights);
	free(solo->state);
	free(solo->parts);
	free(solo);
}

const float *solo_step(struct solo *solo, int32_t token, int32_t pos)
{
	int err = forward_feed(&solo->forward, &token, 1, pos);

	if (err) {
		decode_fail(err, "token %d at %d, expected one that the model has", token,
			    pos);
		return NULL;
	}
	return forward_logits(&solo->forward, 1);
}
