/* SPDX-License-Identifier: MIT */
#include "trace/pipe.h"

#include <errno.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* From a position to the end of the memory. */
static size_t to_end(uint64_t position)
{
	return RPI_PIPE_BYTES - (size_t)(position & (RPI_PIPE_BYTES - 1));
}

size_t rpi_pipe_room(struct rpi_pipe *pipe, uint8_t **at_out)
{
	/* Relaxed: this thread's own. */
	uint64_t put = atomic_load_explicit(&pipe->put, memory_order_relaxed);
	/* P2 */
	uint64_t taken = atomic_load_explicit(&pipe->taken, memory_order_acquire);

	*at_out = &pipe->bytes[put & (RPI_PIPE_BYTES - 1)];
	return smaller(RPI_PIPE_BYTES - (size_t)(put - taken), to_end(put));
}

void rpi_pipe_put(struct rpi_pipe *pipe, size_t bytes)
{
	/* P1 */
	atomic_store_explicit(&pipe->put,
			      atomic_load_explicit(&pipe->put, memory_order_relaxed) +
				      bytes,
			      memory_order_release);
}

__attribute__((cold, noinline)) void rpi_pipe_open(struct rpi_pipe *pipe,
						   uint64_t limit_bytes)
{
	atomic_store_explicit(&pipe->limit_bytes, limit_bytes, memory_order_relaxed);
	atomic_store_explicit(&pipe->taken,
			      atomic_load_explicit(&pipe->put, memory_order_acquire),
			      memory_order_release);
	atomic_store_explicit(&pipe->open, 1, memory_order_release);
}

__attribute__((cold, noinline)) void rpi_pipe_close(struct rpi_pipe *pipe)
{
	/* Relaxed: whoever waits looks again. */
	atomic_store_explicit(&pipe->open, 0, memory_order_relaxed);
}

ptrdiff_t rpi_pipe_take(struct rpi_pipe *pipe, void *to, size_t bytes)
{
	uint64_t taken = atomic_load_explicit(&pipe->taken, memory_order_relaxed);
	/* P1 */
	uint64_t put = atomic_load_explicit(&pipe->put, memory_order_acquire);

	if (put - taken > RPI_PIPE_BYTES)
		return -EPROTO;
	bytes = smaller(bytes, smaller((size_t)(put - taken), to_end(taken)));
	if (to && bytes)
		memcpy(to, &pipe->bytes[taken & (RPI_PIPE_BYTES - 1)], bytes);
	/* P2 */
	atomic_store_explicit(&pipe->taken, taken + bytes, memory_order_release);
	return (ptrdiff_t)bytes;
}
