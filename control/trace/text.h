/* SPDX-License-Identifier: MIT */
/* Text written as snprintf() does: what does not fit is counted all the same. */
#ifndef RPI_TRACE_TEXT_H
#define RPI_TRACE_TEXT_H

#include <stddef.h>

struct rpi_text {
	char *buf;
	size_t bytes, used;
};

__attribute__((format(printf, 2, 3))) void rpi_text_put(struct rpi_text *out,
							const char *fmt, ...);

#endif
