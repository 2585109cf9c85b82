/* SPDX-License-Identifier: MIT */
/*
 * What captures want to know of each kernel when it is submitted: its name, when, and
 * whom it follows, all of them, whether those have ended or not. Used by the submitter,
 * while somebody wants it; it may allocate.
 */
#ifndef RPI_RUNTIME_NOTE_H
#define RPI_RUNTIME_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/kernel.h>

#include "memory/history.h"

struct rpi_runtime;
struct rpi_scope;

/* The `end` of a record of an edge. */
static inline uint64_t rpi_note_why(enum rpi_reason reason, uint32_t from_arg,
				    uint32_t to_arg)
{
	return (uint64_t)reason | (uint64_t)from_arg << 8 | (uint64_t)to_arg << 32;
}

#define RPI_NOTE_REASON(why)   ((enum rpi_reason)((why)&0xff))
#define RPI_NOTE_FROM_ARG(why) ((uint32_t)((why) >> 8) & 0xffffff)
#define RPI_NOTE_TO_ARG(why)   ((uint32_t)((why) >> 32))

/* Bytes of a name in one record, and the `value` of the record: which kernel's, and
 * which part. A kernel without a name has one record, of an empty name. */
#define RPI_NOTE_NAME_BYTES 16
#define RPI_NAME_PARTS	    4 /* at most */

static inline uint64_t rpi_note_name_value(uint64_t index, uint32_t part)
{
	return (index & (UINT64_MAX >> 8)) | (uint64_t)part << 56;
}

#define RPI_NOTE_INDEX(value) ((value) & (UINT64_MAX >> 8))
#define RPI_NOTE_PART(value)  ((uint32_t)((value) >> 56))

struct rpi_kernel_notes {
	uint64_t ticks; /* when the kernel that is being submitted was */
	struct rpi_history history;
	/* uint32_t, the index of each kernel in its ring, from the run's first. */
	struct rpi_list ids[RP_RING_COUNT];
	uint64_t first_seq[RP_RING_COUNT];
	bool fresh[RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS]; /* arguments */
};

/* A kernel was checked and is about to go into its ring; is there, or has run. */
void rpi_note_before(struct rpi_runtime *runtime, const struct rp_kernel *kernel);
void rpi_note_after(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		    const struct rp_kernel *kernel, rp_kernel_id id);

/* The run is over. */
void rpi_note_end(struct rpi_runtime *runtime);

#endif
