/* SPDX-License-Identifier: MIT */
/* What the cases of `rpbench reset` write into windows, chips and plain loops alike. */
#ifndef BENCH_RESET_WINDOW_H
#define BENCH_RESET_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RESET_PAGE_BYTES 4096u
#define RESET_DIRT	 UINT64_C(0xa5a5a5a5a5a5a5a5)

/* All of it, or a word in each page. */
static inline void reset_write(uint8_t *window, size_t bytes, bool sparse)
{
	const uint64_t dirt = RESET_DIRT;

	if (!sparse) {
		memset(window, (uint8_t)dirt, bytes);
		return;
	}
	for (size_t at = 0; at < bytes; at += RESET_PAGE_BYTES)
		memcpy(window + at, &dirt, sizeof(dirt));
}

/* One of the words that reset_write() writes; *at moves on to another. No division: a
 * dispatch that looks is compared with one that does nothing. */
static inline uint64_t reset_look(const uint8_t *window, size_t bytes, bool sparse,
				  size_t *at)
{
	uint64_t word;

	memcpy(&word, window + *at, sizeof(word));
	*at += RESET_PAGE_BYTES + (sparse ? 0 : sizeof(word));
	while (*at >= bytes)
		*at -= bytes;
	return word;
}

#endif
