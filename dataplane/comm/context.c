/* SPDX-License-Identifier: MIT */
/*
 * What an entry can ask of a domain. Never: a system call, an allocation, a lock, a log.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "chip/server.h"
#include "comm/comm.h"
#include "memory/view.h"
#include "memory/zero.h"

int rpi_comm_fail(const struct rp_comm *comm, int code, const char *fmt, ...)
{
	struct rp_chip *chip = comm->chip;
	va_list args;

	va_start(args, fmt);
	rpi_vfail(code, fmt, args);
	va_end(args);
	chip->fail_code = code;
	rpi_format(chip->fail_text, sizeof(chip->fail_text), "%s", rp_last_error());
	return code;
}

const struct rpi_window_buffer *rpi_comm_find(const struct rp_comm *comm,
					      const char *call, uint32_t peer,
					      uint32_t buffer)
{
	const struct rpi_domain_slot *slot = comm->slot;

	if (rpi_unlikely(peer >= slot->size)) {
		rpi_comm_fail(comm, -EINVAL,
			      "%s: rank %" PRIu32 ", the domain '%s' has %" PRIu32, call,
			      peer, slot->name, slot->size);
		return NULL;
	}
	if (rpi_unlikely(buffer >= slot->buffer_count)) {
		rpi_comm_fail(comm, -EINVAL,
			      "%s: buffer %" PRIu32 ", the domain '%s' has %" PRIu32,
			      call, buffer, slot->name, slot->buffer_count);
		return NULL;
	}
	return &slot->buffers[buffer];
}

uint32_t rp_comm_rank(const struct rp_comm *comm)
{
	return comm->rank;
}

uint32_t rp_comm_size(const struct rp_comm *comm)
{
	return comm->slot->size;
}

uint32_t rp_comm_chip(const struct rp_comm *comm, uint32_t rank)
{
	return rank < comm->slot->size ? comm->slot->chips[rank] : UINT32_MAX;
}

uint64_t rp_comm_generation(const struct rp_comm *comm)
{
	return comm->generation;
}

void *rp_comm_window(const struct rp_comm *comm, uint32_t rank)
{
	return rank < comm->slot->size ? comm->slot->windows[rank] : NULL;
}

size_t rp_comm_window_bytes(const struct rp_comm *comm)
{
	return comm->slot->window_bytes;
}

int rp_comm_buffer(const struct rp_comm *comm, const char *name)
{
	const struct rpi_domain_slot *slot = comm->slot;
	uint32_t i;

	if (!name)
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_buffer: name NULL, expected a name");
	for (i = 0; i < slot->buffer_count; i++)
		if (!strcmp(slot->buffers[i].name, name))
			return (int)i;
	return rpi_comm_fail(comm, -ENOENT,
			     "comm_buffer: the domain '%s' has no buffer '%s'",
			     slot->name, name);
}

int rp_comm_tensor(const struct rp_comm *comm, uint32_t rank, uint32_t buffer,
		   struct rp_tensor *out)
{
	const struct rpi_window_buffer *found =
		rpi_comm_find(comm, "comm_tensor", rank, buffer);
	int64_t shape[1];
	int err;

	if (!found)
		return -EINVAL;
	if (!out)
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_tensor: out NULL, expected a tensor");
	shape[0] = (int64_t)found->count;
	err = rp_tensor_host(out, rpi_comm_address(comm, rank, found),
			     (enum rp_dtype)found->dtype, 1, shape);
	return err ? rpi_comm_fail(comm, err, "comm_tensor: %s", rp_last_error()) : 0;
}

int rp_comm_zero(struct rp_comm *comm, uint32_t buffer)
{
	const struct rpi_window_buffer *found =
		rpi_comm_find(comm, "comm_zero", comm->rank, buffer);

	if (!found)
		return -EINVAL;
	/* As a reset does: peers may have written it, and memset() waits for each line
	 * that another core's cache holds. */
	rpi_zero(rpi_comm_address(comm, comm->rank, found), found->bytes,
		 comm->chip->windows.engine, comm->chip->windows.zero_chunk);
	return 0;
}
