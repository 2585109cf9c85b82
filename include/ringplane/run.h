/* SPDX-License-Identifier: MIT */
/* What a host orchestration does: look at the run, enqueue its tasks. */
#ifndef RINGPLANE_RUN_H
#define RINGPLANE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_run_config;

/* Let the worker choose: chips in turn, in submit order, from chip 0 in each run. */
#define RP_CHIP_ANY (-1)

/* One unit of work on one chip. */
struct rp_task {
	uint32_t entry; /* index into the program's entries */
	int32_t chip;	/* 0..rp_run_chip_count()-1, or RP_CHIP_ANY */
	const struct rp_arg *args;
	uint32_t arg_count;
	uint32_t flags; /* must be 0 */
};

/*
 * Enqueue a task. It may start before this call returns, or only when the
 * orchestration has returned: nothing but a copy (device.h) can wait there for what it
 * does. Tasks of one chip run in the order they were enqueued. Tasks of different
 * processes are ordered by the memory that they name: one that reads or writes what an
 * earlier one writes starts after that one has ended; one that writes what an earlier one
 * reads starts after that one has taken its inputs (with unified memory: after it has
 * ended). Views of one buffer that share no byte are independent.
 *
 * task     read during the call only.
 * Threads  the orchestration's own, until it returns.
 * Blocks   when the chip's ring is full, until it has room.
 * Returns  0
 *          -EINVAL     entry, chip, flags, an argument's kind or shape, two
 *                      overlapping written tensors, more than
 *                      RP_MAX_TASK_TENSORS or RP_MAX_TASK_SCALARS, a resident
 *                      tensor that lies on another chip
 *          -EACCES     an access that the program's parameter, or a read-only
 *                      inherited range, does not grant
 *          -EFAULT     host memory that the chips can't see
 *          -ENOSPC     the arguments don't fit the worker's arg_ring_bytes
 *          -ESTALE, -EXDEV, -ERANGE  a resident tensor that was freed, is another
 *                      worker's, or reaches past its allocation
 *          -ENOMEM     for the notes on who follows whom
 *          -EOWNERDEAD a worker process died, or was killed by a close that came to
 *                      its deadline
 *          -EPROTO     a process wrote what it never may into shared memory
 * Spec     001, DistributedWorker; 002, Distributed (L3+) programs
 */
RP_API int rp_run_task(struct rp_run *run, const struct rp_task *task);

/*
 * Enqueue a callback of the program, ordered like a task by the memory it
 * names. Callbacks see host memory only. Threads and blocking as rp_run_task().
 *
 * Returns  as rp_run_task(), and
 *          -EINVAL  arguments that its signature does not have
 *          -ENOENT  it is optional, and the worker has not bound it
 */
RP_API int rp_run_callback(struct rp_run *run, uint32_t callback,
			   const struct rp_arg *args, uint32_t arg_count);

/* Whether the worker has a function for it; always true of one that is not optional. */
RP_API bool rp_run_callback_bound(const struct rp_run *run, uint32_t callback);

/* The program that is dispatched: rp_program_scalar() tells what it was built with. */
RP_API const struct rp_program *rp_run_program(const struct rp_run *run);

RP_API uint32_t rp_run_chip_count(const struct rp_run *run);

/* Numbers the worker's runs, from 1 and upwards; entries see the same one. A submit that
 * is refused may use up a number, which no other run then has. */
RP_API uint64_t rp_run_id(const struct rp_run *run);

/* Of a dispatch that is run twice for its capture (capture.h): 1 in the first run, 2 in
 * the second. 0: it runs once. */
RP_API uint32_t rp_run_pass(const struct rp_run *run);

/* This run's own copy of its configuration. */
RP_API const struct rp_run_config *rp_run_get_config(const struct rp_run *run);

/* Write the orchestration's error line and return `code`. */
RP_API int rp_run_fail(struct rp_run *run, int code, const char *format, ...)
	__attribute__((cold, format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
