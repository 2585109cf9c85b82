/* SPDX-License-Identifier: MIT */
#include "process/leave.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

/* What the C++ ABI asks of a libc: atexit() with a key to take handlers back by. */
int __cxa_atexit(void (*handler)(void *arg), void *arg, void *key);
void __cxa_finalize(void *key);

/* Set once, before the process has a second thread. */
static bool in_worker_process;

static void leave(int status, void *unused)
{
	(void)unused;
	_exit(status);
}

/* Runs first of all, but is not told the status. One that is, registered now, is the
 * next to run. */
static void on_exit_begun(void *unused)
{
	(void)unused;
	/* The parent's own exit(), a child of the host's, or rpi_leave_unregister(). */
	if (!in_worker_process)
		return;
	if (on_exit(leave, NULL))
		_exit(EXIT_FAILURE);
}

int rpi_leave_register(void *key)
{
	if (__cxa_atexit(on_exit_begun, NULL, key))
		return rpi_fail(-ENOMEM,
				"rp_worker_prepare: no memory for an exit handler");
	return 0;
}

void rpi_leave_unregister(void *key)
{
	__cxa_finalize(key);
}

void rpi_leave_quietly(void)
{
	in_worker_process = true;
	__fpurge(stdout);
	__fpurge(stderr);
}
