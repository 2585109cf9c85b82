/* SPDX-License-Identifier: MIT */
/* A thread of the library in the host's process. */
#ifndef RPI_PROCESS_THREAD_H
#define RPI_PROCESS_THREAD_H

#include <pthread.h>

/*
 * Start one that takes no signal of the host's and has a main thread's stack: entries
 * run on a copy of it, or orchestrations on it. `name` shows in `ps -L`; at most 15
 * characters, static. 0, or a negative errno with an error line.
 */
int rpi_thread_start(pthread_t *thread_out, const char *name, void *(*body)(void *),
		     void *arg);

#endif
