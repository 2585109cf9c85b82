/* SPDX-License-Identifier: MIT */
/* A program run once, with everything that this takes. */
#ifndef RINGPLANE_ONESHOT_H
#define RINGPLANE_ONESHOT_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_run_config;

/*
 * Prepare a worker for the program, run it, close the worker. Who calls it twice wants a
 * prepared worker: this forks, each time.
 *
 * program      as many chips as it needs, or one. Its callbacks have functions of their
 *              own: there is nobody to bind others.
 * args         one per parameter; host tensors only, contiguous, in any memory. What the
 *              chips can't see is copied for them, and written tensors are copied back
 *              when the run has succeeded.
 * config       NULL: the program's own, or defaults. Its rings are made ready ahead.
 * wall_ns_out  NULL, or what all of it took, also after an error; ns.
 *
 * Threads      any. Blocks: yes.
 * Returns      0
 *              -EINVAL  a NULL; a resident tensor, a strided one; found before anything
 *                       is set up
 *              other    what rp_worker_prepare(), rp_worker_run() and rp_worker_close()
 *                       return. A close that fails is tried once more; its error is
 *                       returned only where there was none before.
 * Spec         001, One-Shot
 */
RP_API int rp_program_run(struct rp_program *program, const struct rp_arg *args,
			  size_t nargs, const struct rp_run_config *config,
			  uint64_t *wall_ns_out);

#ifdef __cplusplus
}
#endif

#endif
