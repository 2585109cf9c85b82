/* SPDX-License-Identifier: MIT */
#include "textfile.h"

#include <errno.h>
#include <stdio.h>

int bench_textfile_write(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");
	int err = 0;

	if (!out)
		return -errno;
	if (fputs(text, out) < 0)
		err = -errno;
	if (fclose(out) && !err)
		err = -errno;
	return err;
}
