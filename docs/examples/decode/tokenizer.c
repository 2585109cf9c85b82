/* SPDX-License-Identifier: MIT */
#include "tokenizer.h"

#include <errno.h>
#include <float.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/host.h>

#include "fail.h"

/* The ids of the 256 raw bytes begin here. */
#define BYTES_FROM 3
#define PIECE_MAX  4096

struct piece {
	const char *text;
	uint32_t bytes;
	float score;
	int32_t id;
};

struct tokenizer {
	struct rp_host_range file;
	struct piece *pieces; /* by id */
	struct piece *sorted; /* by text */
	int32_t count;
	uint32_t longest; /* bytes of a piece */
	char raw[256];	  /* what a raw byte's piece stands for */
};

static int by_text(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	uint32_t bytes = x->bytes < y->bytes ? x->bytes : y->bytes;
	int order = memcmp(x->text, y->text, bytes);

	if (order)
		return order;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	/* Of equal pieces the first one is found. */
	return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t find(const struct tokenizer *t, const char *text, size_t bytes)
{
	const struct piece key = { .text = text, .bytes = (uint32_t)bytes, .id = -1 };
	int32_t low = 0, high = t->count;

	while (low < high) {
		int32_t middle = low + (high - low) / 2;

		if (by_text(&t->sorted[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == t->count || t->sorted[low].bytes != bytes ||
	    memcmp(t->sorted[low].text, text, bytes) != 0)
		return -1;
	return t->sorted[low].id;
}

static int read_pieces(struct tokenizer *t, const char *path)
{
	const char *at = t->file.base, *end = at + t->file.bytes;
	int32_t longest;

	if (t->file.bytes < sizeof(longest))
		return decode_fail(-EINVAL, "%s: %zu bytes, expected a tokenizer", path,
				   t->file.bytes);
	memcpy(&longest, at, sizeof(longest));
	at += sizeof(longest);
	if (longest < 1 || longest > PIECE_MAX)
		return decode_fail(-EINVAL, "%s: max_token_length %d, expected 1 to %d",
				   path, longest, PIECE_MAX);
	for (int32_t id = 0; id < t->count; id++) {
		struct piece *piece = &t->pieces[id];
		int32_t bytes;

		if ((size_t)(end - at) < sizeof(piece->score) + sizeof(bytes))
			return decode_fail(-EINVAL,
					   "%s: ends before token %d, expected %d, the "
					   "model's vocab_size",
					   path, id, t->count);
		memcpy(&piece->score, at, sizeof(piece->score));
		memcpy(&bytes, at + sizeof(piece->score), sizeof(bytes));
		at += sizeof(piece->score) + sizeof(bytes);
		if (bytes < 0 || bytes > longest || bytes > end - at)
			return decode_fail(
				-EINVAL, "%s: token %d of %d bytes, expected 0 to %d",
				path, id, bytes,
				longest < end - at ? longest : (int)(end - at));
		piece->text = at;
		piece->bytes = (uint32_t)bytes;
		piece->id = id;
		if (piece->bytes > t->longest)
			t->longest = piece->bytes;
		at += bytes;
	}
	if (at != end)
		return decode_fail(-EINVAL,
				   "%s: %td bytes behind token %d, expected none: the "
				   "model's vocab_size is %d",
				   path, end - at, t->count - 1, t->count);
	return 0;
}

int tokenizer_open(const char *path, int32_t vocab_size, struct tokenizer **out)
{
	struct tokenizer *t;
	int err;

	if (vocab_size < BYTES_FROM + 256)
		return decode_fail(-EINVAL,
				   "vocab_size %d, expected %d or more: three marks and "
				   "256 bytes",
				   vocab_size, BYTES_FROM + 256);
	t = calloc(1, sizeof(*t));
	if (!t)
		return decode_fail(-ENOMEM, "%s: no memory", path);
	t->count = vocab_size;
	t->pieces = calloc((size_t)vocab_size, sizeof(*t->pieces));
	t->sorted = calloc((size_t)vocab_size, sizeof(*t->sorted));
	err = t->pieces && t->sorted ? decode_pass(rp_map_file(path, 0, 0, &t->file))
				     : decode_fail(-ENOMEM, "%s: no memory", path);
	if (!err)
		err = read_pieces(t, path);
	if (err) {
		tokenizer_close(t);
		return err;
	}
	memcpy(t->sorted, t->pieces, (size_t)vocab_size * sizeof(*t->sorted));
	qsort(t->sorted, (size_t)vocab_size, sizeof(*t->sorted), by_text);
	for (int byte = 0; byte < 256; byte++)
		t->raw[byte] = (char)byte;
	*out = t;
	return 0;
}

void tokenizer_close(struct tokenizer *t)
{
	if (!t)
		return;
	if (t->file.base)
		rp_unmap_file(&t->file);
	free(t->pieces);
	free(t->sorted);
	free(t);
}

/* BOS, the space before the text, and a token for each byte at most. */
size_t tokenizer_room(const char *text)
{
	return strlen(text) + 2;
}

size_t tokenizer_least(const struct tokenizer *t, const char *text)
{
	/* A raw byte is a token of its own, whatever the pieces are. */
	size_t most = t->longest ? t->longest : 1;

	return 1 + strlen(text) / most;
}

/* Bytes of the character that starts here: a lead byte and what continues it. */
static size_t character(const char *text)
{
	size_t bytes = 1;

	while (bytes < 4 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
		bytes++;
	return bytes;
}

/* Join the neighbours whose joined piece has the best score. False: there are none. */
static bool merge_best(const struct tokenizer *t, int32_t *tokens, size_t *count)
{
	char joined[2 * PIECE_MAX];
	float best_score = -FLT_MAX;
	size_t best = SIZE_MAX;
	int32_t best_id = -1;

	for (size_t i = 0; i + 1 < *count; i++) {
		const struct piece *a = &t->pieces[tokens[i]],
				   *b = &t->pieces[tokens[i + 1]];
		int32_t id;

		memcpy(joined, a->text, a->bytes);
		memcpy(joined + a->bytes, b->text, b->bytes);
		id = find(t, joined, (size_t)a->bytes + b->bytes);
		if (id >= 0 && t->pieces[id].score > best_score) {
			best_score = t->pieces[id].score;
			best = i;
			best_id = id;
		}
	}
	if (best == SIZE_MAX)
		return false;
	tokens[best] = best_id;
	memmove(&tokens[best + 1], &tokens[best + 2],
		(*count - best - 2) * sizeof(*tokens));
	*count -= 1;
	return true;
}

size_t tokenizer_encode(const struct tokenizer *t, const char *text, int32_t *out)
{
	int32_t *tokens = out + 1;
	size_t count = 0;

	out[0] = TOKEN_BOS;
	if (*text) {
		int32_t space = find(t, " ", 1);

		tokens[count++] = space >= 0 ? space : BYTES_FROM + ' ';
	}
	while (*text) {
		size_t bytes = character(text);
		int32_t id = find(t, text, bytes);

		if (id >= 0)
			tokens[count++] = id;
		else
			for (size_t i = 0; i < bytes; i++)
				tokens[count++] = BYTES_FROM + (unsigned char)text[i];
		text += bytes;
	}
	while (merge_best(t, tokens, &count))
		;
	return count + 1;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t before, int32_t token,
			    size_t *bytes_out)
{
	const struct piece *piece;
	size_t skip;

	*bytes_out = 0;
	if (token < 0 || token >= t->count)
		return "";
	if (token >= BYTES_FROM && token < BYTES_FROM + 256) {
		*bytes_out = 1;
		return &t->raw[token - BYTES_FROM];
	}
	piece = &t->pieces[token];
	/* The space that encoding put before the text. */
	skip = before == TOKEN_BOS && piece->bytes && piece->text[0] == ' ';
	*bytes_out = piece->bytes - skip;
	return piece->text + skip;
}
