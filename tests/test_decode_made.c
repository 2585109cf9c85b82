/* SPDX-License-Identifier: MIT */
/* The decode example on models of fixed random weights: every bit is the same for every
 * number of chips, whatever the shape. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"
#include "generate.h"
#include "made.h"
#include "solo.h"

#define assert_decodes(call)                                            \
	do {                                                            \
		int decode_err = (call);                                \
		if (decode_err)                                         \
			fail_msg("%d: %s", decode_err, decode_error()); \
	} while (0)

struct bed {
	struct made made;
	struct checkpoint model;
};

static void bed_open(struct bed *bed, const struct model_config *config, bool shared)
{
	assert_decodes(made_open(config, shared, &bed->made));
	assert_decodes(checkpoint_open(bed->made.model, &bed->model));
}

static void bed_close(struct bed *bed)
{
	checkpoint_close(&bed->model);
	made_close(&bed->made);
}

/* dim, hidden_dim, layers, heads, kv heads, vocab, positions */
static const struct {
	struct model_config config;
	bool shared;
} shapes[] = {
	{ { 64, 172, 5, 8, 4, 512, 512 }, true },
	{ { 32, 24, 1, 4, 4, 300, 64 }, false },   /* every head its own keys */
	{ { 48, 40, 2, 8, 2, 517, 40 }, true },	   /* rows that fill no tile, odd vocab */
	{ { 96, 64, 2, 16, 16, 259, 33 }, false }, /* more heads than parts */
	{ { 16, 7, 2, 2, 1, 260, 20 }, false },	   /* for one only */
};

static void every_number_of_chips_gives_the_same_bits(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(shapes); i++) {
		const struct model_config *c = &shapes[i].config;
		int32_t steps = c->seq_len < 24 ? c->seq_len : 24;
		size_t bytes = sizeof(float) * (size_t)c->vocab_size;
		struct bed bed;

		bed_open(&bed, c, shapes[i].shared);
		for (uint32_t chips = 1; chips <= (uint32_t)shard_parts(c); chips++) {
			struct engine_options options = { .chips = chips,
							  .persistent = chips & 1,
							  .sampler.top_p = 1 };
			int32_t token = 7, successor;
			struct engine *engine;
			struct solo *solo;

			if (shard_check(c, chips))
				continue;
			assert_decodes(engine_open(&bed.model, &options, &engine));
			assert_decodes(solo_open(&bed.model, &solo));
			for (int32_t pos = 0; pos < steps; pos++) {
				const float *logits = solo_step(solo, token, pos);

				assert_non_null(logits);
				assert_decodes(engine_feed(engine, token, pos));
				assert_decodes(engine_take(engine, &successor));
				assert_memory_equal(logits, engine_logits(engine), bytes);
				/* Not the same word for ever. */
				token = (successor + 31 * pos) % c->vocab_size;
			}
			solo_close(solo);
			assert_decodes(engine_close(engine));
		}
		bed_close(&bed);
	}
}

/* A prompt in one go leaves the cache that its tokens leave one by one. */
static void prefill_leaves_what_decode_leaves(void **state)
{
	static const int32_t lengths[] = { 1, 2, CHUNK_MAX, CHUNK_MAX + 1, 100 };
	const struct engine_options options = { .chips = 2,
						.persistent = true,
						.sampler.top_p = 1 };
	size_t bytes = sizeof(float) * (size_t)made_default.vocab_size;
	struct engine *engine;
	struct bed bed;

	(void)state;
	bed_open(&bed, &made_default, true);
	assert_decodes(engine_open(&bed.model, &options, &engine));
	for (size_t i = 0; i < COUNT(lengths); i++) {
		int32_t prompt[128], token, count = lengths[i];
		struct solo *solo;

		assert_decodes(solo_open(&bed.model, &solo));
		for (int32_t pos = 0; pos < count; pos++) {
			prompt[pos] = (37 * pos + count) % made_default.vocab_size;
			assert_non_null(solo_step(solo, prompt[pos], pos));
		}
		assert_decodes(engine_prefill(engine, prompt, count, 0));
		assert_decodes(engine_feed(engine, 5, count));
		assert_decodes(engine_take(engine, &token));
		assert_memory_equal(solo_step(solo, 5, count), engine_logits(engine),
				    bytes);
		solo_close(solo);
	}
	assert_decodes(engine_close(engine));
	bed_close(&bed);
}

struct heard {
	int32_t ids[64];
	size_t count;
};

static void hear(int32_t before, int32_t token, void *user)
{
	struct heard *h = user;

	(void)before;
	assert_true(h->count < COUNT(h->ids));
	h->ids[h->count++] = token;
}

static void listen(struct bed *bed, const struct engine_options *options, struct heard *h)
{
	const int32_t prompt[] = { TOKEN_BOS, 400, 410 };
	struct generate_result result;
	struct engine *engine;

	memset(h, 0, sizeof(*h));
	assert_decodes(engine_open(&bed->model, options, &engine));
	assert_decodes(generate(engine, &bed->model.config, prompt, COUNT(prompt), 60,
				hear, h, &result));
	assert_decodes(engine_close(engine));
}

/* Sampling has a seed: the host, a callback and chips draw the same, another seed
 * something else. */
static void whoever_samples_draws_the_same(void **state)
{
	static const struct sampler samplers[] = {
		{ 0, 1, 1 }, { 1, 1, 2 }, { 0.7f, 0.9f, 3 }, { 5, 0.01f, 4 }
	};
	struct heard first, other;
	struct bed bed;

	(void)state;
	bed_open(&bed, &made_default, false);
	for (size_t i = 0; i < COUNT(samplers); i++) {
		struct engine_options options = { .chips = 1, .sampler = samplers[i] };

		listen(&bed, &options, &first);
		assert_int_equal(first.count, 58);
		for (int way = 0; way < 6; way++) {
			options.chips = way & 1 ? 2 : 4;
			options.persistent = true;
			options.reset = way & 1;
			options.chooser = (enum chooser)(way / 2);
			listen(&bed, &options, &other);
			assert_int_equal(other.count, first.count);
			assert_memory_equal(other.ids, first.ids, sizeof(first.ids));
		}
		if (i == 1) {
			options.sampler.seed++;
			listen(&bed, &options, &other);
			assert_memory_not_equal(other.ids, first.ids, sizeof(first.ids));
		}
	}
	bed_close(&bed);
}

static void top_p_keeps_the_likeliest(void **state)
{
	/* 0.5, 0.25, 0.125, 0.125 */
	const float logits[] = { 0, 0.6931472f, 1.3862944f, 0 };
	struct sampler sampler = { .temperature = 1 };
	static const struct {
		float top_p;
		int kinds;
	} cases[] = { { 0.3f, 1 }, { 0.6f, 2 }, { 0.8f, 3 }, { 1, 4 } };
	struct candidate room[4];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		bool seen[4] = { false };
		int kinds = 0;

		sampler.top_p = cases[i].top_p;
		for (int32_t pos = 0; pos < 200; pos++)
			seen[sampler_choose(&sampler, logits, 4, pos, room)] = true;
		for (int k = 0; k < 4; k++)
			kinds += seen[k];
		assert_int_equal(kinds, cases[i].kinds);
		assert_true(seen[2]);
	}
}

/* Text that ends with the model's positions, and what does not fit. */
static void positions_end(void **state)
{
	static const struct model_config small = { 32, 24, 1, 4, 4, 300, 16 };
	const struct engine_options options = { .chips = 2,
						.persistent = true,
						.chooser = CHOOSER_CHIP,
						.sampler.top_p = 1 };
	struct heard h = { .count = 0 };
	struct generate_result result;
	int32_t prompt[17] = { 1 };
	struct engine *engine;
	struct bed bed;

	(void)state;
	for (int i = 1; i < 17; i++)
		prompt[i] = 280 + i;
	bed_open(&bed, &small, false);
	assert_decodes(engine_open(&bed.model, &options, &engine));
	assert_decodes(generate(engine, &small, prompt, 16, 0, hear, &h, &result));
	assert_int_equal(h.count, 1);
	h.count = 0;
	assert_decodes(generate(engine, &small, prompt, 3, 99, hear, &h, &result));
	assert_int_equal(h.count, 14);
	assert_int_equal(generate(engine, &small, prompt, 17, 0, hear, &h, &result),
			 -ERANGE);
	assert_int_equal(generate(engine, &small, prompt, 4, 3, hear, &h, &result),
			 -ERANGE);
	assert_decodes(engine_close(engine));
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_of_chips_gives_the_same_bits),
		cmocka_unit_test(prefill_leaves_what_decode_leaves),
		cmocka_unit_test(whoever_samples_draws_the_same),
		cmocka_unit_test(top_p_keeps_the_likeliest),
		cmocka_unit_test(positions_end),
	};

	/* Ends a hang; nothing here takes a tenth of it. */
	alarm(280);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
