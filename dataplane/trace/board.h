/* SPDX-License-Identifier: MIT */
/*
 * Where a worker's counters lie: read by the worker's own process, and by others through
 * the kernel. Written once, at prepare; the counters stay where those who count have
 * them.
 */
#ifndef RPI_TRACE_BOARD_H
#define RPI_TRACE_BOARD_H

#include <stdint.h>

#define RPI_BOARD_MAGIC UINT64_C(0x72702d626f617264)

/* A counter, and the field of struct rp_worker_stats that it is part of. */
struct rpi_board_source {
	uint64_t address; /* in the worker's process */
	uint32_t field;	  /* offset in bytes */
	uint32_t reserved;
};

struct rpi_board {
	uint64_t magic;	      /* last */
	uint32_t stats_bytes; /* sizeof(struct rp_worker_stats) there */
	uint32_t source_count;
	uint64_t sources; /* address, of source_count */
};

#endif
