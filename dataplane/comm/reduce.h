/* SPDX-License-Identifier: MIT */
/*
 * Element-wise reductions. Operands are taken in the order given, ((0 op 1) op 2) ...,
 * so that all ranks compute the same bits from the same rows; NaNs come through every
 * operation, and integers wrap. 16-bit floats are added up in float32 and rounded once.
 * Elements may lie at any address.
 *
 * The widest loops that the processor has are chosen once, at run time. Never: a system
 * call, an allocation, a lock.
 */
#ifndef RPI_COMM_REDUCE_H
#define RPI_COMM_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From this size of a whole result on it goes around the caches. */
#define RPI_REDUCE_AROUND_BYTES ((size_t)4 << 20)

/* Whether there is a reduction of this dtype (enum rp_dtype) by this op. */
bool rpi_reduce_can(uint32_t dtype, uint32_t op);

/*
 * out = rows[0] op rows[1] op ... of `count` elements each. `out` may be one of the rows
 * exactly, and overlaps none of them otherwise.
 *
 * around  write the result around the caches; ends in a store fence.
 */
void rpi_reduce(void *out, const void *const *rows, uint32_t row_count, size_t count,
		uint32_t dtype, uint32_t op, bool around);

/* "avx512", "avx2" or "plain". */
const char *rpi_reduce_engine(void);

/* For tests: use this engine, by name, where the processor has it; NULL chooses. False
 * when it has not. */
bool rpi_reduce_choose(const char *name);

#endif
