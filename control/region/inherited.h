/* SPDX-License-Identifier: MIT */
/*
 * Host ranges that the caller promises are shared with the worker processes: made
 * before the fork, mapped MAP_SHARED, valid for the worker's life. Each distinct
 * storage is one buffer with one access mode.
 */
#ifndef RPI_REGION_INHERITED_H
#define RPI_REGION_INHERITED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/worker.h>

struct rpi_inherited_buffer {
	uintptr_t low, high; /* [low, high) */
	bool read_only;
	bool confirmed; /* the kernel says that it is shared */
};

struct rpi_inherited {
	struct rpi_inherited_buffer *buffers; /* sorted, apart from each other */
	size_t count;
	_Atomic uint32_t released; /* copies are staged again */
};

/*
 * Merge and judge the caller's list. 0; -EINVAL for an empty or wrapping range, or one
 * storage listed both ways; -ENOMEM. Ranges that can't be confirmed as shared cost one
 * warning in the log, all together.
 */
int rpi_inherited_init(struct rpi_inherited *inherited,
		       const struct rp_host_range *ranges, size_t count);
void rpi_inherited_fini(struct rpi_inherited *inherited);

/* Whether a copy may name these bytes in place. */
bool rpi_inherited_names(const struct rpi_inherited *inherited, const void *addr,
			 size_t bytes);

/* Whether the kernel confirms them as shared, so that dispatches may use them. */
bool rpi_inherited_confirms(const struct rpi_inherited *inherited, const void *addr,
			    size_t bytes);

/* -EACCES with an error line if any of these bytes were listed read-only. */
int rpi_inherited_check_write(const struct rpi_inherited *inherited, const char *call,
			      const void *addr, size_t bytes);

#endif
