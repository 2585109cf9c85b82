/* SPDX-License-Identifier: MIT */
/* Shared memory for the arguments of dispatches, and what regions got. */
#ifndef RINGPLANE_MEMORY_H
#define RINGPLANE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a region is asked to stand on huge pages. */
enum rp_page_policy {
	RP_PAGES_AUTO = 0,    /* the largest there are; none is no error */
	RP_PAGES_REQUIRE = 1, /* huge ones, or -ENOMEM */
	RP_PAGES_NEVER = 2,   /* 4 KiB */
};

/* What a region got. */
enum rp_page_kind {
	RP_PAGE_4K = 0,
	RP_PAGE_THP = 1,     /* transparent huge pages were asked for: see huge_bytes */
	RP_PAGE_HUGETLB = 2, /* reserved huge pages */
};

/* One region, as a report shows it. */
struct rp_region_info {
	char name[32];
	void *base; /* the same in every process */
	size_t bytes;
	enum rp_page_kind kind;
	size_t page_bytes;	  /* of that kind */
	uint64_t huge_bytes;	  /* really on huge pages, as the kernel says */
	uint64_t populated_bytes; /* backed when it was made */
	uint64_t populate_ns;	  /* what that took */
};

/*
 * Zeroed memory that worker processes see at the same address: what the host
 * tensors of a dispatch must lie in, if not in an inherited range. It stands on a memfd
 * without a name, so nothing is left behind whatever happens, and it is backed before
 * this returns.
 *
 * It may be made at any time. Processes of a worker that is prepared later inherit
 * it; those of one that exists are given it, once, by the first dispatch or copy
 * that names it, which costs a message to each process and waits for none. A region
 * that a process can't map (its limits) fails the tasks that name it there, with
 * that error, and is tried again with each.
 *
 * bytes      1 or more. From 1 MiB on the memory is a region of its own, smaller
 *            blocks share regions of 2 MiB. A region is rounded up to whole pages,
 *            so huge ones may take up to 2 MiB more than was asked for.
 * ptr_out    aligned to 128 bytes (2 MiB from 1 MiB on); the caller's until
 *            rp_shared_free().
 * Limits     each region holds one descriptor of the calling process, of none of
 *            its workers, until it is freed. Who wants thousands of large blocks
 *            takes one allocation and divides it, or raises RLIMIT_NOFILE. All of
 *            them lie in 256 GiB of addresses (less under RLIMIT_AS), in steps of
 *            2 MiB.
 * Threads    any. Blocks: while the kernel clears pages.
 * Returns    0
 *            -EINVAL  a NULL, bytes is 0 or more than an address space holds
 *            -ENOMEM, -ENOSPC, -EMFILE, -ENFILE, -EFBIG  the system's limits
 *            -ENOSYS, -EPERM  memfd_create() is not to be had
 * Forks      a child sees what was allocated before the fork; what it allocates
 *            or frees itself, it does for itself alone: its parent's workers keep
 *            what they have, and are given nothing of the child's. It may do so
 *            only when no other thread was in one of these calls at the fork.
 * Spec       001, One-Shot vs Persistent Worker (host memory must be shared)
 */
RP_API int rp_shared_alloc(size_t bytes, void **ptr_out);

/* The same, on pages of the caller's choice; a region of its own. */
RP_API int rp_shared_alloc_pages(size_t bytes, enum rp_page_policy pages, void **ptr_out);

/*
 * Give it back; no dispatch or copy may be using it. Workers refuse a region that has
 * gone: a large block's at once, but that of small ones, which serves others, may stay,
 * and then a dispatch that names a freed block is not caught. NULL is ignored. Freed in
 * a forked process, it goes away in that process only.
 *
 * A region goes from this process at once, and from each process of a worker after
 * the tasks that had been submitted to it before. So a run in flight, against the
 * rule, still ends as if the memory were there; a task that is submitted, or a copy
 * that is carried out, after that fails with -EFAULT and its process lives. The
 * addresses are given out again when no process has the region any more. (A small
 * block may be another block's at once, in flight or not.)
 *
 * Threads    any. Blocks: until idle processes have let go, usually some 10 us and
 *            never more than 100 ms; not for processes that are in a task.
 * Returns    0, or -EINVAL for what is not the start of a live allocation (freed
 *            twice, or foreign)
 */
RP_API int rp_shared_free(void *ptr);

/* The size that a live allocation was asked for; 0 for any other pointer. */
RP_API size_t rp_shared_size(const void *ptr);

#ifdef __cplusplus
}
#endif

#endif
