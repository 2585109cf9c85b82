/* SPDX-License-Identifier: MIT */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

#include <ringplane/error.h>

static _Thread_local char line[512];

int decode_fail(int err, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	return err;
}

int decode_pass(int err)
{
	return err ? decode_fail(err, "%s", rp_last_error()) : 0;
}

const char *decode_error(void)
{
	return line;
}
