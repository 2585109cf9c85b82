/* SPDX-License-Identifier: MIT */
/*
 * What an orchestration enqueued, kept so that it can be enqueued again with other
 * addresses and without the orchestration: tasks with the bytes of their arguments, where
 * in those bytes addresses stand, and whom each task follows, counted from the run's
 * start. Used under admission.
 *
 * Invariant: a replay sends what the orchestration would have sent, if that depends on
 * nothing but its arguments' kinds, shapes and scalars, how their memory overlaps, and
 * the configuration it has read. Whatever else it can ask for is noted, and refused.
 */
#ifndef RPI_DISPATCH_RECORD_H
#define RPI_DISPATCH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/worker.h>

#include "base/list.h"
#include "dispatch/plane.h"

/* An address in a task's bytes. */
struct rpi_record_fix {
	uint32_t offset; /* of the address, in all bytes of the recording */
	uint32_t param;	 /* that it lies in; RPI_FIX_NONE: none, a resident of its own */
	uint64_t delta;	 /* from the parameter's first byte */
	/* Device memory: what the task named, to be looked up again. resident 0: host. */
	struct rp_tensor tensor;
};

#define RPI_FIX_NONE UINT32_MAX

struct rpi_record_dep {
	uint64_t ordinal; /* of the task, among the run's on that process, from 0 */
	uint32_t peer;
	uint32_t loaded;
};

struct rpi_record_task {
	struct rpi_task_body body; /* but frame and run */
	uint32_t peer;
	uint32_t bytes_at, bytes;
	uint32_t fix_at, fix_count;
	uint32_t dep_at, dep_count;
};

/* Host memory outside all parameters that a task names: it stays where it is. */
struct rpi_record_constant {
	uintptr_t low, high;
};

struct rp_recording {
	uint64_t worker_id; /* control's */
	struct rpi_plane *plane;
	struct rp_program *program;
	uint32_t program_idx;
	struct rpi_list tasks;	   /* struct rpi_record_task */
	struct rpi_list bytes;	   /* uint8_t */
	struct rpi_list fixes;	   /* struct rpi_record_fix */
	struct rpi_list deps;	   /* struct rpi_record_dep */
	struct rpi_list constants; /* struct rpi_record_constant */
	struct rp_arg *args;	   /* [param_count], as recorded */
	struct rpi_grant *grants;  /* [grant_count], likewise */
	uint32_t grant_count;
	uint64_t first_seq[RP_MAX_PEERS]; /* of the recorded run, on each process */
	bool reads_config;
	struct rp_run_config config; /* what it has read */
	/* Not NULL: why this orchestration can't be replayed. */
	const char *refused;
	int err; /* it could not be kept */
};

/* Empty, for one run. */
int rpi_recording_begin(struct rp_recording *recording, struct rpi_plane *plane,
			struct rp_program *program, uint32_t program_idx);
void rpi_recording_release(struct rp_recording *recording);

/* The run has its arguments, and its orchestration is about to begin; has ended. */
void rpi_record_start(struct rp_run *run);
void rpi_record_stop(struct rp_run *run);

/* A checked task that is about to be sent, and run->follow is what it follows. */
void rpi_record_task(struct rp_run *run, uint32_t peer, const struct rpi_task_body *body,
		     const struct rpi_args *given);

/* The orchestration does what no replay can do. */
static inline void rpi_record_refuse(struct rp_run *run, const char *why)
{
	if (rpi_unlikely(run->recording != NULL) && !run->recording->refused)
		run->recording->refused = why;
}

/* replay.c: enqueue the recording in a run that has its arguments. */
int rpi_replay(struct rp_run *run, const struct rp_recording *recording);

#endif
