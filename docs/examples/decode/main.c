/* SPDX-License-Identifier: MIT */
/*
 * Inference of a Llama model on several chips. Text goes to stdout as it comes, the
 * summary to stderr.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint.h"
#include "fail.h"
#include "generate.h"
#include "made.h"
#include "options.h"
#include "summary.h"
#include "tokenizer.h"

struct printer {
	const struct tokenizer *tokenizer;
	bool ids, any;
};

static void print_token(int32_t before, int32_t token, void *user)
{
	struct printer *p = user;
	const char *piece;
	size_t bytes;

	if (p->ids) {
		printf("%s%d", p->any ? " " : "", token);
	} else if (token != TOKEN_BOS) {
		piece = tokenizer_piece(p->tokenizer, before, token, &bytes);
		fwrite(piece, 1, bytes, stdout);
	}
	p->any = true;
	fflush(stdout);
}

static int run(const struct options *o, const struct checkpoint *model,
	       const struct tokenizer *tokenizer)
{
	struct printer printer = { tokenizer, o->ids, false };
	struct generate_result result;
	struct engine *engine;
	int32_t *prompt;
	size_t count;
	int err = engine_open(model, &o->engine, &engine), closed;

	if (err)
		return err;
	prompt = malloc(tokenizer_room(o->prompt) * sizeof(*prompt));
	if (!prompt) {
		engine_close(engine);
		return decode_fail(-ENOMEM, "no memory for the prompt");
	}
	count = tokenizer_encode(tokenizer, o->prompt, prompt);
	if (!o->ids)
		for (size_t i = 1; i < count; i++)
			print_token(prompt[i - 1], prompt[i], &printer);
	err = generate(engine, &model->config, prompt, count, o->steps, print_token,
		       &printer, &result);
	free(prompt);
	putchar('\n');
	fflush(stdout);
	if (!err)
		err = summary_print(stderr, engine, &result);
	closed = engine_close(engine);
	return err ? err : closed;
}

static int open_files(const struct options *o, struct made *made,
		      struct checkpoint *model, struct tokenizer **tokenizer)
{
	const char *model_path = o->model, *tokenizer_path = o->tokenizer;
	int err = 0;

	if (!model_path) {
		fprintf(stderr,
			"no --model: one of fixed random weights in the shape of a "
			"small one speaks gibberish\n");
		err = made_open(&made_default, false, made);
		model_path = made->model;
		tokenizer_path = made->tokenizer;
	}
	if (!err)
		err = checkpoint_open(model_path, model);
	if (!err)
		err = tokenizer_open(tokenizer_path, model->config.vocab_size, tokenizer);
	return err;
}

int main(int argc, char **argv)
{
	struct made made = { .model_fd = -1, .tokenizer_fd = -1 };
	struct tokenizer *tokenizer = NULL;
	struct checkpoint model = { 0 };
	struct options options;
	int err = options_parse(&options, argc, (const char **)argv);

	if (!err)
		err = open_files(&options, &made, &model, &tokenizer);
	if (!err)
		err = run(&options, &model, tokenizer);
	if (err)
		fprintf(stderr, "decode: %s\n", decode_error());
	tokenizer_close(tokenizer);
	if (model.range.base)
		checkpoint_close(&model);
	made_close(&made);
	options_free(&options);
	return err ? 1 : 0;
}
