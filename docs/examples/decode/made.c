/* SPDX-License-Identifier: MIT */
#include "made.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"

/* The first ids: three marks, the bytes, the characters of ASCII. */
#define CHARS_FROM 259
#define RARE	   (CHARS_FROM + 95)

const struct model_config made_default = { .dim = 64,
					   .hidden_dim = 172,
					   .layer_count = 5,
					   .head_count = 8,
					   .kv_head_count = 4,
					   .vocab_size = 512,
					   .seq_len = 512 };

struct writer {
	FILE *file;
	uint64_t state;
};

static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Uniform; with `gain` 1 a layer's outputs are as large as its inputs. */
static void write_rows(struct writer *w, uint64_t rows, int32_t columns, float gain)
{
	float scale = gain * sqrtf(12.0f / (float)columns);

	for (uint64_t i = 0; i < rows * (uint64_t)columns; i++) {
		float value = ((float)(next(&w->state) >> 40) * 0x1p-24f - 0.5f) * scale;

		fwrite(&value, sizeof(value), 1, w->file);
	}
}

static void write_matrix(struct writer *w, uint64_t rows, int32_t columns)
{
	write_rows(w, rows, columns, 1);
}

/* One row a token. Marks, bytes and single characters are unlikely. */
static void write_tokens(struct writer *w, const struct model_config *c)
{
	uint64_t count = (uint64_t)c->vocab_size, rare = count < RARE ? count : RARE;

	write_rows(w, rare, c->dim, 0.1f);
	write_matrix(w, count - rare, c->dim);
}

static void write_constant(struct writer *w, uint64_t count, float value)
{
	for (uint64_t i = 0; i < count; i++)
		fwrite(&value, sizeof(value), 1, w->file);
}

static void write_model(struct writer *w, const struct model_config *c, bool shared)
{
	const int32_t header[] = {
		c->dim,	       c->hidden_dim,	 c->layer_count,
		c->head_count, c->kv_head_count, shared ? c->vocab_size : -c->vocab_size,
		c->seq_len
	};
	uint64_t layers = (uint64_t)c->layer_count, dim = (uint64_t)c->dim;
	uint64_t hidden = (uint64_t)c->hidden_dim, kv = (uint64_t)model_kv_dim(c);

	fwrite(header, sizeof(header), 1, w->file);
	write_tokens(w, c);
	write_constant(w, layers * dim, 1);
	write_matrix(w, layers * dim, c->dim);
	write_matrix(w, layers * kv, c->dim);
	write_matrix(w, layers * kv, c->dim);
	write_matrix(w, layers * dim, c->dim);
	write_constant(w, layers * dim, 1);
	write_matrix(w, layers * hidden, c->dim);
	write_matrix(w, layers * dim, c->hidden_dim);
	write_matrix(w, layers * hidden, c->dim);
	/* Logits far enough apart that one of them is clearly the best. */
	write_constant(w, dim, 4);
	write_constant(w, (uint64_t)c->seq_len * (uint64_t)model_head_size(c), 0);
	if (!shared)
		write_tokens(w, c);
}

static void write_piece(struct writer *w, float score, const char *text)
{
	int32_t bytes = (int32_t)strlen(text);

	fwrite(&score, sizeof(score), 1, w->file);
	fwrite(&bytes, sizeof(bytes), 1, w->file);
	fwrite(text, 1, (size_t)bytes, w->file);
}

/* Marks, raw bytes, then syllables: a word's first has a space before it. */
static void write_tokenizer(struct writer *w, int32_t vocab_size)
{
	static const char consonants[] = "bdfghklmnprstvwz", vowels[] = "aeiou";
	static const char *const marks[] = { "<unk>", "\n<s>\n", "\n</s>\n" };
	const int32_t longest = 16;
	char text[20];

	fwrite(&longest, sizeof(longest), 1, w->file);
	for (int32_t id = 0; id < vocab_size; id++) {
		int32_t i = id - CHARS_FROM;

		if (id < 3)
			snprintf(text, sizeof(text), "%s", marks[id]);
		else if (id < CHARS_FROM)
			snprintf(text, sizeof(text), "<0x%02X>", (unsigned int)(id - 3));
		else if (i < 95)
			snprintf(text, sizeof(text), "%c", ' ' + i);
		else if (i < 95 + 160)
			snprintf(text, sizeof(text), "%s%c%c", i % 2 ? " " : "",
				 consonants[(i - 95) / 2 / 5], vowels[(i - 95) / 2 % 5]);
		else
			snprintf(text, sizeof(text), "%%%d", id);
		write_piece(w, (float)-id, text);
	}
}

/* An empty file in memory; the stream has a descriptor of its own. */
static int begin(const char *name, struct writer *w, int *fd_out, char path_out[32])
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	int copy = fd < 0 ? -1 : dup(fd);

	w->file = copy < 0 ? NULL : fdopen(copy, "wb");
	if (!w->file) {
		int err = -errno;

		if (copy >= 0)
			close(copy);
		if (fd >= 0)
			close(fd);
		return decode_fail(err, "%s: %s", name, strerror(-err));
	}
	w->state = 1;
	*fd_out = fd;
	snprintf(path_out, 32, "/proc/self/fd/%d", fd);
	return 0;
}

static int end(const char *name, struct writer *w)
{
	int failed = ferror(w->file);

	return fclose(w->file) || failed
		       ? decode_fail(-ENOSPC, "%s: not written whole", name)
		       : 0;
}

int made_open(const struct model_config *config, bool shared_classifier, struct made *out)
{
	struct made made = { .model_fd = -1, .tokenizer_fd = -1 };
	struct writer w;
	int err = begin("model", &w, &made.model_fd, made.model);

	if (!err) {
		write_model(&w, config, shared_classifier);
		err = end("model", &w);
	}
	if (!err)
		err = begin("tokenizer", &w, &made.tokenizer_fd, made.tokenizer);
	if (!err) {
		write_tokenizer(&w, config->vocab_size);
		err = end("tokenizer", &w);
	}
	if (err)
		made_close(&made);
	else
		*out = made;
	return err;
}

void made_close(struct made *made)
{
	if (made->model_fd >= 0)
		close(made->model_fd);
	if (made->tokenizer_fd >= 0)
		close(made->tokenizer_fd);
	made->model_fd = made->tokenizer_fd = -1;
}
