/* SPDX-License-Identifier: MIT */
/* A full lane presses back: the submitting thread waits until tasks have ended. */
#include <errno.h>

#include "base/futex.h"
#include "dispatch/plane.h"

/* Turns before the thread sleeps; a sleep is told of the end of a quarter of the
 * ring, so that it is not woken for every task. */
#define ROOM_TURNS 2000

/* A fall is told by a wake-up as well; this only bounds a missed one. */
#define ROOM_SLEEP_NS 100000000u

static int check_fall(struct rpi_plane *plane)
{
	if (rpi_likely(atomic_load_explicit(&plane->fall, memory_order_acquire) ==
		       RPI_FALL_NONE))
		return 0;
	return rpi_fail(-EOWNERDEAD, "%s", plane->fall_text);
}

static void sleep_for_room(struct rpi_lane *lane, size_t arg_bytes)
{
	struct rpi_peer *peer = lane->at.peer;
	uint64_t goal = lane->done_cache + lane->at.capacity / 4;
	uint32_t seen = atomic_load_explicit(&peer->room_futex, memory_order_acquire);

	if (goal >= lane->next_seq)
		goal = lane->next_seq - 1;
	atomic_store_explicit(&peer->room_seq, goal, memory_order_relaxed);
	atomic_fetch_or_explicit(&peer->attention, RPI_ATTENTION_ROOM,
				 memory_order_acq_rel);
	rpi_fence(); /* E5 */
	if (atomic_load_explicit(&peer->done_seq, memory_order_acquire) >= goal ||
	    rpi_lane_has_room(lane, arg_bytes))
		return;
	rpi_futex_wait(&peer->room_futex, seen, RPI_FUTEX_SHARED,
		       rpi_now_ns() + ROOM_SLEEP_NS);
}

int rpi_plane_await_room(struct rpi_plane *plane, const char *call, uint32_t peer,
			 size_t arg_bytes)
{
	struct rpi_lane *lane = &plane->lanes[peer];
	uint32_t turns = 0;
	uint32_t other;
	int err;

	if (arg_bytes > lane->at.arg_bytes)
		return rpi_fail(-ENOSPC,
				"%s: the arguments take %zu bytes, arg_ring_bytes is %zu",
				call, arg_bytes, lane->at.arg_bytes);
	/* A task that is still held back may be what the others wait for. */
	for (other = 0; other < plane->peer_count; other++)
		rpi_lane_flush(&plane->lanes[other]);
	atomic_fetch_add_explicit(&plane->ring_full_waits, 1, memory_order_relaxed);
	while (!rpi_lane_has_room(lane, arg_bytes)) {
		err = check_fall(plane);
		if (err)
			return err;
		if (++turns < ROOM_TURNS)
			rpi_cpu_pause();
		else
			sleep_for_room(lane, arg_bytes);
	}
	return 0;
}
