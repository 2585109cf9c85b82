/* SPDX-License-Identifier: MIT */
/* Which counter is part of which figure: one list, for this process and for others. */
#include "trace/counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "dispatch/queue.h"
#include "worker/worker.h"

#define FIELD(field) offsetof(struct rp_worker_stats, field)

const struct rpi_counter rpi_counters[] = {
	{ "dispatches", "accepted dispatches", FIELD(dispatches), false },
	{ "dispatches_failed", "dispatches that ended with an error",
	  FIELD(dispatches_failed), false },
	{ "failed_process", "of those, by the death or the nonsense of a process",
	  FIELD(failed_process), false },
	{ "failed_memory", "of those, for lack of memory or room", FIELD(failed_memory),
	  false },
	{ "failed_deadlock", "of those, by rings that could never drain",
	  FIELD(failed_deadlock), false },
	{ "failed_timeout", "of those, by waits that were cancelled or timed out",
	  FIELD(failed_timeout), false },
	{ "failed_argument", "of those, by arguments or memory that may not be used",
	  FIELD(failed_argument), false },
	{ "failed_other", "of those, by any other error", FIELD(failed_other), false },
	{ "tasks", "tasks that ended on chips and callback workers", FIELD(tasks),
	  false },
	{ "tasks_cancelled", "tasks not run because their run had failed",
	  FIELD(tasks_cancelled), false },
	{ "bytes_to_device", "bytes of arguments copied to devices",
	  FIELD(bytes_to_device), false },
	{ "bytes_from_device", "bytes of arguments copied from devices",
	  FIELD(bytes_from_device), false },
	{ "bytes_zeroed", "bytes of outputs zeroed", FIELD(bytes_zeroed), false },
	{ "copies_to_device", "arguments copied to devices", FIELD(copies_to_device),
	  false },
	{ "copies_from_device", "arguments copied from devices",
	  FIELD(copies_from_device), false },
	{ "worker_sleeps", "times a worker process slept", FIELD(worker_sleeps), false },
	{ "worker_wakes", "wake-ups sent to worker processes", FIELD(worker_wakes),
	  false },
	{ "caller_sleeps", "times a waiting thread slept", FIELD(caller_sleeps), false },
	{ "caller_wakes", "wake-ups sent to waiting threads", FIELD(caller_wakes),
	  false },
	{ "ring_full_waits", "times a full ring pressed back", FIELD(ring_full_waits),
	  false },
	{ "frame_waits", "submits that found both frames taken", FIELD(frame_waits),
	  false },
	{ "bytes_staged", "bytes of explicit copies through staging chunks",
	  FIELD(bytes_staged), false },
	{ "bytes_named", "bytes of explicit copies in place", FIELD(bytes_named), false },
	{ "domains_allocated", "comm domains allocated", FIELD(domains_allocated),
	  false },
	{ "domains_released", "comm domains released", FIELD(domains_released), false },
	{ "domains_leased", "uses of retained comm domains", FIELD(domains_leased),
	  false },
	{ "window_resets", "resets of windows, one per chip", FIELD(window_resets),
	  false },
	{ "window_bytes_reset", "bytes of windows zeroed", FIELD(window_bytes_reset),
	  false },
	{ "queue_full_waits", "submits that found the dispatcher's queue full",
	  FIELD(queue_full_waits), false },
	{ "dispatcher_sleeps", "times the dispatcher slept", FIELD(dispatcher_sleeps),
	  false },
	{ "dispatcher_wakes", "wake-ups sent to the dispatcher", FIELD(dispatcher_wakes),
	  false },
	{ "kernels", "kernels submitted by entries", FIELD(kernels), false },
	{ "arena_hits", "entries with kernels that found their rings made",
	  FIELD(arena_hits), false },
	{ "arena_misses", "entries that waited for their rings", FIELD(arena_misses),
	  false },
	{ "arena_builds", "arenas built", FIELD(arena_builds), false },
	{ "arena_build_ns", "time that building arenas took", FIELD(arena_build_ns),
	  false },
	{ "arena_grown_bytes", "bytes that arenas have grown by",
	  FIELD(arena_grown_bytes), false },
	{ "arena_bytes", "bytes of the arenas there are", FIELD(arena_bytes), true },
};

const size_t rpi_counter_count = sizeof(rpi_counters) / sizeof(rpi_counters[0]);

static_assert(sizeof(struct rp_worker_stats) ==
		      sizeof(size_t) + sizeof(uint64_t) * sizeof(rpi_counters) /
					       sizeof(rpi_counters[0]),
	      "each field has a name");

/* Sources of the caller's process, and of each peer. */
#define SOURCES_CALLER	 32
#define SOURCES_PER_PEER 32

struct list {
	struct rpi_board_source *sources;
	uint32_t count;
};

static void add(struct list *list, size_t field, const _Atomic uint64_t *counter)
{
	list->sources[list->count++] =
		(struct rpi_board_source){ .address = (uint64_t)(uintptr_t)counter,
					   .field = (uint32_t)field };
}

static void add_failures(struct list *list, const struct rpi_plane *plane)
{
	static const size_t failed_fields[RPI_FAILED_KINDS] = {
		[RPI_FAILED_PROCESS] = FIELD(failed_process),
		[RPI_FAILED_MEMORY] = FIELD(failed_memory),
		[RPI_FAILED_DEADLOCK] = FIELD(failed_deadlock),
		[RPI_FAILED_TIMEOUT] = FIELD(failed_timeout),
		[RPI_FAILED_ARGUMENT] = FIELD(failed_argument),
		[RPI_FAILED_OTHER] = FIELD(failed_other),
	};
	size_t kind;

	for (kind = 0; kind < RPI_FAILED_KINDS; kind++) {
		add(list, failed_fields[kind], &plane->failed[kind]);
		add(list, FIELD(dispatches_failed), &plane->failed[kind]);
	}
}

static void add_caller(struct list *list, const struct rp_worker *worker)
{
	const struct rpi_plane *plane = &worker->plane;

	add(list, FIELD(dispatches), &plane->dispatches);
	add(list, FIELD(worker_wakes), &plane->rouser.wakes);
	add(list, FIELD(caller_sleeps), &plane->gate.sleeps);
	add(list, FIELD(ring_full_waits), &plane->ring_full_waits);
	add(list, FIELD(frame_waits), &plane->frame_waits);
	add(list, FIELD(domains_allocated), &worker->domains.allocated);
	add(list, FIELD(domains_released), &worker->domains.released);
	add(list, FIELD(domains_leased), &worker->domains.leased);
	add_failures(list, plane);
	if (!plane->queue)
		return;
	add(list, FIELD(queue_full_waits), &plane->queue->full_waits);
	add(list, FIELD(dispatcher_sleeps), &plane->queue->sleeps);
	add(list, FIELD(dispatcher_wakes), &plane->queue->wakes);
}

static void add_peer(struct list *list, const struct rp_worker *worker, uint32_t peer)
{
	const struct rpi_peer_counts *counts = &worker->plane.peers[peer].counts;

	add(list, FIELD(tasks), &counts->tasks);
	add(list, FIELD(tasks_cancelled), &counts->cancelled);
	add(list, FIELD(bytes_to_device), &counts->bytes_in);
	add(list, FIELD(bytes_from_device), &counts->bytes_out);
	add(list, FIELD(bytes_zeroed), &counts->bytes_zeroed);
	add(list, FIELD(copies_to_device), &counts->copies_in);
	add(list, FIELD(copies_from_device), &counts->copies_out);
	add(list, FIELD(worker_sleeps), &counts->sleeps);
	add(list, FIELD(caller_wakes), &counts->caller_wakes);
	add(list, FIELD(kernels), &counts->kernels);
	add(list, FIELD(arena_hits), &counts->arena_hits);
	add(list, FIELD(arena_misses), &counts->arena_misses);
	add(list, FIELD(arena_builds), &counts->arena_builds);
	add(list, FIELD(arena_build_ns), &counts->arena_build_ns);
	add(list, FIELD(arena_grown_bytes), &counts->arena_grown_bytes);
	add(list, FIELD(arena_bytes), &counts->arena_bytes);
	add(list, FIELD(window_resets), &counts->resets);
	add(list, FIELD(window_bytes_reset), &counts->bytes_reset);
	add(list, FIELD(bytes_staged), &worker->copiers[peer].bytes_staged);
	add(list, FIELD(bytes_named), &worker->copiers[peer].bytes_named);
}

int rpi_counters_publish(struct rp_worker *worker)
{
	struct rpi_board *board = &worker->plane.tracer.trace->board;
	struct list list = { 0 };
	uint32_t peer;

	list.sources = calloc(SOURCES_CALLER +
				      worker->plane.peer_count * (size_t)SOURCES_PER_PEER,
			      sizeof(*list.sources));
	if (!list.sources)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	add_caller(&list, worker);
	for (peer = 0; peer < worker->plane.peer_count; peer++)
		add_peer(&list, worker, peer);
	worker->counter_sources = list.sources;
	board->stats_bytes = sizeof(struct rp_worker_stats);
	board->source_count = list.count;
	board->sources = (uint64_t)(uintptr_t)list.sources;
	board->magic = RPI_BOARD_MAGIC;
	return 0;
}

void rpi_counters_release(struct rp_worker *worker)
{
	free(worker->counter_sources);
	worker->counter_sources = NULL;
}

int rp_worker_get_stats(struct rp_worker *worker, struct rp_worker_stats *stats_out)
{
	const struct rpi_board *board;
	uint32_t i;

	if (!worker || !stats_out)
		return rpi_fail(-EINVAL, "rp_worker_get_stats: %s NULL, expected one",
				worker ? "stats_out" : "worker");
	if (stats_out->size != sizeof(*stats_out))
		return rpi_fail(-EINVAL, "rp_worker_get_stats: size %zu, expected %zu",
				stats_out->size, sizeof(*stats_out));
	board = &worker->plane.tracer.trace->board;
	memset(stats_out, 0, sizeof(*stats_out));
	stats_out->size = sizeof(*stats_out);
	for (i = 0; i < board->source_count; i++) {
		const struct rpi_board_source *source = &worker->counter_sources[i];
		const _Atomic uint64_t *counter =
			(const _Atomic uint64_t *)(uintptr_t)source->address;
		uint64_t *field = (uint64_t *)((char *)stats_out + source->field);

		/* Relaxed: read while they run. */
		*field += atomic_load_explicit(counter, memory_order_relaxed);
	}
	return 0;
}
