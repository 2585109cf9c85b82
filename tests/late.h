/* SPDX-License-Identifier: MIT */
/* For tests of shared memory that comes and goes while worker processes serve. */
#ifndef RPI_TESTS_LATE_H
#define RPI_TESTS_LATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "support.h"

#define LATE_BYTES ((size_t)2 << 20)

/* A region of its own, each byte `fill`. */
void *late_block(int fill);

/* Its first `count` elements, as RP_INT64. */
struct rp_tensor late_tensor(void *block, int64_t count);

/* Whether a process has readable memory there. */
bool late_is_mapped(pid_t pid, const void *addr);

/* KiB of that mapping that the process has page tables for; -1 when there is none. */
long late_resident_kib(pid_t pid, const void *addr);

/* Until every process of the worker has, or none: false after the patience. */
bool late_all_mapped(struct bed *bed, const void *addr, bool mapped);

/* Count a named point of the library, and have it fail or worse; for this process and
 * those that are forked from then on, which share the words. */
struct late_hook {
	_Atomic uint64_t passed; /* times that somebody came by */
	_Atomic int64_t left;	 /* so many pass; then it does what `deed` says */
	_Atomic int deed;	 /* a negative errno, or one of these */
	_Atomic int pid;	 /* only in this process; 0: in any */
	char point[32];
};

#define LATE_PASS 0
#define LATE_DIE  1 /* by SIGKILL */
#define LATE_HOLD 2 /* until `deed` changes */

/* Two of them, shared; hooks[1] is for a second point. NULL names nothing. */
extern struct late_hook *late_hooks;
void late_hook_set(int which, const char *point, int64_t left, int deed);
void late_hook_clear(void);

/* setup and teardown of such a test: bed_setup() and the hooks. */
int late_setup(void **state);
int late_teardown(void **state);

#endif
