/* SPDX-License-Identifier: MIT */
/* Zeroing a window. Which loop is fastest depends on its size, and on whose cache
 * holds it: docs/benchmark.md, `rpbench reset`. */
#ifndef RPI_MEMORY_ZERO_H
#define RPI_MEMORY_ZERO_H

#include <stddef.h>

#include <ringplane/worker.h>

/* From this size on lines are asked for ahead, and from the other on the cache is left
 * alone: larger windows do not stay in it. */
#define RPI_ZERO_AHEAD_BYTES  ((size_t)2 << 10)
#define RPI_ZERO_AROUND_BYTES ((size_t)8 << 20)

/* The read-only zero bytes that RP_RESET_CHUNK copies from. */
#define RPI_ZERO_CHUNK_BYTES ((size_t)1 << 20)

/* `chunk` is used by RP_RESET_CHUNK only. Ordered before a later release. */
void rpi_zero(void *to, size_t bytes, enum rp_reset_engine engine, const void *chunk);

/* The engine that RP_RESET_AUTO takes for this size. */
enum rp_reset_engine rpi_zero_engine(size_t bytes);

#endif
