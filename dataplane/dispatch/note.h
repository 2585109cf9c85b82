/* SPDX-License-Identifier: MIT */
/* The tasks of a run as its orchestration enqueued them, for captures. */
#ifndef RPI_DISPATCH_NOTE_H
#define RPI_DISPATCH_NOTE_H

#include <stdint.h>

#include <ringplane/program.h>

#include "base/list.h"
#include "dispatch/plane.h"
#include "memory/view.h"

struct rpi_note_arg {
	struct rp_arg arg;
	struct rpi_view view; /* of a tensor: addresses, or offsets in a resident one */
};

struct rpi_note_task {
	uint64_t seq; /* on its process */
	uint32_t peer;
	enum rpi_op op;
	uint16_t program, entry; /* indices */
	uint32_t arg_at, arg_count;
	uint32_t dep_at, dep_count; /* tasks of other processes that it waits for */
};

struct rpi_notes {
	struct rpi_list tasks; /* struct rpi_note_task, in the order of the enqueuing */
	struct rpi_list args;  /* struct rpi_note_arg */
	struct rpi_list deps;  /* struct rpi_dep */
	int err;	       /* -ENOMEM: they are not whole */
};

/* A checked task that is about to be sent; run->follow is what it follows. */
void rpi_note_task(struct rp_run *run, uint32_t peer, uint64_t seq,
		   const struct rpi_task_body *body, const struct rpi_args *given);

void rpi_notes_free(struct rpi_notes *notes);

#endif
