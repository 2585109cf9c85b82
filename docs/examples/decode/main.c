/* SPDX-License-Identifier: MIT */
/*
 * Inference of a Llama model on several chips. Text goes to stdout as it comes, the
 * summary to stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	int err; /* of the first write that failed */
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
	if (fflush(stdout) && !p->err)
		p->err = -errno;
}

/* What can't be fed is refused before anything is made for it, or printed. */
static int encode(const struct options *o, const struct checkpoint *model,
		  const struct tokenizer *tokenizer, int32_t **tokens_out,
		  size_t *count_out)
{
	size_t limit = (size_t)generate_limit(&model->config, o->steps);
	size_t count = tokenizer_least(tokenizer, o->prompt);
	bool counted = count <= limit;
	int32_t *tokens = NULL;

	if (counted) {
		tokens = malloc(tokenizer_room(o->prompt) * sizeof(*tokens));
		if (!tokens)
			return decode_fail(-ENOMEM, "no memory for the prompt");
		count = tokenizer_encode(tokenizer, o->prompt, tokens);
	}
	if (count > limit) {
		free(tokens);
		return decode_fail(-ERANGE,
				   "%s: %zu tokens%s, expected at most %zu: steps, or "
				   "the model's seq_len",
				   o->prompt_is_ours ? "no --prompt, so that it is "
						       "\"" OPTIONS_PROMPT "\""
						     : "--prompt",
				   count, counted ? "" : " or more", limit);
	}
	*tokens_out = tokens;
	*count_out = count;
	return 0;
}

static int run(const struct options *o, const struct checkpoint *model,
	       const struct tokenizer *tokenizer)
{
	struct printer printer = { .tokenizer = tokenizer, .ids = o->ids };
	struct generate_result result;
	struct engine *engine;
	int32_t *prompt = NULL;
	size_t count = 0;
	int err = encode(o, model, tokenizer, &prompt, &count), closed;

	if (err)
		return err;
	err = engine_open(model, &o->engine, &engine);
	if (err) {
		free(prompt);
		return err;
	}
	if (!o->ids)
		for (size_t i = 1; i < count; i++)
			print_token(prompt[i - 1], prompt[i], &printer);
	err = generate(engine, &model->config, prompt, count, o->steps, print_token,
		       &printer, &result);
	free(prompt);
	putchar('\n');
	if (fflush(stdout) && !printer.err)
		printer.err = -errno;
	if (!err && printer.err)
		err = decode_fail(printer.err, "stdout: %s", strerror(-printer.err));
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

/* So that no file opened later takes the place of a stream that was closed, and is
 * written to. */
static void fill_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct made made = { .model_fd = -1, .tokenizer_fd = -1 };
	struct tokenizer *tokenizer = NULL;
	struct checkpoint model = { 0 };
	struct options options;
	int err;

	fill_streams();
	err = options_parse(&options, argc, (const char **)argv);
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
