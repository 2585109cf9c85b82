/* SPDX-License-Identifier: MIT */
/*
 * A comm domain as all processes see it. The parent writes a slot before it publishes
 * the first task that names it (E1), and not again before the last such task has ended.
 * The windows lie in the same region, one slice of it per chip:
 *
 *	slots | lines | slice of chip 0 | slice of chip 1 | ...
 *
 * A window in its slice:  buffers and slack (window_bytes) | staging (staging_bytes)
 */
#ifndef RPI_WINDOW_SLOT_H
#define RPI_WINDOW_SLOT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/domain.h>
#include <ringplane/worker.h>

#include "base/cpu.h"

#define RPI_NO_RANK UINT8_MAX

/* Buffers start on their own cache line. */
#define RPI_BUFFER_ALIGN RPI_CACHE_LINE

struct rpi_window_buffer {
	char name[RP_MAX_DOMAIN_NAME];
	uint32_t dtype;
	uint16_t reset;	 /* 1: a reset covers it */
	uint16_t wanted; /* enum rp_buffer_reset, as specified */
	uint64_t offset;
	uint64_t count;
	uint64_t bytes;
};

struct rpi_window_range {
	uint64_t offset;
	uint64_t bytes;
};

/*
 * What collectives tell each other: one line for each pair of ranks, written by `from`
 * alone, read by `to`.
 *
 *   E7 arrive   `from` has staged a round's data -> arrived release;  `to` arrived
 *               acquire -> reads the data
 *   E8 lease    `from` zeroes arrived -> lease release;  `to` lease acquire -> looks at
 *               arrived
 *   E9 notify   a chip's stores -> a cell of a window, release;  its owner's acquire
 *               -> reads them
 *
 * `arrived` counts the rounds of one lease from 1. A lease is a number that no other one
 * of the worker has, growing: what an older one has left in the line is told from what
 * this one says, so nobody ever clears lines, and no number wraps.
 */
struct rpi_comm_line {
	_Alignas(RPI_CACHE_LINE) _Atomic uint64_t lease; /* E8 */
	_Atomic uint64_t arrived;			 /* E7 */
	/* What the even and the odd rounds say; see comm/round.h. */
	_Atomic uint64_t words[2][3];
};

static_assert(sizeof(struct rpi_comm_line) == RPI_CACHE_LINE, "one line");

struct rpi_domain_slot {
	_Alignas(RPI_SHARE_ALIGN) uint64_t id; /* a number for each allocation, from 1 */
	char name[RP_MAX_DOMAIN_NAME];
	uint32_t size;
	uint32_t buffer_count;
	uint32_t range_count; /* what a reset zeroes */
	uint32_t reserved;
	uint64_t window_bytes;
	uint64_t staging_bytes;
	uint8_t chips[RP_MAX_PEERS];	/* rank to chip */
	uint8_t ranks[RP_MAX_PEERS];	/* chip to rank, or RPI_NO_RANK */
	uint8_t *windows[RP_MAX_PEERS]; /* [size], one address in all processes */
	struct rpi_comm_line *lines;	/* see rpi_comm_line_at() */
	uint32_t line_stride;		/* chips of the worker */
	struct rpi_window_range ranges[RP_MAX_DOMAIN_BUFFERS + 1];
	struct rpi_window_buffer buffers[RP_MAX_DOMAIN_BUFFERS];
};

static inline struct rpi_comm_line *rpi_comm_line_at(const struct rpi_domain_slot *slot,
						     uint32_t to, uint32_t from)
{
	return &slot->lines[(size_t)to * slot->line_stride + from];
}

static inline uint8_t *rpi_window_staging(const struct rpi_domain_slot *slot,
					  uint32_t rank)
{
	return slot->windows[rank] + slot->window_bytes;
}

#endif
