/* SPDX-License-Identifier: MIT */
/*
 * A chip's side of a comm domain: what an entry does with an argument of kind
 * RP_ARG_DOMAIN (args[i].u.comm).
 *
 * All calls run in the entry's thread, allocate nothing, and make no system call unless
 * they sleep. Whoever waits spins for the worker's budget, then sleeps until a peer
 * notifies, the run fails elsewhere (-ECANCELED), or the domain's timeout_ns is over
 * (-ETIMEDOUT). Errors carry a line that rp_last_error() gives in the chip; an entry
 * that returns one passes that line on to whoever waits for the run.
 */
#ifndef RINGPLANE_COMM_H
#define RINGPLANE_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/program.h>
#include <ringplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_comm;

/* This chip's rank, 0..size-1, in the order of the domain's members. */
RP_API uint32_t rp_comm_rank(const struct rp_comm *comm);
RP_API uint32_t rp_comm_size(const struct rp_comm *comm);

/* The chip that has this rank; UINT32_MAX for none. */
RP_API uint32_t rp_comm_chip(const struct rp_comm *comm, uint32_t rank);

/* How often the domain was used, this run included. */
RP_API uint64_t rp_comm_generation(const struct rp_comm *comm);

/* A member's window, and what each is long; NULL for no such rank. */
RP_API void *rp_comm_window(const struct rp_comm *comm, uint32_t rank);
RP_API size_t rp_comm_window_bytes(const struct rp_comm *comm);

/* Index of a buffer by name, or -ENOENT. */
RP_API int rp_comm_buffer(const struct rp_comm *comm, const char *name);

/* A rank's buffer as a tensor of rank 1; 0 or -EINVAL. */
RP_API int rp_comm_tensor(const struct rp_comm *comm, uint32_t rank, uint32_t buffer,
			  struct rp_tensor *out);

/* Zero a buffer of this chip's own window; peers must not be using it. */
RP_API int rp_comm_zero(struct rp_comm *comm, uint32_t buffer);

/* --- Signals: cells of an RP_INT32 buffer -------------------------------- */

enum rp_notify_op {
	RP_NOTIFY_ADD = 0,
	RP_NOTIFY_SET = 1,
};

enum rp_compare {
	RP_EQ = 0,
	RP_GE = 1,
	RP_NE = 2,
	RP_GT = 3,
	RP_LE = 4,
	RP_LT = 5,
};

/*
 * Change cell `offset` of a peer's buffer and wake the peer if it sleeps. Release: all
 * that this chip has stored before is seen by whoever sees the new value.
 *
 * peer        any rank, this chip's own too.
 * Returns     0, or -EINVAL: no such rank or buffer, not RP_INT32, past its end, no op
 */
RP_API int rp_comm_notify(struct rp_comm *comm, uint32_t buffer, uint32_t peer,
			  uint64_t offset, int32_t value, enum rp_notify_op op);

/*
 * Wait until `cell compare expected` holds for a cell of this chip's own buffer.
 * Acquire: what its notifier stored before is seen then.
 *
 * timeout_ns  RP_WAIT_FOREVER none, 0 the domain's.
 * Returns     0
 *             -ETIMEDOUT  the line names rank, buffer, offset, the value seen and the
 *                         one expected
 *             -ECANCELED  the run has failed elsewhere
 *             -EINVAL     as rp_comm_notify(), or no such comparison
 */
RP_API int rp_comm_wait(struct rp_comm *comm, uint32_t buffer, uint64_t offset,
			enum rp_compare compare, int32_t expected, int64_t timeout_ns);

/* Whether it holds now: 1, 0, or -EINVAL. Acquire. */
RP_API int rp_comm_test(const struct rp_comm *comm, uint32_t buffer, uint64_t offset,
			enum rp_compare compare, int32_t expected);

/* Order this chip's loads and stores before it against those after it, for all ranks. */
RP_API void rp_comm_fence(void);

/* --- Moving data --------------------------------------------------------- */

enum rp_put_op {
	RP_PUT_STORE = 0,
	RP_PUT_ADD = 1, /* atomic per element; FP32, BF16, FP16, INT32, INT16, INT8 */
};

/* A part of a buffer that is seen as a row-major tensor of `rank` dims. */
struct rp_region {
	uint32_t rank;		      /* 1..RP_MAX_DIMS */
	uint32_t reserved;	      /* 0 */
	int64_t shape[RP_MAX_DIMS];   /* of the whole buffer */
	int64_t offsets[RP_MAX_DIMS]; /* first element of the part */
	int64_t sizes[RP_MAX_DIMS];   /* of the part */
};

/*
 * Read or write `count` elements of a peer's buffer from element `offset` on. Returns 0
 * or -EINVAL (rank, buffer, bounds, NULL). Not atomic: signals order them.
 */
RP_API int rp_comm_load(struct rp_comm *comm, uint32_t peer, uint32_t buffer,
			uint64_t offset, uint64_t count, void *out);
RP_API int rp_comm_store(struct rp_comm *comm, uint32_t peer, uint32_t buffer,
			 uint64_t offset, uint64_t count, const void *in);

/*
 * Copy a tensor into a part of a peer's buffer, or a part of it into a tensor. Shape and
 * dtype of both sides agree.
 *
 * region      NULL: the whole buffer, from its first element, in the tensor's shape.
 * Returns     0, or -EINVAL: rank, buffer, dtype, shape, bounds, op; -EOPNOTSUPP: no
 *             atomic add for this dtype
 */
RP_API int rp_comm_put(struct rp_comm *comm, uint32_t peer, uint32_t buffer,
		       const struct rp_region *region, const struct rp_tensor *src,
		       enum rp_put_op op);
RP_API int rp_comm_get(struct rp_comm *comm, uint32_t peer, uint32_t buffer,
		       const struct rp_region *region, const struct rp_tensor *dst);

/* --- Collectives --------------------------------------------------------- */

/*
 * Every rank calls the same collectives of a domain in the same order with the same
 * arguments; where ranks differ, the line of the error names both calls. `in` and `out`
 * are contiguous memory of the chip: the domain's own window, or any other. Much data in
 * the window is read there by the peers, unless the result replaces it; other data
 * passes through the domain's staging. Results are the same bits on every rank and from
 * run to run: domain size, count and algorithm fix the order of operands. Reductions
 * hand NaNs on, and integers wrap.
 *
 * No signal buffer is needed, and nothing has to be cleared between calls. After the
 * first error of a collective the domain's others fail for the rest of the run. A domain
 * of one member gets its own data back and waits for nobody.
 *
 * count       elements per rank; at least 1, even for FP4E2M1.
 * Returns     0
 *             -EINVAL     count, dtype, NULL, root, in and out overlap where they must
 *                         not, a peer that called another collective
 *             -EOPNOTSUPP no reduction of this dtype or op
 *             -ETIMEDOUT  a peer did not come; the line names it
 *             -ECANCELED  the run has failed elsewhere
 * Spec        002, Distributed (L3+) programs
 */
enum rp_reduce_op {
	RP_SUM = 0,
	RP_MAX = 1,
	RP_MIN = 2,
	RP_PROD = 3,
};

enum rp_algorithm {
	/* Mesh, or for much data a reduce-scatter and an allgather: the same bits. */
	RP_ALGORITHM_AUTO = 0,
	/* Every rank reads every other's data, and reduces it in rank order. */
	RP_ALGORITHM_MESH = 1,
	/* Reduce-scatter, then allgather, each by the neighbour, in the ring's order. */
	RP_ALGORITHM_RING = 2,
};

/* Until all ranks are here. Acquire and release. */
RP_API int rp_comm_barrier(struct rp_comm *comm);

/* `out` may be `in`. FLOAT32, FLOAT16, BFLOAT16, INT32, INT64, INT8, UINT8. */
RP_API int rp_comm_allreduce(struct rp_comm *comm, const void *in, void *out,
			     uint64_t count, enum rp_dtype dtype, enum rp_reduce_op op,
			     enum rp_algorithm algorithm);

/* root's `data` to every rank's `data`. */
RP_API int rp_comm_broadcast(struct rp_comm *comm, void *data, uint64_t count,
			     enum rp_dtype dtype, uint32_t root);

/* out: size x count elements, rank-major. in and out must not overlap. */
RP_API int rp_comm_allgather(struct rp_comm *comm, const void *in, void *out,
			     uint64_t count, enum rp_dtype dtype);

/* in: size x count elements; out: row `rank` of their reduction, count elements: apart
 * from `in`, or its own row of it. */
RP_API int rp_comm_reduce_scatter(struct rp_comm *comm, const void *in, void *out,
				  uint64_t count, enum rp_dtype dtype,
				  enum rp_reduce_op op);

/* in and out: size x count elements; row r of `in` goes to rank r. No overlap. */
RP_API int rp_comm_all_to_all(struct rp_comm *comm, const void *in, void *out,
			      uint64_t count, enum rp_dtype dtype);

/*
 * Rows of different lengths. Row r of `in` starts at element r * stride and has
 * send_counts[r] elements; row r of `out` likewise, and receive_counts[r] says how many
 * came: the rest of the row is left as it is. A row longer than `stride` is cut to it.
 */
RP_API int rp_comm_all_to_all_v(struct rp_comm *comm, const void *in,
				const uint64_t *send_counts, void *out,
				uint64_t *receive_counts, uint64_t stride,
				enum rp_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
