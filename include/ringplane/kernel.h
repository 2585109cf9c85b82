/* SPDX-License-Identifier: MIT */
/*
 * Kernels: an entry of a chip may be an orchestration that submits many small pieces
 * of work, which the chip runtime orders by the memory that they name and runs on the
 * chip's own thread or on its compute threads.
 *
 * All calls below belong to the entry's own thread, while the entry runs. A call that
 * fails fails the run with its line, also when the entry goes on and returns 0; later
 * calls then return the same error, and kernels that have not started do not run.
 */
#ifndef RINGPLANE_KERNEL_H
#define RINGPLANE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ringplane/comm.h>
#include <ringplane/export.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How deep scopes may nest inside an entry. */
#define RP_MAX_SCOPES 64

/* Names a kernel for good: ids are never used twice. 0 names none. */
typedef uint64_t rp_kernel_id;

/*
 * A kernel's body. Runs on any thread of the chip's process.
 *
 * args     the kernel's own, those of its submit; heap outputs have their address.
 * Returns  0, or a negative errno that fails the run.
 */
typedef int (*rp_kernel_fn)(const struct rp_arg *args, size_t nargs);

/* Whether what a kernel waits for outside its arguments has come. Any thread; quick. */
typedef bool (*rp_kernel_ready_fn)(const struct rp_arg *args, size_t nargs);

/* With an argument's access: no dependency is taken from it, and none left behind. */
#define RP_NO_DEP 0x100u

struct rp_kernel {
	rp_kernel_fn fn;
	const char *name; /* for error lines; a constant, or NULL */

	/* Tensors and scalars in any order, at most RP_MAX_TASK_TENSORS and
	 * RP_MAX_TASK_SCALARS. Read during the call only. A written tensor whose data is
	 * NULL (RP_OUT) is allocated from the heap of the scope's ring: its address and
	 * row-major strides are stored back here. It holds any bytes until the kernel has
	 * written it, and is valid until the scope ends. */
	struct rp_arg *args;
	uint32_t arg_count;
	uint32_t flags; /* must be 0 */

	/* Kernels to follow, besides those that the arguments name. Ids of an ended
	 * kernel, and 0, are passed over. */
	const rp_kernel_id *deps;
	size_t dep_count;

	/* Not NULL: asked once the dependencies are met, until it says yes; only then
	 * the kernel starts. Others run meanwhile: the kernel waits, no thread does. */
	rp_kernel_ready_fn ready;
};

/*
 * Submit a kernel. It follows every earlier kernel of this entry that wrote what it
 * reads or writes, or read what it writes; parts of one buffer that share no byte
 * are independent. Without compute threads it has ended when this returns, unless it
 * waits for its `ready`.
 *
 * id_out   NULL: not wanted. May be an element of `deps`.
 *
 * Blocks   while a ring of the chip is full, until kernels have ended.
 * Returns  0
 *          -EINVAL    an argument's kind, access or shape, flags, an id that never
 *                     was; two written tensors of one kernel that overlap; heap
 *                     memory of a scope that has ended
 *          -ENOSPC    its outputs are larger than ring_heap, or it follows more
 *                     kernels than ring_dep_pool
 *          -EDEADLK   the open scopes hold all of the ring, so that no waiting would
 *                     help; the line names ring, size, what is in use and what would do
 *          -ENOMEM    the memory of the rings could not be had
 *          other      what an earlier kernel or call of this run failed with
 * Spec     003, Per-Task Ring Sizing
 */
RP_API int rp_chip_submit(struct rp_chip *chip, const struct rp_kernel *kernel,
			  rp_kernel_id *id_out);

/* A cell of this chip's own window for a kernel to wait for; see rp_comm_wait(). */
struct rp_signal {
	struct rp_comm *comm;
	uint32_t buffer;
	enum rp_compare compare;
	uint64_t offset;
	int32_t expected;
	uint32_t reserved; /* 0 */
	/* Counted from when the kernels that it follows have ended. RP_WAIT_FOREVER: no
	 * limit, 0: the domain's. */
	int64_t timeout_ns;
};

/*
 * Submit a kernel that, when those that it follows have ended, waits until
 * `cell compare expected` holds, and starts then. The kernel waits, no thread does:
 * others run meanwhile, and the entry goes on. What the notifier stored before is seen
 * by the kernel and by those that follow it.
 *
 * signal   read during the call only.
 * kernel   its fn may be NULL: then it only waits, for those to follow that name its id
 *          or its tensors.
 *
 * Blocks   as rp_chip_submit(). A run ends when its waits have.
 * Returns  as rp_chip_submit(), and
 *          -EINVAL  a NULL, no such buffer, not RP_INT32, past its end, no such
 *                   comparison, timeout_ns, reserved
 *          The run, and later calls in it, fail with
 *          -ETIMEDOUT  it did not come; the line names kernel and ring, and as that of
 *                      rp_comm_wait() rank, buffer, offset, value seen and expected
 *          -ECANCELED  the run has failed elsewhere
 */
RP_API int rp_chip_submit_wait(struct rp_chip *chip, const struct rp_signal *signal,
			       const struct rp_kernel *kernel, rp_kernel_id *id_out);

enum rp_scope_kind {
	RP_SCOPE_AUTO = 0,   /* arguments make dependencies */
	RP_SCOPE_MANUAL = 1, /* only `deps` do */
};

/*
 * Open a scope: the kernels of a scope, and their heap outputs, stay in the ring until
 * the scope ends. The entry itself is the outermost scope, automatic, at depth 0; scopes
 * of depth 1 and 2 use rings 1 and 2, deeper ones ring 3.
 *
 * Returns  0, or -EINVAL: RP_MAX_SCOPES are open, an automatic scope inside a manual one
 */
RP_API int rp_scope_begin(struct rp_chip *chip, enum rp_scope_kind kind);

/*
 * End the innermost scope. Doesn't wait: its outputs live on until the kernels that
 * were given them have ended, but no later kernel may be given them.
 *
 * Returns  0, or -EINVAL when none is open
 */
RP_API int rp_scope_end(struct rp_chip *chip);

/* Wait until every kernel submitted so far has ended. 0, or the run's error. What a
 * returning entry has left open or running is ended and waited for the same way. */
RP_API int rp_chip_drain(struct rp_chip *chip);

/* How full one ring has been. */
struct rp_ring_usage {
	uint64_t size; /* in force: slots, bytes, edges, or tensors */
	uint64_t in_use;
	uint64_t peak; /* since the rings were built */
};

struct rp_ring_state {
	struct rp_ring_usage task_window;
	struct rp_ring_usage heap;
	struct rp_ring_usage dep_pool;
	/* Tensors of kernels that have not ended: one map for all rings of the chip, of a
	 * fixed size; full, it presses back. */
	struct rp_ring_usage overlap_map;
};

/* Look at one ring. Returns 0, or -EINVAL for a ring past RP_RING_COUNT - 1. */
RP_API int rp_chip_ring_state(struct rp_chip *chip, uint32_t ring,
			      struct rp_ring_state *state_out);

/* An output that the runtime allocates. */
static inline struct rp_arg rp_out_new(enum rp_dtype dtype, uint32_t rank,
				       const int64_t *shape)
{
	struct rp_arg arg;
	uint32_t k;

	memset(&arg, 0, sizeof(arg));
	arg.kind = RP_ARG_TENSOR;
	arg.access = RP_OUT;
	arg.u.tensor.dtype = (uint32_t)dtype;
	arg.u.tensor.rank = rank;
	for (k = 0; k < rank && k < RP_MAX_DIMS; k++)
		arg.u.tensor.shape[k] = shape[k];
	return arg;
}

/* The same argument, taking no part in dependencies. */
static inline struct rp_arg rp_no_dep(struct rp_arg arg)
{
	arg.access |= RP_NO_DEP;
	return arg;
}

#ifdef __cplusplus
}
#endif

#endif
