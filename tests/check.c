/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <math.h>
#include <string.h>

void check_line(const char *file, int line, const char *text, const char *const *needles)
{
	for (; *needles; needles++) {
		if (strstr(text, *needles))
			continue;
		print_error("the line is \"%s\", it lacks \"%s\"\n", text, *needles);
		_fail(file, line);
	}
}

void check_ok(const char *file, int line, int err)
{
	if (!err)
		return;
	print_error("%d (%s): \"%s\"\n", err, strerror(err < 0 ? -err : err),
		    rp_last_error());
	_fail(file, line);
}

void check_near(const char *file, int line, double got, double want)
{
	if (fabs(got - want) <= 1e-9 * fabs(want))
		return;
	print_error("%.17g, expected %.17g\n", got, want);
	_fail(file, line);
}

static size_t skipped;

void check_skip(const char *file, int line)
{
	skipped++;
	_skip(file, line);
}

int check_status(int failed, size_t count)
{
	return !failed && skipped == count ? 77 : failed;
}
