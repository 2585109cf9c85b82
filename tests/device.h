/* SPDX-License-Identifier: MIT */
/* What the tests of device memory share: patterns, seeds, counts, traps. */
#ifndef RPI_TESTS_DEVICE_H
#define RPI_TESTS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ringplane/ringplane.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct bed;

/* The setup and teardown of a test on one worker of the support program, whose chips
 * have so much memory; traps are ready. */
int device_setup(void **state, struct bed *bed, uint32_t chip_count, size_t memory_bytes);
int device_teardown(void **state, struct bed *bed);

/* Raw memory of a chip; the test fails without. */
uint64_t device_must_alloc(struct bed *bed, uint32_t chip, size_t bytes);

/* What RINGPLANE_TEST_SEED says, or `usual`; printed. */
uint64_t device_seed(uint64_t usual);

/* Bytes that tell where they are and whose: no two seeds or offsets alike. */
void device_fill(void *at, size_t bytes, uint64_t seed);

/* Whether they are all there; prints the first that is not. */
bool device_holds(const void *at, size_t bytes, uint64_t seed);

/* Bytes of a chip's memory that the worker has given out: all but the chip's arenas. */
uint64_t device_committed(struct rp_worker *worker, uint32_t chip);

/* Up, down and compared, all of it with its own buffers: 0, or the error. */
int device_round_trip(struct rp_worker *worker, uint32_t chip, uint64_t address,
		      size_t bytes, uint64_t seed);

/*
 * Traps at the library's test points, in this process and in those forked after
 * trap_install(). One is set at a time; `where` is the process that steps into it, 0 any,
 * and `nth` the time, from 1 on, that it does.
 */
void trap_install(void);

/* The point fails `times` times. */
void trap_fail(const char *point, pid_t where, unsigned nth, unsigned times, int err);

/* A process is killed at the point, which goes on only when that one is gone. */
void trap_kill(const char *point, pid_t where, unsigned nth, pid_t victim);

/* Whoever comes to the point waits until `others` have: false in trap_met() when that
 * took longer than anybody's patience. */
void trap_meet(const char *point, unsigned others);
bool trap_met(void);

void trap_off(void);

/* How often the set trap's point was passed, and remove the traps. */
unsigned trap_hits(void);
void trap_uninstall(void);

#endif
