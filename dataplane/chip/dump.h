/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a task as its entry sees them, before and after it, put into the
 * process's pipe: for each a head, `sent` bytes, and a tail. Elements are packed in
 * row-major order whatever the strides.
 */
#ifndef RPI_CHIP_DUMP_H
#define RPI_CHIP_DUMP_H

#include <assert.h>
#include <stdint.h>

#include <ringplane/tensor.h>

#include "dispatch/wire.h"

struct rp_chip;

enum rpi_dump_phase {
	RPI_DUMP_BEFORE = 0, /* all arguments; the bytes of what is read */
	RPI_DUMP_AFTER = 1,  /* tensors that are written, with their bytes */
};

struct rpi_dump_head {
	uint64_t run_seq;
	uint64_t task_seq;
	uint64_t bytes; /* of the tensor, packed */
	uint64_t sent;	/* of them, behind this */
	uint64_t bits;	/* of a scalar */
	int64_t shape[RP_MAX_DIMS];
	int64_t strides[RP_MAX_DIMS]; /* in elements, as the entry sees them */
	uint16_t program, entry;      /* indices, as in a task */
	uint16_t arg, arg_count;
	uint8_t phase; /* enum rpi_dump_phase */
	uint8_t kind;  /* enum rp_arg_kind */
	uint8_t dtype;
	uint8_t rank;
	uint8_t access;
	uint8_t reserved[3];
};

static_assert(sizeof(struct rpi_dump_head) == 136, "no holes: it leaves the process");

struct rpi_dump_tail {
	int64_t err; /* 0, or why the bytes are not the tensor's */
};

/* Waits while the pipe is full. */
void rpi_dump_args(struct rp_chip *chip, const struct rpi_task_body *task,
		   enum rpi_dump_phase phase);

#endif
