/* SPDX-License-Identifier: MIT */
/* A tokenizer as llama2.c writes it: pieces of text with a score each; text is encoded
 * by merging the pair of the best score until none is left. */
#ifndef DECODE_TOKENIZER_H
#define DECODE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#define TOKEN_BOS 1
#define TOKEN_EOS 2

struct tokenizer;

/* 0 or negative errno with a line; vocab_size is the model's. */
int tokenizer_open(const char *path, int32_t vocab_size, struct tokenizer **out);
void tokenizer_close(struct tokenizer *tokenizer);

/* Tokens that the text has at least, BOS included: seen from its length alone. */
size_t tokenizer_least(const struct tokenizer *tokenizer, const char *text);

/*
 * BOS and then `text`. tokens_out has room for tokenizer_room(text). Returns how many
 * there are. Takes time with the square of the text's length.
 */
size_t tokenizer_room(const char *text);
size_t tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
			int32_t *tokens_out);

/* The bytes of a token that follows `before`; `bytes_out` says how many. */
const char *tokenizer_piece(const struct tokenizer *tokenizer, int32_t before,
			    int32_t token, size_t *bytes_out);

#endif
