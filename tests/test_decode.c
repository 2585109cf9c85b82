/* SPDX-License-Identifier: MIT */
/* The decode example: the tokens that a real model is known to give, in every way that
 * there is of running it. Skipped where the model is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"
#include "generate.h"
#include "golden.h"

#define assert_decodes(call)                                            \
	do {                                                            \
		int decode_err = (call);                                \
		if (decode_err)                                         \
			fail_msg("%d: %s", decode_err, decode_error()); \
	} while (0)

/* A sanitizer's forward pass takes its time: there the texts are cut. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEPS_MAX 48
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STEPS_MAX 48
#endif
#endif
#ifndef STEPS_MAX
#define STEPS_MAX 4096
#endif

static struct golden cases[GOLDEN_CASES];
static size_t case_count;
static struct checkpoint model;
static struct tokenizer *tokenizer;

static void need_model(void)
{
	if (!case_count)
		skip();
}

/* What a run gave, and its text. */
struct heard {
	int32_t ids[GOLDEN_IDS];
	size_t count;
	char text[8192];
	size_t bytes;
};

static void hear(int32_t before, int32_t token, void *user)
{
	struct heard *h = user;
	const char *piece;
	size_t bytes;

	assert_true(h->count < GOLDEN_IDS);
	h->ids[h->count++] = token;
	if (token == TOKEN_BOS)
		return;
	piece = tokenizer_piece(tokenizer, before, token, &bytes);
	assert_true(h->bytes + bytes < sizeof(h->text));
	memcpy(h->text + h->bytes, piece, bytes);
	h->bytes += bytes;
	h->text[h->bytes] = 0;
}

static void check_case(struct engine *engine, const struct golden *g)
{
	bool cut = g->steps > STEPS_MAX;
	int32_t steps = cut ? STEPS_MAX : g->steps;
	size_t count = cut ? (size_t)steps - g->prompt_count + 1 : g->count;
	/* The text that is known has the prompt in front. */
	const char *text = g->text + strlen(g->prompt);
	struct generate_result result;
	struct heard h = { .count = 0 };

	assert_true(strlen(g->prompt) < strlen(g->text));
	assert_decodes(generate(engine, &model.config, g->prompt_ids, g->prompt_count,
				steps, hear, &h, &result));
	assert_int_equal(h.count, count);
	assert_int_equal(result.count, count);
	assert_memory_equal(h.ids, g->ids, count * sizeof(h.ids[0]));
	if (cut)
		assert_memory_equal(h.text, text, h.bytes);
	else
		assert_string_equal(h.text, text);
}

static void check_all(const struct engine_options *options)
{
	struct engine *engine;

	assert_decodes(engine_open(&model, options, &engine));
	/* The cache and the windows have what the case before left. */
	for (size_t i = 0; i < case_count; i++)
		check_case(engine, &cases[i]);
	assert_decodes(engine_close(engine));
}

static void prompts_are_encoded_as_known(void **state)
{
	(void)state;
	need_model();
	for (size_t i = 0; i < case_count; i++) {
		int32_t ids[GOLDEN_IDS];

		assert_true(tokenizer_room(cases[i].prompt) <= GOLDEN_IDS);
		assert_int_equal(tokenizer_encode(tokenizer, cases[i].prompt, ids),
				 cases[i].prompt_count);
		assert_memory_equal(ids, cases[i].prompt_ids,
				    cases[i].prompt_count * sizeof(ids[0]));
	}
}

/* Persistent or not, windows reset or not, weights resident or passed. */
static void check_chips(uint32_t chips)
{
	need_model();
	for (int way = 0; way < 8; way++) {
		const struct engine_options options = {
			.chips = chips,
			.persistent = way & 1,
			.reset = way & 2,
			.host_weights = way & 4,
			.sampler.top_p = 1,
		};

		check_all(&options);
	}
}

static void one_chip_gives_the_known_tokens(void **state)
{
	(void)state;
	check_chips(1);
}

static void two_chips_give_the_known_tokens(void **state)
{
	(void)state;
	check_chips(2);
}

static void four_chips_give_the_known_tokens(void **state)
{
	(void)state;
	check_chips(4);
}

static void whoever_chooses_chooses_the_known_tokens(void **state)
{
	(void)state;
	need_model();
	for (int way = 0; way < 8; way++) {
		const struct engine_options options = {
			.chips = way & 1 ? 2 : 4,
			.persistent = way & 2,
			.chooser = way & 4 ? CHOOSER_CHIP : CHOOSER_CALLBACK,
			.sampler.top_p = 1,
		};

		check_all(&options);
	}
}

static void every_way_of_waiting_gives_the_known_tokens(void **state)
{
	/* Chips and the caller that spin, on fewer CPUs than there are of them, too. */
	static const struct {
		enum rp_wait_policy wait;
		uint32_t chips;
	} ways[] = { { RP_WAIT_HYBRID, 2 },
		     { RP_WAIT_BLOCK, 2 },
		     { RP_WAIT_SPIN, 1 },
		     { RP_WAIT_SPIN, 2 },
		     { RP_WAIT_SPIN, 4 } };

	(void)state;
	need_model();
	for (size_t i = 0; i < COUNT(ways); i++) {
		const struct engine_options options = { .chips = ways[i].chips,
							.persistent = true,
							.reset = true,
							.sampler.top_p = 1,
							.wait = ways[i].wait,
							.worker_wait = ways[i].wait };

		check_all(&options);
	}
}

static void load(void)
{
	char path[4096];

	case_count = golden_load(cases);
	if (!case_count)
		return;
	golden_path("stories260K.bin", path, sizeof(path));
	if (!checkpoint_open(path, &model)) {
		golden_path("tok512.bin", path, sizeof(path));
		if (!tokenizer_open(path, model.config.vocab_size, &tokenizer))
			return;
	}
	printf("%s\n", decode_error());
	exit(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prompts_are_encoded_as_known),
		cmocka_unit_test(one_chip_gives_the_known_tokens),
		cmocka_unit_test(two_chips_give_the_known_tokens),
		cmocka_unit_test(four_chips_give_the_known_tokens),
		cmocka_unit_test(whoever_chooses_chooses_the_known_tokens),
		cmocka_unit_test(every_way_of_waiting_gives_the_known_tokens),
	};

	/* Ends a hang; nothing here takes a tenth of it. */
	alarm(280);
	load();
	return check_status(cmocka_run_group_tests(tests, NULL, NULL), COUNT(tests));
}
