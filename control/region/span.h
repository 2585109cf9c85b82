/* SPDX-License-Identifier: MIT */
/*
 * Addresses for shared objects: one range of the process's address space, reserved
 * at first use and backed by nothing. Every forked child inherits the reservation,
 * so an address taken later is free there too.
 */
#ifndef RPI_REGION_SPAN_H
#define RPI_REGION_SPAN_H

#include <stddef.h>
#include <stdint.h>

/* Take `bytes` (a multiple of 4 KiB) aligned to `align` (a power of two): 0, or
 * -ENOMEM with an error line. The range is unreadable until it is mapped over. */
int rpi_span_take(size_t bytes, size_t align, void **addr_out);

/* Unmap what was mapped over a range that was taken; it stays taken. */
int rpi_span_empty(void *addr, size_t bytes);

/* Give a range back, in whatever state: it is unmapped here. */
void rpi_span_give(void *addr, size_t bytes);

/* Where all of it lies: 0, or -ENOMEM with an error line. */
int rpi_span_bounds(uintptr_t *low_out, size_t *bytes_out);

#endif
