/* SPDX-License-Identifier: MIT */
#include "shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "check.h"

char *shell_run(const char *command, int *status_out)
{
	char chunk[4096], *text = NULL;
	size_t bytes = 0, got;
	FILE *all, *pipe;
	int status;

	fflush(NULL);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	all = open_memstream(&text, &bytes);
	assert_non_null(all);
	while ((got = fread(chunk, 1, sizeof(chunk), pipe)))
		fwrite(chunk, 1, got, all);
	fclose(all);
	status = pclose(pipe);
	*status_out = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return text;
}
