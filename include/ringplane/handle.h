/* SPDX-License-Identifier: MIT */
#ifndef RINGPLANE_HANDLE_H
#define RINGPLANE_HANDLE_H

#include <stdint.h>

#include <ringplane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Timeouts are relative, in ns of CLOCK_MONOTONIC; 0 only looks. */
#define RP_WAIT_FOREVER INT64_C(-1)

/*
 * A handle follows one accepted dispatch to its end. Its outcome is cached: any
 * number of threads may ask, any number of times, and all hear the same, also
 * after the worker was closed. It is an index and a generation, copied freely;
 * one that was released, or whose worker was freed, is told apart (-ESTALE).
 */
struct rp_handle {
	uint64_t worker;
	uint64_t run;
};

/*
 * Wait until the dispatch has ended and return its outcome.
 *
 * Blocks      yes: spins for the worker's budget, then sleeps.
 * Threads     any, several at once.
 * Returns     0            the dispatch succeeded
 *             -ETIMEDOUT   still running, nothing changed; ask again
 *             -EOWNERDEAD  a worker process died; rp_last_error() names it
 *             -ESTALE      no such handle any more
 *             -EDEADLK     without a timeout, in an orchestration that the request is
 *                          queued behind
 *             -EINVAL      timeout_ns is below RP_WAIT_FOREVER
 *             other        the error that the dispatch ended with; an entry may
 *                          return any of these too, and rp_handle_done() then says 1
 * Spec        001, Bounded Asynchronous Dispatch
 */
RP_API int rp_handle_wait(struct rp_handle handle, int64_t timeout_ns);

/*
 * Whether the outcome is there: 1 yes, 0 not yet, -ESTALE no such handle.
 * Never blocks, never sleeps; says nothing about success.
 */
RP_API int rp_handle_done(struct rp_handle handle);

/*
 * Give the handle back. A run that is still in flight goes on; its frame is
 * recycled by a later submit or by close.
 *
 * Returns     0, or -ESTALE when it was released, or its worker freed, before.
 */
RP_API int rp_handle_release(struct rp_handle handle);

#ifdef __cplusplus
}
#endif

#endif
