/* SPDX-License-Identifier: MIT */
/* Texts that somebody else gave, names among them: they may hold any bytes, but files of
 * JSON must not. */
#ifndef RPI_BASE_UTF8_H
#define RPI_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character that begins there, 1 to 4; 0: that is none. Not at the end. */
size_t rpi_utf8_length(const char *at);

/* Copy what fits, no part of a character; a byte that belongs to none becomes '?'. */
void rpi_utf8_copy(char *buf, size_t bytes, const char *text);

#endif
