/* SPDX-License-Identifier: MIT */
/*
 * Device memory of a worker's chips: tensors that stay there across dispatches, raw
 * blocks, and copies between them and the host.
 */
#ifndef RINGPLANE_DEVICE_H
#define RINGPLANE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_worker;

/* Device allocations start on this boundary and take whole multiples of it. */
#define RP_DEVICE_ALIGN 1024

/*
 * Allocate a tensor in a chip's device memory. Dispatches that take it copy nothing in
 * either direction, and nothing copies it back by itself: read it with
 * rp_worker_copy_from().
 *
 * init       contiguous host memory of any kind with equal dtype and shape, uploaded
 *            once; NULL leaves the content undefined.
 * out        a value: `resident` names the allocation by index and generation, so one
 *            that was freed is told apart from a newer one at its address.
 *
 * Threads    any. Blocks: with init, until the bytes are there.
 * Returns    0
 *            -EINVAL      a NULL, a dim, a dtype, the chip, or init differs; nothing
 *                         happened
 *            -ENOMEM      the line has what was asked, what is free, and the largest
 *                         free block
 *            -EOWNERDEAD, -ESHUTDOWN
 *            After a failed upload the memory is free again.
 * Spec       001, Methods; 004, DeviceTensor
 */
RP_API int rp_worker_alloc_tensor(struct rp_worker *worker, uint32_t chip,
				  enum rp_dtype dtype, uint32_t rank,
				  const int64_t *shape, const struct rp_tensor *init,
				  struct rp_tensor *out);

/*
 * Give a tensor back: idempotent on the same value. No dispatch may be using it; one
 * that names it later is refused. What is forgotten is freed with the worker. Allowed
 * also after close.
 *
 * Returns    0         freed now, or before
 *            -ESTALE   its place belongs to a newer allocation, which lives on
 *            -EXDEV    a tensor of another worker
 *            -EINVAL   a NULL, host memory, a part of a tensor that does not begin
 *                      where the whole does, a stacked tensor or a shard of one
 */
RP_API int rp_worker_free_tensor(struct rp_worker *worker,
				 const struct rp_tensor *tensor);

/*
 * Shard `host` along dim 0: shard i is uploaded to chip i, or to chips[i]. In an
 * orchestration rp_tensor_index(x, i) is the resident shard i.
 *
 * host       contiguous, rank 2 or more, any host memory.
 * chips      NULL, or chip_count distinct chips.
 * chip_count must equal dim 0 of host when chips is given.
 * Returns    as rp_worker_alloc_tensor(); on failure every shard is free again.
 * Spec       001, StackedDeviceTensor; 002, Sharding a weight across cards
 */
RP_API int rp_worker_alloc_stacked(struct rp_worker *worker, const struct rp_tensor *host,
				   const uint32_t *chips, size_t chip_count,
				   struct rp_tensor *out);

/* As rp_worker_free_tensor(), for a stacked one: -EINVAL for a plain one. */
RP_API int rp_worker_free_stacked(struct rp_worker *worker,
				  const struct rp_tensor *stacked);

/* Read every shard back: host[i] receives shard i. host is contiguous, of equal dtype
 * and shape. Errors as rp_worker_copy_from(), and -ESTALE or -EXDEV for a tensor that
 * was freed, or is another worker's. */
RP_API int rp_worker_copy_stacked_from(struct rp_worker *worker,
				       const struct rp_tensor *stacked,
				       const struct rp_tensor *host);

/* Raw device memory. The address is opaque: only the chip can follow it. Freed with
 * the worker if forgotten. Errors as for tensors; an address that is not the start of
 * a live raw block is -EINVAL. */
RP_API int rp_worker_device_alloc(struct rp_worker *worker, uint32_t chip, size_t bytes,
				  uint64_t *address_out);
RP_API int rp_worker_device_free(struct rp_worker *worker, uint32_t chip,
				 uint64_t address);

/* Chip and address of a live resident tensor, or of one shard, for the copies below:
 * those take the start of an allocation, so a part's address is not for them. -EINVAL:
 * host memory, a whole stacked tensor; -ESTALE, -EXDEV, -ERANGE as for dispatches. */
RP_API int rp_worker_tensor_address(struct rp_worker *worker,
				    const struct rp_tensor *tensor, uint32_t *chip_out,
				    uint64_t *address_out);

/*
 * Copy `bytes` from src + src_offset to the device allocation at `address`, from its
 * byte dst_offset on. Ordered after the dispatches submitted before it on that chip,
 * in an orchestration also after the tasks that it has enqueued there so far; done when
 * this returns.
 *
 * address    the start of a live allocation on that chip; one inside it is refused:
 *            use the offset.
 * src        any host memory, also made after prepare. What the processes share
 *            (rp_shared_alloc() before prepare, inherited ranges) is read in place,
 *            the rest is staged.
 *
 * Threads    any, several at once; copies of one chip take turns.
 * Blocks     yes.
 * Returns    0
 *            -EINVAL      bytes 0, a NULL, the chip, an address that starts nothing
 *            -ERANGE      dst_offset + bytes exceed the allocation, src_offset + bytes
 *                         the address space
 *            -ENOMEM      none for the staging chunks, which the first copy takes
 *            -EOWNERDEAD, -ESHUTDOWN
 * Spec       001, Methods (copy_to)
 */
RP_API int rp_worker_copy_to(struct rp_worker *worker, uint32_t chip, uint64_t address,
			     size_t dst_offset, const void *src, size_t src_offset,
			     size_t bytes);

/* The other way: from the device allocation's byte src_offset to dst + dst_offset.
 * -EACCES: dst lies in an inherited range that was listed read-only. */
RP_API int rp_worker_copy_from(struct rp_worker *worker, uint32_t chip, uint64_t address,
			       size_t src_offset, void *dst, size_t dst_offset,
			       size_t bytes);

/* The same bytes to one allocation on each of several chips, staged once. Errors as
 * rp_worker_copy_to(); a chip that is named twice is -EINVAL. */
RP_API int rp_worker_copy_to_all(struct rp_worker *worker, const uint32_t *chips,
				 const uint64_t *addresses, size_t count,
				 size_t dst_offset, const void *src, size_t bytes);

/* Bytes that this worker's allocator holds on a chip: tensors, raw blocks, runtime
 * buffers. Windows are not counted. */
RP_API int rp_worker_committed_device_memory(struct rp_worker *worker, uint32_t chip,
					     uint64_t *bytes_out);

/* Free and total bytes of the whole card as its driver sees it; -EOPNOTSUPP where the
 * backend has no card (sim), never zeros. */
RP_API int rp_worker_device_memory_info(struct rp_worker *worker, uint32_t chip,
					uint64_t *free_out, uint64_t *total_out);

#ifdef __cplusplus
}
#endif

#endif
