/* SPDX-License-Identifier: MIT */
#ifndef RPI_BASE_ERROR_H
#define RPI_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include <ringplane/error.h>

/* Bytes of an error line, the final zero included. */
#define RPI_ERROR_BYTES 512

/*
 * Write this thread's error line and return `code`, so that a check can end in
 * `return rpi_fail(-EINVAL, "call: argument value, expected ...", ...)`.
 * Cold: kept out of line on purpose.
 */
__attribute__((cold, format(printf, 2, 3))) int rpi_fail(int code, const char *fmt, ...);
__attribute__((cold, format(printf, 2, 0))) int rpi_vfail(int code, const char *fmt,
							  va_list args);

#ifdef __clang_analyzer__
/* So that the analyser knows that the call returns what it was given. */
#define rpi_fail(code, ...) (rpi_fail(code, __VA_ARGS__), (code))
#endif

/* Set this thread's line to a text that was written elsewhere (cached outcome). */
__attribute__((cold)) void rpi_error_set(const char *line);

/* Log one line. The arguments are evaluated; the line is built only when the
 * level is wanted. */
__attribute__((cold, format(printf, 2, 3))) void rpi_log(enum rp_log_level level,
							 const char *fmt, ...);

/* Log a line that may be longer than an error line. */
void rpi_log_line(enum rp_log_level level, const char *line);

/* snprintf() that always ends in a zero and returns what was really written. */
__attribute__((format(printf, 3, 4))) size_t rpi_format(char *buf, size_t bytes,
							const char *fmt, ...);

#endif
