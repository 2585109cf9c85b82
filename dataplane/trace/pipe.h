/* SPDX-License-Identifier: MIT */
/*
 * Bytes from one thread of a worker process to one of the caller's, for captures that
 * have more to tell than records hold. The process waits while the pipe is full, as long
 * as it is open.
 *
 * Memory order. P1: the process writes bytes, stores `put` release; the caller loads it
 * acquire, reads them. P2: the caller has read, stores `taken` release; the process loads
 * it acquire, writes over them. Invariant: taken <= put <= taken + RPI_PIPE_BYTES, as far
 * as the process is to be believed.
 */
#ifndef RPI_TRACE_PIPE_H
#define RPI_TRACE_PIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

/* A power of two. */
#define RPI_PIPE_BYTES ((size_t)1 << 20)

struct rpi_pipe {
	/* The process's. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t put; /* P1; bytes ever put */
	/* The caller's. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t taken; /* P2; bytes ever taken */
	_Atomic uint64_t limit_bytes;			  /* of one tensor; 0: none */
	_Atomic uint32_t open;
	_Alignas(RPI_SHARE_ALIGN) uint8_t bytes[RPI_PIPE_BYTES];
};

/* The process: room that lies in one piece, maybe none; and so many bytes were written
 * there. */
size_t rpi_pipe_room(struct rpi_pipe *pipe, uint8_t **at_out);
void rpi_pipe_put(struct rpi_pipe *pipe, size_t bytes);

/* The caller: begin with nothing in it; let nobody wait any more. */
void rpi_pipe_open(struct rpi_pipe *pipe, uint64_t limit_bytes);
void rpi_pipe_close(struct rpi_pipe *pipe);

/* The caller: copy up to `bytes` of what there is; to NULL it is thrown away. How many,
 * or -EPROTO when the process wrote what it never may. */
ptrdiff_t rpi_pipe_take(struct rpi_pipe *pipe, void *to, size_t bytes);

#endif
