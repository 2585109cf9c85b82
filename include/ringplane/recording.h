/* SPDX-License-Identifier: MIT */
/*
 * A recording is what one dispatch's orchestration enqueued. Replayed, the same tasks are
 * enqueued with other memory for the arguments, and the orchestration does not run: no
 * task is checked or compared with others again. It is for orchestrations that do the
 * same each time.
 *
 * What a replay is refused for (-EINVAL), rather than be wrong: another shape, another
 * value of a scalar, host memory in place of device memory or the other way round, device
 * memory on another chip, arguments that share other bytes with each other, or with
 * memory of the orchestration's own, than when it was recorded, and, if the orchestration
 * has read its configuration, another configuration. What it can't see, and the caller
 * promises: that the orchestration depends on nothing else, such as what is in the memory
 * of its arguments, or its own variables.
 */
#ifndef RINGPLANE_RECORDING_H
#define RINGPLANE_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/handle.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_recording;
struct rp_run_config;
struct rp_worker;

/*
 * Dispatch as rp_worker_run() does, and keep what the orchestration enqueues.
 *
 * recording_out  end it with rp_recording_free(); before or after the worker.
 *
 * Threads     any. Blocks: yes.
 * Returns     0
 *             -EOPNOTSUPP  the run has ended well, but can't be replayed: the
 *                          orchestration copies, takes a comm domain, asks for the run's
 *                          number, or names memory that is an argument's only in part;
 *                          or nothing has run: the worker has a dispatcher, or a
 *                          capture is asked for
 *             -ENOMEM
 *             other        what rp_worker_run() returns
 */
RP_API int rp_worker_record(struct rp_worker *worker, struct rp_program *program,
			    const struct rp_arg *args, size_t nargs,
			    const struct rp_run_config *config,
			    struct rp_recording **recording_out);

/*
 * Replay, and wait for the end.
 *
 * args, config  as for rp_worker_run().
 * wall_ns_out   NULL, or how long it took, set on success; ns.
 *
 * Threads     any, several at once. Blocks: yes.
 * Returns     0
 *             -EINVAL  a NULL; what a replay is refused for; nothing was enqueued
 *             -EFAULT  memory of the orchestration's own has been freed
 *             -ESTALE  the worker was freed
 *             -EOPNOTSUPP  a capture is asked for
 *             other    what rp_worker_run() returns
 */
RP_API int rp_recording_run(struct rp_recording *recording, const struct rp_arg *args,
			    size_t nargs, const struct rp_run_config *config,
			    uint64_t *wall_ns_out);

/* Replay as rp_worker_submit() dispatches. Errors as above, and its own. */
RP_API int rp_recording_submit(struct rp_recording *recording, const struct rp_arg *args,
			       size_t nargs, const struct rp_run_config *config,
			       struct rp_handle *handle_out);

/* How many tasks one replay enqueues; 0 for NULL. */
RP_API size_t rp_recording_task_count(const struct rp_recording *recording);

/* No call on it may be going on; what it has enqueued goes on. NULL is ignored. */
RP_API void rp_recording_free(struct rp_recording *recording);

#ifdef __cplusplus
}
#endif

#endif
