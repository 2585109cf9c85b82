/* SPDX-License-Identifier: MIT */
/*
 * The hot path of a hand-off. Never: an allocation, a lock, a log; a system call
 * only to wake a process that said it sleeps.
 */
#include "dispatch/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* See send_grouped(). */
static uint32_t burst_capacity(uint32_t capacity)
{
	return capacity + 2 * RPI_LANE_GROUP_MAX;
}

size_t rpi_lane_bytes(uint32_t capacity, size_t arg_bytes)
{
	return RPI_LANE_SLOTS * sizeof(struct rpi_slot) +
	       round_up(
		       rpi_burst_bytes(sizeof(struct rpi_task), burst_capacity(capacity)),
		       RPI_SHARE_ALIGN) +
	       round_up(arg_bytes, RPI_SHARE_ALIGN);
}

int rpi_lane_carve(void *mem, struct rpi_peer *peer, uint32_t capacity, size_t arg_bytes,
		   struct rpi_lane_memory *out)
{
	uint32_t ring_capacity = burst_capacity(capacity);
	size_t burst_bytes = rpi_burst_bytes(sizeof(struct rpi_task), ring_capacity);
	uint8_t *at = mem;
	int err;

	out->peer = peer;
	out->capacity = capacity;
	out->arg_bytes = arg_bytes;
	out->slots = (struct rpi_slot *)at;
	at += RPI_LANE_SLOTS * sizeof(struct rpi_slot);
	out->burst = (struct rpi_burst *)at;
	err = rpi_burst_init(at, burst_bytes, sizeof(struct rpi_task), ring_capacity,
			     RPI_BURST_SP | RPI_BURST_SC);
	if (err)
		return err;
	at += round_up(burst_bytes, RPI_SHARE_ALIGN);
	out->args = at;
	return 0;
}

int rpi_lane_init(struct rpi_lane *lane, const struct rpi_lane_memory *at,
		  struct rpi_rouser *rouser, uint32_t peer_idx)
{
	memset(lane, 0, sizeof(*lane));
	lane->at = *at;
	lane->rouser = rouser;
	lane->peer_idx = peer_idx;
	lane->next_seq = 1;
	lane->lone_next = true;
	lane->group_next = RPI_LANE_GROUP;
	lane->group_patience = rpi_clock_from_ns(RPI_LANE_GROUP_NS);
	lane->arg_end = calloc(at->capacity, sizeof(*lane->arg_end));
	if (!lane->arg_end)
		return rpi_fail(-ENOMEM, "prepare: no memory for %u task slots",
				at->capacity);
	return 0;
}

void rpi_lane_fini(struct rpi_lane *lane)
{
	free(lane->arg_end);
	lane->arg_end = NULL;
}

void rpi_lane_rx_init(struct rpi_lane_rx *rx, const struct rpi_lane_memory *at)
{
	memset(rx, 0, sizeof(*rx));
	rx->at = *at;
	rx->next_seq = 1;
}

/* Look at what the process has finished. E2: its arguments are free again. The
 * word is the process's: a value past what was published is not believed. */
static void refresh_done(struct rpi_lane *lane)
{
	uint64_t done =
		atomic_load_explicit(&lane->at.peer->done_seq, memory_order_acquire);

	if (done < lane->next_seq && done > lane->done_cache)
		lane->done_cache = done;
	if (lane->arg_seq < lane->done_cache) {
		uint64_t end;

		lane->arg_seq = lane->done_cache;
		end = lane->arg_end[(lane->arg_seq - 1) & (lane->at.capacity - 1)];
		/* Never back: a task without arguments may have been sent before the
		 * ring began anew at its start. */
		if (end > lane->arg_tail)
			lane->arg_tail = end;
	}
}

/* Bytes that `bytes` would take at arg_head, with what is skipped at the end of
 * the ring so that one task's arguments are contiguous. */
static size_t arg_charge(const struct rpi_lane *lane, size_t bytes)
{
	size_t left = lane->at.arg_bytes - lane->arg_at;

	return bytes > left ? left + bytes : bytes;
}

static bool fits(const struct rpi_lane *lane, size_t arg_bytes)
{
	if (lane->next_seq - lane->done_cache > lane->at.capacity)
		return false;
	return !arg_bytes ||
	       lane->arg_head - lane->arg_tail + arg_charge(lane, arg_bytes) <=
		       lane->at.arg_bytes;
}

bool rpi_lane_has_room(struct rpi_lane *lane, size_t arg_bytes)
{
	if (rpi_likely(fits(lane, arg_bytes)))
		return true;
	refresh_done(lane);
	/* All bytes free: begin at the start, so that nothing is lost to the wrap. */
	if (lane->arg_tail == lane->arg_head && lane->arg_at) {
		lane->arg_head += lane->at.arg_bytes - lane->arg_at;
		lane->arg_tail = lane->arg_head;
		lane->arg_at = 0;
	}
	return fits(lane, arg_bytes);
}

void *rpi_lane_args(struct rpi_lane *lane, size_t bytes, uint32_t *at_out)
{
	size_t charge = arg_charge(lane, bytes);
	size_t at = charge == bytes ? lane->arg_at : 0;

	lane->arg_head += charge;
	/* No division: a ring need not be a power of two, and one is slow. */
	lane->arg_at = at + bytes < lane->at.arg_bytes ? at + bytes : 0;
	*at_out = (uint32_t)at;
	return lane->at.args + at;
}

/* Before the task can be seen, so that nobody sees it ended and not published.
 * Relaxed: E1 and E2 carry it to whoever reads done_seq. */
static void note_published(struct rpi_lane *lane, uint64_t seq)
{
	atomic_store_explicit(&lane->published_seq, seq, memory_order_relaxed);
}

static void send_lone(struct rpi_lane *lane, const struct rpi_task_body *body,
		      uint32_t idx)
{
	struct rpi_slot *slot = &lane->at.slots[idx];

	memcpy(slot->payload, body, sizeof(*body));
	note_published(lane, lane->next_seq);
	/* E1: one line, so the body is there when its sequence is. */
	atomic_store_explicit(&slot->seq, lane->next_seq, memory_order_release);
	lane->lone_seq[idx] = lane->next_seq;
	lane->lone_count++;
	lane->group_next = RPI_LANE_GROUP;
	lane->group_ticks = 0;
}

static void publish_group(struct rpi_lane *lane, uint64_t last_seq)
{
	if (!lane->group_filled)
		return;
	note_published(lane, last_seq);
	rpi_burst_publish(lane->at.burst, lane->group_filled); /* E1 */
	lane->group_filled = 0;
	lane->group_reserved = 0;
}

static struct rpi_task *span_at(const struct rpi_burst_span *span, uint32_t idx)
{
	return idx < span->first_count
		       ? (struct rpi_task *)span->first + idx
		       : (struct rpi_task *)span->second + (idx - span->first_count);
}

/* A group is full: has it taken long? */
static void pace_groups(struct rpi_lane *lane)
{
	uint64_t now = rpi_clock_ticks();
	uint64_t ticks = now - lane->group_ticks;

	if (!lane->group_ticks)
		; /* nobody knows when it began */
	else if (ticks > lane->group_patience)
		lane->group_next -= lane->group_next / 2;
	else if (lane->group_next < RPI_LANE_GROUP_MAX)
		lane->group_next *= 2;
	lane->group_ticks = now;
}

static bool open_group(struct rpi_lane *lane)
{
	uint32_t i;

	/* Never refused: the caller saw room for one, and the ring holds two groups
	 * more than the lane does (the one open here, one not given back there). */
	lane->group_reserved =
		rpi_burst_reserve(lane->at.burst, lane->group_next, &lane->group);
	/* The process has read these lines a lap ago. */
	for (i = 0; i < lane->group_reserved; i++)
		rpi_cpu_prefetch_write(span_at(&lane->group, i));
	/* 0: the consumer's index is the consumer's word. */
	return rpi_likely(lane->group_reserved);
}

static bool send_grouped(struct rpi_lane *lane, const struct rpi_task_body *body)
{
	struct rpi_task *task;
	uint32_t idx;

	if (!lane->group_reserved && !open_group(lane))
		return false;
	idx = lane->group_filled++;
	task = span_at(&lane->group, idx);
	task->seq = lane->next_seq;
	task->body = *body;
	if (lane->group_filled == lane->group_reserved) {
		publish_group(lane, lane->next_seq);
		pace_groups(lane);
	}
	return true;
}

uint64_t rpi_lane_send(struct rpi_lane *lane, const struct rpi_task_body *body)
{
	uint64_t seq = lane->next_seq;
	uint32_t idx = (uint32_t)lane->lone_count & (RPI_LANE_SLOTS - 1);
	bool published;

	lane->arg_end[(seq - 1) & (lane->at.capacity - 1)] = lane->arg_head;
	if (lane->lone_next && lane->lone_seq[idx] > lane->done_cache)
		refresh_done(lane);
	if (lane->lone_next && lane->lone_seq[idx] <= lane->done_cache) {
		send_lone(lane, body, idx);
		published = true;
	} else {
		if (!send_grouped(lane, body))
			return 0;
		published = !lane->group_filled;
	}
	lane->lone_next = false;
	lane->next_seq = seq + 1;
	if (published)
		rpi_rouse(lane->rouser, lane->peer_idx);
	return seq;
}

void rpi_lane_flush(struct rpi_lane *lane)
{
	if (!lane->group_filled)
		return;
	publish_group(lane, lane->next_seq - 1);
	rpi_rouse(lane->rouser, lane->peer_idx);
}

/* The parent has just written the lines of a group: fetch them side by side instead of
 * one after the other as they are read. */
static void fetch_group(const struct rpi_lane_rx *rx)
{
	uint32_t i;

	for (i = 1; i < rx->group_count; i++)
		__builtin_prefetch(span_at(&rx->group, i));
}

const struct rpi_task_body *rpi_lane_rx_poll(struct rpi_lane_rx *rx)
{
	struct rpi_slot *slot =
		&rx->at.slots[(uint32_t)rx->lone_count & (RPI_LANE_SLOTS - 1)];
	struct rpi_task *task;

	/* E1, lone hand-off. An older sequence is a slot that was used before. */
	if (atomic_load_explicit(&slot->seq, memory_order_acquire) == rx->next_seq)
		return (const struct rpi_task_body *)slot->payload;
	if (rx->group_used == rx->group_count) {
		if (rpi_burst_empty(rx->at.burst))
			return NULL;
		/* E1, burst: as many as there are, given back together. */
		rx->group_count =
			rpi_burst_peek(rx->at.burst, RPI_LANE_GROUP_MAX, &rx->group);
		rx->group_used = 0;
		if (!rx->group_count)
			return NULL;
		fetch_group(rx);
	}
	/* The oldest of a burst may have to wait for one in a slot. */
	task = span_at(&rx->group, rx->group_used);
	return task->seq == rx->next_seq ? &task->body : NULL;
}

void rpi_lane_rx_next(struct rpi_lane_rx *rx, const struct rpi_task_body *body)
{
	const struct rpi_slot *slot =
		&rx->at.slots[(uint32_t)rx->lone_count & (RPI_LANE_SLOTS - 1)];

	if ((const void *)body == (const void *)slot->payload)
		rx->lone_count++;
	else if (++rx->group_used == rx->group_count)
		rpi_burst_consume(rx->at.burst, rx->group_count);
	rx->next_seq++;
}
