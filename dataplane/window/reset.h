/* SPDX-License-Identifier: MIT */
/*
 * What a chip does to the windows of its domains: page tables for them before the
 * first use, zeroes in its own.
 *
 * Where the domain has one member, nobody else can be in its window: the first task of
 * a run that names it carries the reset along (struct rpi_wire_domain). Otherwise a
 * reset is a task of its own in the chip's lane. It follows (E2) the newest tasks of
 * all other members, so that no peer reads or writes the window any more; and each
 * member's first task after it follows the resets of all others, so that no peer writes
 * into a window that is yet to be zeroed. The parent only names these tasks: it waits
 * for none of them.
 */
#ifndef RPI_WINDOW_RESET_H
#define RPI_WINDOW_RESET_H

#include <stdint.h>

#include <ringplane/worker.h>

#include "window/slot.h"

struct rp_chip;

/* What a reset zeroes: arg_count of its task. */
#define RPI_RESET_RANGES    0u /* the slot's ranges */
#define RPI_RESET_WHOLE	    1u /* the window, to its end */
#define RPI_RESET_BUFFER(i) (2u + (i))

/* A chip's side of all domains; in its struct rp_chip. */
struct rpi_windows {
	const struct rpi_domain_slot *slots; /* shared, [RP_MAX_DOMAINS] */
	enum rp_reset_engine engine;
	const void *zero_chunk; /* RPI_ZERO_CHUNK_BYTES */
	uint8_t *slices;	/* shared, one of slice_bytes per chip */
	size_t slice_bytes;
	/* Bytes of each slice that this process has page tables for. */
	size_t mapped[RP_MAX_PEERS];
};

/* Build the page tables of a domain's windows; nothing when they are there. */
void rpi_windows_attach(struct rpi_windows *windows, const struct rpi_domain_slot *slot);

/* The same for all slices. */
void rpi_windows_attach_all(struct rpi_windows *windows, uint32_t chip_count);

/* Zero this chip's window of a domain (`what`: RPI_RESET_*). */
void rpi_window_reset(struct rp_chip *chip, const struct rpi_domain_slot *slot,
		      uint32_t what);

#endif
