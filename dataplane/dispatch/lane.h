/* SPDX-License-Identifier: MIT */
/*
 * A lane carries tasks from the parent to one worker process. The first task of
 * a run travels in a slot (descriptor and sequence in one line); the ones after
 * it in a burst ring, where a group is published at once. Arguments lie in a
 * byte ring beside them. The two rings are merged by the task's sequence.
 *
 * The sending half is private to the parent and used by one thread at a time
 * (whoever holds admission); the receiving half is private to the process.
 * Invariant: done_seq <= published <= done_seq + capacity, so neither ring can
 * be overrun and no slot is rewritten before its task has ended.
 */
#ifndef RPI_DISPATCH_LANE_H
#define RPI_DISPATCH_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dispatch/rouse.h"
#include "dispatch/wire.h"
#include "ring/burst.h"
#include "ring/slot.h"

/*
 * Tasks that are published with one store of the burst ring's tail. Each such store
 * takes the line from a process that polls it, so the more the cheaper; but a task waits
 * for its group to fill. A run's groups begin at RPI_LANE_GROUP and follow how fast the
 * orchestration hands tasks out: doubled up to RPI_LANE_GROUP_MAX while one fills within
 * RPI_LANE_GROUP_NS, halved down to single tasks while it takes longer.
 */
#define RPI_LANE_GROUP	   8
#define RPI_LANE_GROUP_MAX 32
#define RPI_LANE_GROUP_NS  2000

/* Slots of a lane. A run uses one, and two runs are in flight; a task that finds
 * its slot still taken goes by the burst ring instead. */
#define RPI_LANE_SLOTS 16

/* Where a lane's shared parts lie. */
struct rpi_lane_memory {
	struct rpi_peer *peer;
	struct rpi_slot *slots; /* RPI_LANE_SLOTS */
	struct rpi_burst *burst;
	uint8_t *args;
	size_t arg_bytes;
	uint32_t capacity; /* power of two */
};

/* The parent's half. What a lone task needs stands together. */
struct rpi_lane {
	struct rpi_lane_memory at;
	uint64_t next_seq;   /* of the next task */
	uint64_t lone_count; /* tasks that went by slot */
	uint64_t done_cache; /* done_seq as last seen here */
	uint64_t arg_head;   /* bytes ever handed out, padding included */
	uint64_t arg_tail;   /* bytes known to be free again */
	uint64_t *arg_end;   /* [capacity]: arg_head after each task */
	size_t arg_at;	     /* arg_head in the ring: below at.arg_bytes */
	/* Published so far; waiters bound what the process says by it. */
	_Atomic uint64_t published_seq;
	struct rpi_rouser *rouser;
	uint32_t peer_idx;
	bool lone_next; /* the next task is the first of its run here */
	uint32_t group_filled;
	uint32_t group_reserved;
	uint32_t group_next;	     /* tasks of the next group; a power of two */
	uint64_t group_ticks;	     /* when this run's last one was full; 0: not yet */
	uint64_t group_patience;     /* RPI_LANE_GROUP_NS in ticks */
	struct rpi_burst_span group; /* reserved in the burst ring */
	uint64_t arg_seq;	     /* tasks whose bytes arg_tail accounts for */
	uint64_t lone_seq[RPI_LANE_SLOTS]; /* last task of each slot */
};

/* The process's half. */
struct rpi_lane_rx {
	struct rpi_lane_memory at;
	uint64_t next_seq;
	uint64_t lone_count;
	struct rpi_burst_span group; /* taken from the burst ring, not given back yet */
	uint32_t group_count;
	uint32_t group_used;
};

/* Bytes of one lane's shared part for these limits, and its carving. */
size_t rpi_lane_bytes(uint32_t capacity, size_t arg_bytes);
int rpi_lane_carve(void *mem, struct rpi_peer *peer, uint32_t capacity, size_t arg_bytes,
		   struct rpi_lane_memory *out);

int rpi_lane_init(struct rpi_lane *lane, const struct rpi_lane_memory *at,
		  struct rpi_rouser *rouser, uint32_t peer_idx);
void rpi_lane_fini(struct rpi_lane *lane);
void rpi_lane_rx_init(struct rpi_lane_rx *rx, const struct rpi_lane_memory *at);

/* Whether one more task with `arg_bytes` bytes of arguments fits now. */
bool rpi_lane_has_room(struct rpi_lane *lane, size_t arg_bytes);

/* The next task has `arg_count` arguments, about a line each: take the lines where they
 * will lie from the process, which has read them a lap ago, while they are checked. */
#define RPI_LANE_AHEAD 8
static inline void rpi_lane_expect(const struct rpi_lane *lane, uint32_t arg_count)
{
	const uint8_t *at = lane->at.args + lane->arg_at;
	uint32_t i;

	for (i = 0; i < arg_count && i < RPI_LANE_AHEAD; i++)
		rpi_cpu_prefetch_write(at + (size_t)i * RPI_CACHE_LINE);
}

/* Where the next task's arguments go: `bytes` contiguous bytes. Only after
 * rpi_lane_has_room() said so for as many; *at_out is their offset. */
void *rpi_lane_args(struct rpi_lane *lane, size_t bytes, uint32_t *at_out);

/* Publish one task, or put it into the open group; returns its sequence, or 0 when the
 * process has written into the ring what it never may. */
uint64_t rpi_lane_send(struct rpi_lane *lane, const struct rpi_task_body *body);

/* Publish the open group, and wake the process if it dozes. */
void rpi_lane_flush(struct rpi_lane *lane);

/* The task with the sequence that is due, or NULL. The pointer is valid until
 * rpi_lane_rx_next(). */
const struct rpi_task_body *rpi_lane_rx_poll(struct rpi_lane_rx *rx);
void rpi_lane_rx_next(struct rpi_lane_rx *rx, const struct rpi_task_body *body);

#endif
