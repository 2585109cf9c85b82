/* SPDX-License-Identifier: MIT */
/* Host memory that worker processes share because it was mapped before them. */
#ifndef RINGPLANE_HOST_H
#define RINGPLANE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Host memory that exists before prepare and that the worker processes share: an
 * rp_shared_alloc() block, or any MAP_SHARED mapping that stays valid for the worker's
 * life. Copies name it in place, with no staging, in both directions. The promise is
 * the caller's; a private mapping would move stale bytes.
 */
struct rp_host_range {
	void *base;	/* of the whole storage */
	size_t bytes;	/* its size: a view reaches its own bytes by offset */
	bool read_only; /* nothing may write it: a read-only mapping */
};

/*
 * Map a file, or a slice of it, read-only and shared: weights, ready for
 * rp_worker_options.inherited.
 *
 * offset     any byte of the file. bytes: 0 is the rest of the file.
 * range_out  read_only is set; end it with rp_unmap_file().
 * Threads    any. Blocks: while the file is opened, not to read it.
 * Returns    0
 *            -EINVAL  a NULL, not a regular file
 *            -ERANGE  the slice is empty or ends past the file
 *            other    what open() and mmap() return
 * Spec       001, Skipping the staging copy
 */
RP_API int rp_map_file(const char *path, uint64_t offset, size_t bytes,
		       struct rp_host_range *range_out);

/* Unmap what rp_map_file() returned: that is taken on trust, and only a NULL, an empty
 * or a writable range is refused with -EINVAL. No worker may be using it. */
RP_API int rp_unmap_file(const struct rp_host_range *range);

#ifdef __cplusplus
}
#endif

#endif
