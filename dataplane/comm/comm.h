/* SPDX-License-Identifier: MIT */
/*
 * A chip's view of one domain during one run. Private to the chip process; one for each
 * slot, so that a round goes on counting over the tasks of a run.
 */
#ifndef RPI_COMM_COMM_H
#define RPI_COMM_COMM_H

#include <stdint.h>

#include <ringplane/comm.h>

#include "window/slot.h"

/* Rounds of collectives in one lease of a domain. */
#define RPI_ROUND_BITS 32

struct rp_comm {
	struct rp_chip *chip;
	const struct rpi_domain_slot *slot;
	uint32_t rank;
	uint32_t reserved;
	uint64_t generation;
	/* A number that every lease of every domain of the worker has for itself,
	 * growing: what a rank says in its lines is lease << RPI_ROUND_BITS | round. */
	uint64_t lease;
	int64_t timeout_ns; /* of this lease; RP_WAIT_FOREVER: none */
	uint64_t round;	    /* collectives of this lease so far */
};

#endif
