/* SPDX-License-Identifier: MIT */
/* A piece of a test in a process of its own: for limits and filters that nothing takes
 * back, and for what must not have happened before. */
#ifndef RPI_TESTS_CHILD_H
#define RPI_TESTS_CHILD_H

#include <stdbool.h>
#include <stdint.h>

/* What a piece returns. PROC_MUST() in it names the line and ends it there. */
#define CHILD_OK    0
#define CHILD_BAD   1
#define CHILD_SKIPS 77

/* Run it to its end; where it skips, so does the test, for want of `missing`. */
void assert_child(int (*piece)(void), const char *missing);

/* In a child: from now on this process's call `nr` fails with err; arg < 0: whatever its
 * arguments, else when that argument is value. False: not to be had here. */
bool child_deny(int nr, int arg, uint32_t value, int err);

#endif
