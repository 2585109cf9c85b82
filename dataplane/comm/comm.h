/* SPDX-License-Identifier: MIT */
/*
 * A chip's view of one domain during one run. Private to the chip process; one for each
 * slot, so that rounds go on counting over the tasks of a run.
 */
#ifndef RPI_COMM_COMM_H
#define RPI_COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/comm.h>

#include "window/slot.h"

struct rp_comm {
	struct rp_chip *chip;
	const struct rpi_domain_slot *slot;
	uint64_t attached_id; /* of the allocation that rank and page tables are for */
	uint32_t rank;
	int broken; /* what a collective of broken_lease failed with */
	uint64_t broken_lease;
	uint64_t generation;
	/* A number that every lease of every domain of the worker has for itself,
	 * growing, from 1. */
	uint64_t lease;
	int64_t timeout_ns; /* of this lease; RP_WAIT_FOREVER: none */
	uint64_t round;	    /* rounds of this lease so far; a new lease begins at 0 */

	/* comm/round.c's own. */
	uint64_t slot_id;    /* whose turns they are */
	uint64_t turn;	     /* rounds of this allocation, over all its leases */
	uint64_t last_lease; /* what this rank has said last in its lines */
	uint64_t last_round;
};

/*
 * Write this thread's error line, also where the end of the task looks for it, so that
 * an entry which returns `code` passes the line on.
 */
__attribute__((cold, format(printf, 3, 4))) int rpi_comm_fail(const struct rp_comm *comm,
							      int code, const char *fmt,
							      ...);

/* What is waited for; true also for what can't come any more. */
typedef bool (*rpi_comm_ready_fn)(const struct rp_comm *comm, const void *what);

/*
 * Wait for a peer: spin for the worker's budget, then sleep until a peer rouses this
 * chip. from: whose turn it is, or RPI_NO_RANK. timeout_ns as rp_comm_wait() has it.
 *
 * Returns 0, -ETIMEDOUT or -ECANCELED, with no error line.
 */
int rpi_comm_await(const struct rp_comm *comm, rpi_comm_ready_fn ready, const void *what,
		   uint32_t from, int64_t timeout_ns);

/* How long that would be, RPI_PARK_FOREVER without end; and for error lines. */
uint64_t rpi_comm_limit_ns(const struct rp_comm *comm, int64_t timeout_ns);
double rpi_comm_seconds(const struct rp_comm *comm, int64_t timeout_ns);

/* A buffer of the domain as every call checks it; NULL with an error line. */
const struct rpi_window_buffer *rpi_comm_find(const struct rp_comm *comm,
					      const char *call, uint32_t peer,
					      uint32_t buffer);

static inline uint8_t *rpi_comm_address(const struct rp_comm *comm, uint32_t rank,
					const struct rpi_window_buffer *buffer)
{
	return comm->slot->windows[rank] + buffer->offset;
}

#endif
