/* SPDX-License-Identifier: MIT */
/*
 * exit() in a worker process, by whichever of its threads, ends it there and then: no
 * handler and no stdio buffer of the host application runs twice.
 *
 * libc calls exit handlers newest first, so ours must be the newest that a child has.
 * It is registered in the parent just before the forks and taken back after them. A
 * child can't do it: that takes libc's lock on its handlers, and where a thread of the
 * host held it at the fork (in atexit(), dlclose(), exit()) nobody gives it back there.
 * An exit() in the child takes that lock too, and hangs then as in any forked process.
 */
#ifndef RPI_PROCESS_LEAVE_H
#define RPI_PROCESS_LEAVE_H

/* Parent: around the forks. `key` is an address that nobody else uses as one. 0, or
 * -ENOMEM with an error line. */
int rpi_leave_register(void *key);
void rpi_leave_unregister(void *key);

/* Child: from here on exit() is that of a worker process. Takes no lock. */
void rpi_leave_quietly(void);

#endif
