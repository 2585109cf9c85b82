/* SPDX-License-Identifier: MIT */
/*
 * A worker of one chip that takes programs as they come: it is opened before it knows
 * any. Registered programs are called through handles, which is the shortest way there
 * is.
 */
#ifndef RINGPLANE_CHIP_WORKER_H
#define RINGPLANE_CHIP_WORKER_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/handle.h>
#include <ringplane/program.h>
#include <ringplane/recording.h>
#include <ringplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_chip_worker;
struct rp_registration;
struct rp_run_config;
struct rp_worker;
struct rp_worker_options;

/* Programs that one worker can take in its life. */
#define RP_CHIP_WORKER_PROGRAMS 1024

struct rp_chip_worker_options {
	size_t size; /* sizeof(struct rp_chip_worker_options) */
	/* What programs must be built for. NULL: "sim", and the runtime of that. */
	const char *platform;
	const char *runtime;
	/* All else; chip_count is 1, there are no callbacks, and backend is NULL. NULL:
	 * the defaults. Read during the call only. */
	const struct rp_worker_options *worker;
};

RP_API void rp_chip_worker_options_init(struct rp_chip_worker_options *options);

/*
 * Fork the chip's process and wait until it is ready.
 *
 * options     NULL: all defaults.
 * worker_out  end it with rp_chip_worker_close(), release it with rp_chip_worker_free().
 *
 * Threads     any. Blocks: yes, as rp_worker_prepare().
 * Returns     0
 *             -EINVAL  an option
 *             other    what rp_worker_prepare() returns
 * Spec        004, Running; 002, Reusing weights on the worker
 */
RP_API int rp_chip_worker_open(const struct rp_chip_worker_options *options,
			       struct rp_chip_worker **worker_out);

/* As rp_worker_close(), whose errors it has. Handles of registrations are closed: their
 * calls return -ESHUTDOWN. Device memory that was forgotten is freed with the chip. */
RP_API int rp_chip_worker_close(struct rp_chip_worker *worker, int64_t timeout_ns);

/* Close if that was not done, and release everything, programs too. Handles of
 * registrations stay valid, and closed. No other call may be going on. NULL: no-op. */
RP_API void rp_chip_worker_free(struct rp_chip_worker *worker);

/* The worker beneath, for everything that is not here: statistics, a descriptor for event
 * loops, raw copies. It belongs to the chip worker; never close or free it. */
RP_API struct rp_worker *rp_chip_worker_base(struct rp_chip_worker *worker);

/* rp_worker_alloc_tensor() and so on, of the one chip; their errors. */
RP_API int rp_chip_worker_alloc_tensor(struct rp_chip_worker *worker, enum rp_dtype dtype,
				       uint32_t rank, const int64_t *shape,
				       const struct rp_tensor *init,
				       struct rp_tensor *out);
RP_API int rp_chip_worker_free_tensor(struct rp_chip_worker *worker,
				      const struct rp_tensor *tensor);

/* All of a tensor in device memory from, or to, contiguous host memory of any kind.
 * Ordered after the dispatches before it. Errors as rp_worker_copy_to(). */
RP_API int rp_chip_worker_copy_to(struct rp_chip_worker *worker,
				  const struct rp_tensor *tensor, const void *src);
RP_API int rp_chip_worker_copy_from(struct rp_chip_worker *worker,
				    const struct rp_tensor *tensor, void *dst);

/*
 * Dispatch a program and wait for its end; it is registered by its first call.
 *
 * args, config  as for rp_worker_run().
 * wall_ns_out   NULL, or how long it took, set on success; ns.
 *
 * Threads     any, several at once. Blocks: yes.
 * Returns     what rp_chip_worker_register() and rp_worker_run() return
 * Spec        004, Explicit dispatch
 */
RP_API int rp_chip_worker_run(struct rp_chip_worker *worker, struct rp_program *program,
			      const struct rp_arg *args, size_t nargs,
			      const struct rp_run_config *config, uint64_t *wall_ns_out);

/*
 * Bring a program to the chip, now, and get a handle to call it by. A program that the
 * chip has, by whatever registration, is not brought again: all its handles are aliases,
 * and it leaves the chip at close, once.
 *
 * program     for this platform and runtime, for one chip or any number, and without
 *             callbacks. The worker keeps a reference until it is freed.
 *             One that was loaded (artifact.h) may be loaded at any time. The functions
 * of another must lie in memory that was mapped when the worker was opened.
 * registration_out  end it with rp_registration_free(), before or after the worker.
 *
 *             On a persistent worker what fails in the chip is a run that failed: the
 *             worker's last.
 *
 * Threads     any. Blocks: while the chip loads it, after its dispatches before that.
 * Returns     0
 *             -EINVAL     a NULL; another platform, runtime or chip count; callbacks;
 *                         RP_PROGRAM_NO_DOMAINS on a persistent worker
 *             -ENOEXEC    its functions are not there in the chip, or the chip's dynamic
 *                         linker refuses its object
 *             -ENOSPC     RP_CHIP_WORKER_PROGRAMS are registered
 *             -ENOMEM     also in the chip
 *             -EDEADLK    called from an orchestration of this worker
 *             -ESHUTDOWN, -EOWNERDEAD  as for dispatches; what else they return
 * Spec        004, Explicit dispatch; 002, worker.register
 */
RP_API int rp_chip_worker_register(struct rp_chip_worker *worker,
				   struct rp_program *program,
				   struct rp_registration **registration_out);

/*
 * Call a registered program: rp_worker_run() without look-up and without the checks that
 * registering made.
 *
 * Threads     any, several at once. Blocks: yes.
 * Returns     0
 *             -EINVAL     a NULL
 *             -ESHUTDOWN  unregistered, or the worker was closed
 *             other       what rp_worker_run() returns
 */
RP_API int rp_registration_run(struct rp_registration *registration,
			       const struct rp_arg *args, size_t nargs,
			       const struct rp_run_config *config, uint64_t *wall_ns_out);

/* As rp_worker_submit(); errors as above, and its own. */
RP_API int rp_registration_submit(struct rp_registration *registration,
				  const struct rp_arg *args, size_t nargs,
				  const struct rp_run_config *config,
				  struct rp_handle *handle_out);

/* As rp_worker_record(); errors as above, and its own. */
RP_API int rp_registration_record(struct rp_registration *registration,
				  const struct rp_arg *args, size_t nargs,
				  const struct rp_run_config *config,
				  struct rp_recording **recording_out);

/* What bringing the program to the chip took, in ns, its dispatch included: once for all
 * aliases. */
RP_API uint64_t rp_registration_assemble_ns(const struct rp_registration *registration);

/* End this handle early: its later calls are -ESHUTDOWN, aliases go on. Idempotent. 0, or
 * -EINVAL for NULL. */
RP_API int rp_registration_unregister(struct rp_registration *registration);

/* Unregister, and release the handle. No call on it may be going on. NULL: no-op. */
RP_API void rp_registration_free(struct rp_registration *registration);

/* --- The current worker of a thread ------------------------------------- */

/*
 * Make the worker this thread's current one, on top of those that are. rp_program_call()
 * goes to the topmost that is open and has the program's platform and runtime.
 *
 * Returns     0
 *             -EINVAL  a NULL
 *             -EEXIST  it is among this thread's already
 *             -ENOMEM
 */
RP_API int rp_chip_worker_push(struct rp_chip_worker *worker);

/* Take it off again. It must be on top: else -EINVAL, and nothing has changed. */
RP_API int rp_chip_worker_pop(struct rp_chip_worker *worker);

/* The one that a call of the program would go to; NULL: none. */
RP_API struct rp_chip_worker *rp_chip_worker_current(const struct rp_program *program);

/* rp_chip_worker_run() on the current worker. -ENOENT: this thread has none that matches;
 * the line has what is wanted and what there is. */
RP_API int rp_program_call(struct rp_program *program, const struct rp_arg *args,
			   size_t nargs, const struct rp_run_config *config,
			   uint64_t *wall_ns_out);

/* --- Scopes --------------------------------------------------------------- */

/*
 * Variables that are released where their scope ends, gcc and clang:
 *
 *	RP_SCOPED_REGISTRATION handle = NULL;
 */
static inline void rp_registration_leave(struct rp_registration **registration)
{
	rp_registration_free(*registration);
}

static inline void rp_chip_worker_leave(struct rp_chip_worker **worker)
{
	rp_chip_worker_free(*worker);
}

static inline void rp_chip_worker_unpush(struct rp_chip_worker **worker)
{
	if (*worker)
		rp_chip_worker_pop(*worker);
}

#define RP_SCOPED_REGISTRATION \
	__attribute__((cleanup(rp_registration_leave))) struct rp_registration *
#define RP_SCOPED_CHIP_WORKER \
	__attribute__((cleanup(rp_chip_worker_leave))) struct rp_chip_worker *
/* Set it to a worker that has been pushed: it is popped. */
#define RP_SCOPED_CURRENT \
	__attribute__((cleanup(rp_chip_worker_unpush))) struct rp_chip_worker *

#ifdef __cplusplus
}
#endif

#endif
