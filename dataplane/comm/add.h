/* SPDX-License-Identifier: MIT */
/*
 * Atomic addition to elements that several chips add to at once. Relaxed: a signal that
 * follows orders them. Floats are added by compare-and-swap; in what order is not said.
 *
 * Never: a system call, an allocation, a lock.
 */
#ifndef RPI_COMM_ADD_H
#define RPI_COMM_ADD_H

#include <stddef.h>
#include <stdint.h>

/* `count` elements in both; `to` aligned to the element. */
typedef void (*rpi_add_fn)(void *to, const void *from, size_t count);

/* NULL for a dtype (enum rp_dtype) that has none. */
rpi_add_fn rpi_add_find(uint32_t dtype);

#endif
