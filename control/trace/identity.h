/* SPDX-License-Identifier: MIT */
/* What an entry or a callback is known by, in every process and every start. */
#ifndef RPI_TRACE_IDENTITY_H
#define RPI_TRACE_IDENTITY_H

#include <stddef.h>

/* The build-id of the ELF object that the function lies in, a dash and its place there,
 * in hex; cut to `bytes`. 0, or -ENOENT when the object has no build-id. */
int rpi_identity_of(const void *fn, char *buf, size_t bytes);

#endif
