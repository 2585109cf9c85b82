/* SPDX-License-Identifier: MIT */
/* The error line of each thread, and the log callback. */
#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[RPI_ERROR_BYTES];

/* Read by every process and thread, written by rp_log_set() only. Relaxed: the
 * three words are advisory; a caller that changes them while others log must
 * keep the old user pointer valid, as the header says. */
static _Atomic(rp_log_fn) log_fn;
static _Atomic(void *) log_user;
static _Atomic int log_level = RP_LOG_INFO;

const char *rp_last_error(void)
{
	return last_error;
}

int rpi_vfail(int code, const char *fmt, va_list args)
{
	/* Formatted aside: an argument may be the current line. */
	char line[RPI_ERROR_BYTES];

	vsnprintf(line, sizeof(line), fmt, args);
	memcpy(last_error, line, sizeof(line));
	return code;
}

int(rpi_fail)(int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	rpi_vfail(code, fmt, args);
	va_end(args);
	return code;
}

void rpi_error_set(const char *line)
{
	rpi_format(last_error, sizeof(last_error), "%s", line);
}

void rp_log_set(rp_log_fn fn, void *user, enum rp_log_level level)
{
	atomic_store_explicit(&log_user, user, memory_order_relaxed);
	atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
	atomic_store_explicit(&log_fn, fn, memory_order_release);
}

static bool wanted(enum rp_log_level level)
{
	return (int)level >= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void rpi_log_line(enum rp_log_level level, const char *line)
{
	rp_log_fn fn = atomic_load_explicit(&log_fn, memory_order_acquire);

	if (fn && wanted(level))
		fn(level, line, atomic_load_explicit(&log_user, memory_order_relaxed));
}

void rpi_log(enum rp_log_level level, const char *fmt, ...)
{
	char line[RPI_ERROR_BYTES];
	va_list args;

	if (!atomic_load_explicit(&log_fn, memory_order_relaxed) || !wanted(level))
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	rpi_log_line(level, line);
}

size_t rpi_format(char *buf, size_t bytes, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(buf, bytes, fmt, args);
	va_end(args);
	if (n < 0)
		return 0;
	return (size_t)n < bytes ? (size_t)n : bytes - 1;
}
