/* SPDX-License-Identifier: MIT */
/* What the tests of device memory share: patterns, seeds, counts. */
#ifndef RPI_TESTS_DEVICE_H
#define RPI_TESTS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/ringplane.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* What RINGPLANE_TEST_SEED says, or `usual`; printed. */
uint64_t device_seed(uint64_t usual);

/* Bytes that tell where they are and whose: no two seeds or offsets alike. */
void device_fill(void *at, size_t bytes, uint64_t seed);

/* Whether they are all there; prints the first that is not. */
bool device_holds(const void *at, size_t bytes, uint64_t seed);

/* Bytes of a chip's memory that the worker has given out. */
uint64_t device_committed(struct rp_worker *worker, uint32_t chip);

/* Up, down and compared, all of it with its own buffers: 0, or the error. */
int device_round_trip(struct rp_worker *worker, uint32_t chip, uint64_t address,
		      size_t bytes, uint64_t seed);

#endif
