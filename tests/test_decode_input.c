/* SPDX-License-Identifier: MIT */
/* Files that are no model, or no tokenizer, and models that can't be shared so: each is
 * refused by a line that says why. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "engine.h"
#include "fail.h"
#include "made.h"
#include "tokenizer.h"

static void assert_decode_says(const char *needle)
{
	if (!strstr(decode_error(), needle))
		fail_msg("\"%s\" is not in \"%s\"", needle, decode_error());
}

/* A file of these bytes, as long as its descriptor is open. */
static int file_of(const void *data, size_t bytes, char path_out[32])
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	snprintf(path_out, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static uint8_t *read_all(const char *path, size_t *bytes_out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t bytes = lseek(fd, 0, SEEK_END);
	uint8_t *data = malloc((size_t)bytes);

	assert_non_null(data);
	assert_int_equal(pread(fd, data, (size_t)bytes, 0), bytes);
	close(fd);
	*bytes_out = (size_t)bytes;
	return data;
}

enum field {
	DIM,
	HIDDEN,
	LAYERS,
	HEADS,
	KV_HEADS,
	VOCAB,
	SEQ
};

static void hostile_headers_are_refused(void **state)
{
	static const struct {
		enum field field;
		int32_t value;
		const char *says;
	} cases[] = {
		{ DIM, 0, "dim 0, expected 1 to" },
		{ DIM, -64, "dim -64" },
		{ DIM, INT32_MAX, "dim 2147483647" },
		{ DIM, 66, "dim 66 with n_heads 8, expected heads of an even size" },
		{ DIM, 56, "dim 56 with n_heads 8" },
		{ DIM, 128, "bytes, expected the" },
		{ HIDDEN, 0, "hidden_dim 0" },
		{ HIDDEN, INT32_MIN, "hidden_dim -2147483648" },
		{ HIDDEN, 173, "bytes, expected the" },
		{ LAYERS, 0, "n_layers 0" },
		{ LAYERS, 1000000000, "n_layers 1000000000" },
		{ LAYERS, 1024, "bytes, expected the" },
		{ HEADS, 0, "n_heads 0" },
		{ HEADS, 7, "dim 64 with n_heads 7" },
		{ HEADS, 64, "dim 64 with n_heads 64" },
		{ KV_HEADS, 0, "n_kv_heads 0" },
		{ KV_HEADS, 3, "n_kv_heads 3, expected a divisor of n_heads 8" },
		{ KV_HEADS, 16, "n_kv_heads 16, expected a divisor" },
		{ VOCAB, 0, "vocab_size 0" },
		{ VOCAB, INT32_MIN, "vocab_size -2147483648" },
		{ VOCAB, INT32_MAX, "vocab_size 2147483647" },
		{ VOCAB, -512,
		  "bytes, expected the" }, /* a classifier that is not there */
		{ SEQ, 0, "seq_len 0" },
		{ SEQ, INT32_MAX, "seq_len 2147483647" },
		{ DIM, 0x616b3432, "version 172, expected version 0" },
	};
	struct checkpoint model;
	struct made made;
	uint8_t *data;
	size_t bytes;

	(void)state;
	assert_int_equal(made_open(&made_default, true, &made), 0);
	data = read_all(made.model, &bytes);
	for (size_t i = 0; i < COUNT(cases); i++) {
		int32_t before, *word = (int32_t *)data + cases[i].field;
		char path[32];
		int fd;

		before = *word;
		*word = cases[i].value;
		fd = file_of(data, bytes, path);
		*word = before;
		assert_int_equal(checkpoint_open(path, &model), -EINVAL);
		assert_decode_says(cases[i].says);
		close(fd);
	}
	free(data);
	made_close(&made);
}

static void truncated_and_padded_files_are_refused(void **state)
{
	struct checkpoint model;
	struct made made;
	uint8_t *data;
	size_t bytes;

	(void)state;
	assert_int_equal(made_open(&made_default, true, &made), 0);
	data = read_all(made.model, &bytes);
	data = realloc(data, bytes + 4);
	assert_non_null(data);
	memset(data + bytes, 0, 4);
	{
		const struct {
			size_t bytes;
			const char *says;
		} cases[] = {
			{ 1, "1 bytes, expected a header of 28" },
			{ 27, "27 bytes, expected a header of 28" },
			{ 28, "28 bytes, expected the 1056540 that its header asks for" },
			{ bytes - 1, "1056539 bytes, expected the 1056540" },
			{ bytes + 4, "1056544 bytes, expected the 1056540" },
		};

		for (size_t i = 0; i < COUNT(cases); i++) {
			char path[32];
			int fd = file_of(data, cases[i].bytes, path);

			assert_int_equal(checkpoint_open(path, &model), -EINVAL);
			assert_decode_says(cases[i].says);
			close(fd);
		}
	}
	free(data);
	made_close(&made);
	assert_int_equal(checkpoint_open("/nowhere/model.bin", &model), -ENOENT);
	assert_decode_says("/nowhere/model.bin");
	assert_int_equal(checkpoint_open("/", &model), -EINVAL);
}

/* A weight that is none, in each matrix. */
static void corrupt_weights_are_refused(void **state)
{
	const struct engine_options options = { .chips = 2, .sampler.top_p = 1 };
	static const char *const names[] = { "embedding", "rms_att", "wq",	 "wk",
					     "wv",	  "wo",	     "rms_ffn",	 "w1",
					     "w2",	  "w3",	     "rms_final" };
	struct made made;
	uint8_t *data;
	size_t bytes;

	(void)state;
	assert_int_equal(made_open(&made_default, true, &made), 0);
	data = read_all(made.model, &bytes);
	for (size_t i = 0; i < COUNT(names); i++) {
		struct checkpoint model;
		struct engine *engine = NULL;
		char path[32];
		float *word;
		float before;
		int fd;

		assert_int_equal(checkpoint_open(made.model, &model), 0);
		{
			const float *const firsts[] = {
				model.embedding, model.rms_att, model.wq,	model.wk,
				model.wv,	 model.wo,	model.rms_ffn,	model.w1,
				model.w2,	 model.w3,	model.rms_final
			};
			size_t offset = (size_t)((const uint8_t *)firsts[i] -
						 (const uint8_t *)model.range.base);

			word = (float *)(data + offset) + 5;
		}
		checkpoint_close(&model);
		before = *word;
		*word = i & 1 ? (float)NAN : (float)INFINITY;
		fd = file_of(data, bytes, path);
		*word = before;
		assert_int_equal(checkpoint_open(path, &model), 0);
		assert_int_equal(engine_open(&model, &options, &engine), -EINVAL);
		assert_null(engine);
		assert_decode_says(names[i]);
		assert_decode_says("expected a number");
		checkpoint_close(&model);
		close(fd);
	}
	free(data);
	made_close(&made);
}

static void chips_that_do_not_divide_are_refused(void **state)
{
	static const struct {
		struct model_config config;
		uint32_t chips;
		const char *says;
	} cases[] = {
		{ { 64, 172, 5, 8, 4, 512, 512 }, 3, "3 chips for 8 heads" },
		{ { 64, 172, 5, 8, 4, 512, 512 }, 3, "expected one of 1, 2, 4" },
		{ { 64, 172, 5, 8, 4, 512, 512 }, 8, "expected one of 1, 2, 4" },
		{ { 64, 172, 5, 8, 4, 512, 512 }, UINT32_MAX, "expected one of 1, 2, 4" },
		{ { 24, 18, 1, 6, 6, 259, 20 }, 3, "expected one of 1, 2" },
		{ { 16, 7, 1, 2, 1, 259, 20 }, 2, "expected one of 1" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct engine_options options = { .chips = cases[i].chips };
		struct engine *engine = NULL;
		struct checkpoint model;
		struct made made;

		assert_int_equal(made_open(&cases[i].config, true, &made), 0);
		assert_int_equal(checkpoint_open(made.model, &model), 0);
		assert_int_equal(engine_open(&model, &options, &engine), -EINVAL);
		assert_decode_says(cases[i].says);
		checkpoint_close(&model);
		made_close(&made);
	}
}

static void what_is_no_tokenizer_is_refused(void **state)
{
	struct tokenizer *tokenizer = NULL;
	struct made made;
	uint8_t *data;
	size_t bytes;

	(void)state;
	assert_int_equal(made_open(&made_default, true, &made), 0);
	data = read_all(made.tokenizer, &bytes);
	assert_int_equal(tokenizer_open("/nowhere/tok.bin", 512, &tokenizer), -ENOENT);
	assert_decode_says("/nowhere/tok.bin");
	{
		const struct {
			size_t offset;
			int32_t value; /* at that offset */
			size_t bytes;
			int32_t vocab;
			const char *says;
		} cases[] = {
			{ 0, 0, bytes, 512, "max_token_length 0" },
			{ 0, -1, bytes, 512, "max_token_length -1" },
			{ 0, INT32_MAX, bytes, 512, "max_token_length 2147483647" },
			{ 0, 16, 3, 512, "3 bytes, expected a tokenizer" },
			{ 0, 16, 4, 512, "ends before token 0, expected 512" },
			{ 0, 16, bytes, 513, "ends before token 512, expected 513" },
			{ 0, 16, bytes, 511, "behind token 510, expected none" },
			{ 0, 16, bytes, 258, "vocab_size 258, expected 259 or more" },
			{ 8, -1, bytes, 512, "token 0 of -1 bytes, expected 0 to 16" },
			{ 8, 17, bytes, 512, "token 0 of 17 bytes, expected 0 to 16" },
			{ 8, INT32_MIN, bytes, 512, "token 0 of -2147483648 bytes" },
		};

		for (size_t i = 0; i < COUNT(cases); i++) {
			int32_t before;
			char path[32];
			int fd;

			memcpy(&before, data + cases[i].offset, sizeof(before));
			memcpy(data + cases[i].offset, &cases[i].value, sizeof(before));
			fd = file_of(data, cases[i].bytes, path);
			memcpy(data + cases[i].offset, &before, sizeof(before));
			assert_int_equal(tokenizer_open(path, cases[i].vocab, &tokenizer),
					 -EINVAL);
			assert_decode_says(cases[i].says);
			assert_null(tokenizer);
			close(fd);
		}
	}
	/* Cut anywhere, it is refused, and nothing past its end is read. */
	for (size_t cut = bytes - 64; cut < bytes; cut++) {
		char path[32];
		int fd = file_of(data, cut, path);

		assert_int_equal(tokenizer_open(path, 512, &tokenizer), -EINVAL);
		close(fd);
	}
	free(data);
	made_close(&made);
}

static void any_text_is_encoded(void **state)
{
	static const struct {
		const char *text;
		size_t at_least;
	} cases[] = {
		{ "", 1 },
		{ " ", 2 },
		{ "\x80\xbf\xff", 5 },	   /* no characters */
		{ "\xf0\x9f\x98\x80", 6 }, /* one that is no piece: its bytes */
		{ "\xf0\x9f", 4 },	   /* one that ends early */
		{ "ba be bi", 3 },
	};
	struct tokenizer *tokenizer;
	struct made made;

	(void)state;
	assert_int_equal(made_open(&made_default, true, &made), 0);
	assert_int_equal(tokenizer_open(made.tokenizer, 512, &tokenizer), 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t room = tokenizer_room(cases[i].text), count, used = 0;
		int32_t *ids = malloc(room * sizeof(*ids));
		char text[64];

		assert_non_null(ids);
		count = tokenizer_encode(tokenizer, cases[i].text, ids);
		assert_true(count >= cases[i].at_least && count <= room);
		assert_int_equal(ids[0], TOKEN_BOS);
		/* And comes back. */
		for (size_t k = 1; k < count; k++) {
			size_t bytes;
			const char *piece =
				tokenizer_piece(tokenizer, ids[k - 1], ids[k], &bytes);

			memcpy(text + used, piece, bytes);
			used += bytes;
		}
		assert_int_equal(used, strlen(cases[i].text));
		assert_memory_equal(text, cases[i].text, used);
		free(ids);
	}
	tokenizer_close(tokenizer);
	made_close(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_headers_are_refused),
		cmocka_unit_test(truncated_and_padded_files_are_refused),
		cmocka_unit_test(corrupt_weights_are_refused),
		cmocka_unit_test(chips_that_do_not_divide_are_refused),
		cmocka_unit_test(what_is_no_tokenizer_is_refused),
		cmocka_unit_test(any_text_is_encoded),
	};

	/* Ends a hang; nothing here takes a tenth of it. */
	alarm(280);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
