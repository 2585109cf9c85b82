/* SPDX-License-Identifier: MIT */
/*
 * A region: a sealed memfd mapped MAP_SHARED. The one function here creates every
 * shared object of the library, so each of them is anonymous, sealed against
 * shrinking and growing, backed when it is made, and at one address everywhere.
 */
#ifndef RPI_REGION_REGION_H
#define RPI_REGION_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/memory.h>

struct rpi_region {
	void *base;   /* NULL: not created */
	size_t bytes; /* mapped: rounded up to whole pages */
	size_t page_bytes;
	enum rp_page_kind kind;
	int fd;	   /* -1: closed, the mapping lives on */
	bool lazy; /* not backed when it was made */
	uint64_t populated_bytes;
	uint64_t populate_ns;
	char name[32];
};

/*
 * Create, map and back a region of at least `bytes` zero bytes.
 *
 * Returns 0, -EINVAL (0 bytes, overflow), -ENOMEM, -ENOSPC, -EMFILE, -ENFILE, or
 * what memfd_create() says where it is not to be had (-ENOSYS, -EPERM), with an
 * error line; then nothing is left behind. From 1 MiB on the base is aligned to
 * 2 MiB.
 */
int rpi_region_create(struct rpi_region *region, const char *name, size_t bytes,
		      enum rp_page_policy policy);

/* The same, backed only where rpi_region_populate() is called later; all of it at once
 * when huge pages are required, because only then it is known whether they came. */
int rpi_region_create_lazy(struct rpi_region *region, const char *name, size_t bytes,
			   enum rp_page_policy policy);

/* Unmap and close; nothing for one that was not created. */
void rpi_region_destroy(struct rpi_region *region);

/* Parts of that, for a region that other processes still have: unmap it here, and close
 * its descriptor. Its addresses stay taken. */
void rpi_region_vacate(struct rpi_region *region);
void rpi_region_close(struct rpi_region *region);

/* Build this process's page tables for a part of it, contents unchanged: a first
 * touch on the hot path would cost more than a dispatch. */
int rpi_region_populate(struct rpi_region *region, size_t offset, size_t bytes);

/* What it really got, from /proc/self/smaps. */
int rpi_region_info(const struct rpi_region *region, struct rp_region_info *info_out);

#endif
