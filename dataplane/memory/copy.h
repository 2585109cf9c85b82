/* SPDX-License-Identifier: MIT */
/*
 * Copy loops. Non-temporal ones write around the caches: right for bytes that nobody
 * here reads soon, wrong for small ones. The widest that the processor has is chosen
 * once, at run time; elsewhere than on x86-64 it is memcpy().
 *
 * Never: a system call, an allocation, a lock.
 */
#ifndef RPI_MEMORY_COPY_H
#define RPI_MEMORY_COPY_H

#include <stddef.h>

/*
 * From this size of a whole transfer on, its pieces go around the caches: a multiple of
 * what the processor says that a core's own cache holds, the multiple measured with
 * `rpbench copy` (docs/benchmark.md).
 */
size_t rpi_copy_around_bytes(void);

/* The rule alone, for a core with so large a cache; 0 or less: unknown. */
size_t rpi_copy_around_for(long cache_bytes);

/* Ask the processor what it has now, so that no copy has to; a forked process inherits
 * what was found. */
void rpi_copy_setup(void);

/* Around the caches. Ends in a store fence: a release store that follows publishes the
 * bytes. */
void rpi_copy_around(void *to, const void *from, size_t bytes);

/* The same in parts: rpi_copy_stream() has no fence, rpi_copy_stream_end() is it. */
void rpi_copy_stream(void *to, const void *from, size_t bytes);
void rpi_copy_stream_end(void);

/* One piece of a transfer of `whole` bytes. */
void rpi_copy_stage(void *to, const void *from, size_t bytes, size_t whole);

/* "avx512", "avx2", "sse2" or "memcpy". */
const char *rpi_copy_engine(void);

/* For tests: use this engine, by name, where the processor has it; NULL chooses. False
 * when it has not. */
int rpi_copy_choose(const char *name);

#endif
