/* SPDX-License-Identifier: MIT */
#include "trace/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void rpi_text_put(struct rpi_text *out, const char *fmt, ...)
{
	bool fits = out->used < out->bytes;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(fits ? out->buf + out->used : NULL,
		      fits ? out->bytes - out->used : 0, fmt, args);
	va_end(args);
	if (n > 0)
		out->used += (size_t)n;
}
