/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static bool shown;

static bool wanted(void)
{
	static int terminal = -1;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	return terminal;
}

void bench_progress(const char *fmt, ...)
{
	va_list args;

	if (!wanted())
		return;
	fputs("\r\033[K", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fflush(stderr);
	shown = true;
}

void bench_progress_erase(void)
{
	if (!shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	shown = false;
}
