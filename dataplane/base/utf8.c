/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* How many bytes the first one announces, and the least value that needs so many. */
static size_t announced(uint8_t first, uint32_t *least_out)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const size_t length = first < 0x80	   ? 1
			      : first >> 5 == 0x06 ? 2
			      : first >> 4 == 0x0e ? 3
			      : first >> 3 == 0x1e ? 4
						   : 0;

	*least_out = least[length];
	return length;
}

size_t rpi_utf8_length(const char *at)
{
	const uint8_t *bytes = (const uint8_t *)at;
	uint32_t least, value;
	size_t length = announced(bytes[0], &least), i;

	if (length < 2)
		return length;
	value = bytes[0] & (0x7fu >> length);
	/* The final zero is no continuation: nothing behind it is read. */
	for (i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (bytes[i] & 0x3f);
	}
	/* Written longer than need be, half of a pair, or past the last character. */
	if (value < least || (value >= 0xd800 && value < 0xe000) || value > 0x10ffff)
		return 0;
	return length;
}

void rpi_utf8_copy(char *buf, size_t bytes, const char *text)
{
	size_t used = 0;

	while (*text) {
		const size_t length = rpi_utf8_length(text);
		const size_t taken = length ? length : 1;

		if (used + taken >= bytes)
			break;
		if (length)
			memcpy(buf + used, text, length);
		else
			buf[used] = '?';
		used += taken;
		text += taken;
	}
	buf[used] = '\0';
}
