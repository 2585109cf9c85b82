/* SPDX-License-Identifier: MIT */
/* A command of the shell, for tests of programs. */
#ifndef RPI_TESTS_SHELL_H
#define RPI_TESTS_SHELL_H

/* All that it writes to stdout; the caller's. status_out: its exit status, -1 when a
 * signal ended it. */
char *shell_run(const char *command, int *status_out);

#endif
