/* SPDX-License-Identifier: MIT */
/*
 * Commands: what the parent asks of a worker process beside tasks. They have a lane of
 * their own, so that several threads may copy while others dispatch, and are carried
 * out between tasks.
 *
 * Memory order.
 *   C1 command  parent fills a slot -> seq store-release; process acquire -> reads it
 *   C2 reply    process fills its reply (and what the command named) -> seq store-
 *               release; parent acquire -> reads it, may write the slot again
 *   E4, E5      as in dispatch/wire.h: dozing processes, threads that wait for a reply
 * Invariant: a slot is written again only after its reply was read.
 */
#ifndef RPI_STAGING_COMMAND_H
#define RPI_STAGING_COMMAND_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

enum rpi_command_op {
	RPI_COMMAND_COPY_IN = 1,  /* host -> device */
	RPI_COMMAND_COPY_OUT = 2, /* device -> host */
	/* The same, of a transfer so large that it had better go around the caches. */
	RPI_COMMAND_STREAM_IN = 3,
	RPI_COMMAND_STREAM_OUT = 4,
};

/* Payload that rides in the command or the reply itself: four lines with the rest. */
#define RPI_COMMAND_INLINE 208

#define RPI_COMMAND_SLOTS  16

/* Of it, what lies in the line of the sequence word. */
#define RPI_COMMAND_FIRST 16

struct rpi_command {
	/* The parent writes the slot. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t seq; /* C1 */
	uint32_t op;					/* enum rpi_command_op */
	uint32_t inlined; /* 1: the bytes are in `data`, here or in the reply */
	uint64_t bytes;
	uint64_t device;     /* device address */
	uint64_t host;	     /* address of shared host memory, unless inlined */
	uint64_t after_task; /* not before this task of the process has ended */
	uint8_t data[RPI_COMMAND_INLINE];
};

struct rpi_reply {
	/* The process writes the slot. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t seq; /* C2 */
	int32_t status;
	uint32_t reserved;
	uint64_t reserved2[4];
	uint8_t data[RPI_COMMAND_INLINE];
};

static_assert(sizeof(struct rpi_command) == 2 * RPI_SHARE_ALIGN, "four lines");
static_assert(offsetof(struct rpi_command, data) + RPI_COMMAND_FIRST == RPI_CACHE_LINE &&
		      offsetof(struct rpi_reply, data) + RPI_COMMAND_FIRST ==
			      RPI_CACHE_LINE,
	      "where the second line begins");
static_assert(sizeof(struct rpi_reply) == 2 * RPI_SHARE_ALIGN, "four lines");

/* One process's command lane, in the shared region. */
struct rpi_command_lane {
	struct rpi_command commands[RPI_COMMAND_SLOTS];
	struct rpi_reply replies[RPI_COMMAND_SLOTS];
};

/* The process's half. */
struct rpi_command_rx {
	struct rpi_command_lane *lane;
	uint64_t next_seq; /* from 1 */
};

/* The command that is due, or NULL. */
static inline const struct rpi_command *rpi_command_poll(const struct rpi_command_rx *rx)
{
	const struct rpi_command *command =
		&rx->lane->commands[rx->next_seq & (RPI_COMMAND_SLOTS - 1)];

	/* A payload's next line comes with the first one then, not after it. */
	__builtin_prefetch(&command->data[RPI_COMMAND_FIRST]);
	/* C1 */
	return atomic_load_explicit(&command->seq, memory_order_acquire) == rx->next_seq
		       ? command
		       : NULL;
}

#endif
