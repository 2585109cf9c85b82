/* SPDX-License-Identifier: MIT */
/*
 * How shared memory that is made after the fork comes to the worker processes, and how
 * it goes from them. The parent has a socket to each process, made before the fork. A
 * message carries a range of addresses and, to map there, the memory's descriptor; a
 * ticket in the process's shared words says that there is one to read. The process
 * reads it between tasks: what is published after a message finds it carried out, so
 * nobody waits for a process, however long a task takes it. A worker process makes no
 * system call for it but to read messages, and none waits while the ticket stands.
 *
 * Ownership. A region and its addresses belong to the parent. Freed, its addresses are
 * given out again only when every process that was told to map it has said that it has
 * let go. A descriptor in a message that nobody reads is the kernel's, and goes with
 * the socket; a process closes the one it took once it has mapped it.
 *
 * Memory order.
 *   M1 told    parent sends the message -> map_ticket release, then (R1 in
 *              memory/reach.h) publishes what names the region (E1, C1);  process
 *              acquires that -> map_ticket acquire -> reads the message, maps
 *   M2 left    process unmaps -> map_applied release;  parent acquire -> the addresses
 *              may be another region's
 *   E4         as in dispatch/wire.h: a dozing process is woken to unmap
 * Invariant: a process carries messages out in the order of their tickets, each once;
 * one that can't be carried out (no descriptor, no memory) stays at the head and is
 * tried again with each task, and what is behind it waits with it.
 */
#ifndef RPI_STAGING_MAPPING_H
#define RPI_STAGING_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/reach.h"

enum rpi_mapping_op {
	RPI_MAPPING_MAP = 1, /* the descriptor's memory, there */
	RPI_MAPPING_UNMAP = 2,
};

struct rpi_mapping {
	uint64_t ticket;
	uint64_t low;
	uint64_t bytes;
	uint64_t after_task; /* not before this task of the process has ended */
	uint32_t op;	     /* enum rpi_mapping_op */
	uint32_t pages;	     /* enum rp_page_kind */
};

/* The process's half. */
struct rpi_mapping_rx {
	int fd;
	bool watch;		 /* memory is to be looked at before it is touched */
	bool left;		 /* something was unmapped */
	bool holds;		 /* `held` was looked at, and is not due yet */
	int refused;		 /* why the head can't be carried out; 0: it can */
	uint32_t untouched;	 /* regions that were mapped, and named by no task yet */
	uint64_t applied;	 /* the last ticket carried out */
	struct rpi_mapping held; /* still at the head of the socket */
	struct rpi_reach reach;	 /* what this process has mapped */
};

#endif
