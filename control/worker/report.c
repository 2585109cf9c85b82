/* SPDX-License-Identifier: MIT */
/* What a worker says about itself. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "dispatch/queue.h"
#include "worker/worker.h"

int rp_worker_release_inherited(struct rp_worker *worker)
{
	if (!worker)
		return rpi_fail(-EINVAL, "rp_worker_release_inherited: worker NULL");
	atomic_store_explicit(&worker->inherited.released, 1, memory_order_relaxed);
	return 0;
}

uint32_t rp_worker_chip_count(const struct rp_worker *worker)
{
	return worker ? worker->plane.chip_count : 0;
}

int rp_worker_pid(const struct rp_worker *worker, uint32_t peer)
{
	if (!worker || peer >= worker->plane.peer_count)
		return 0;
	return rpi_process_pid(&worker->processes[peer]);
}

enum rp_sleep_engine rp_worker_sleep_engine(const struct rp_worker *worker,
					    const char **reason_out)
{
	bool uring = worker->parent_park.engine == RPI_PARK_URING;

	if (reason_out)
		*reason_out = uring ? "" : worker->parent_park.reason;
	return uring ? RP_SLEEP_URING : RP_SLEEP_FUTEX;
}

size_t rp_worker_memory_report(struct rp_worker *worker, struct rp_region_info *info_out,
			       size_t max)
{
	const struct rpi_region *own[4];
	size_t count;

	if (!worker)
		return 0;
	own[0] = &worker->region;
	own[1] = &worker->chunks;
	own[2] = &worker->domains.pool.region;
	own[3] = &worker->trace_region;
	if (!info_out)
		max = 0;
	for (count = 0; count < 4; count++)
		if (count < max)
			rpi_region_info(own[count], &info_out[count]);
	return count + rpi_shared_map_info(&worker->shared,
					   count < max ? info_out + count : NULL,
					   count < max ? max - count : 0);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

int rp_worker_get_stats(struct rp_worker *worker, struct rp_worker_stats *stats_out)
{
	struct rpi_plane *plane;
	uint32_t peer;

	if (!worker || !stats_out)
		return rpi_fail(-EINVAL, "rp_worker_get_stats: %s NULL, expected one",
				worker ? "stats_out" : "worker");
	if (stats_out->size != sizeof(*stats_out))
		return rpi_fail(-EINVAL, "rp_worker_get_stats: size %zu, expected %zu",
				stats_out->size, sizeof(*stats_out));
	plane = &worker->plane;
	memset(stats_out, 0, sizeof(*stats_out));
	stats_out->size = sizeof(*stats_out);
	stats_out->dispatches = load(&plane->dispatches);
	stats_out->dispatches_failed = load(&plane->failed);
	stats_out->worker_wakes = load(&plane->rouser.wakes);
	stats_out->caller_sleeps = load(&plane->gate.sleeps);
	stats_out->ring_full_waits = load(&plane->ring_full_waits);
	stats_out->frame_waits = load(&plane->frame_waits);
	stats_out->domains_allocated = load(&worker->domains.allocated);
	stats_out->domains_released = load(&worker->domains.released);
	stats_out->domains_leased = load(&worker->domains.leased);
	if (plane->queue) {
		stats_out->queue_full_waits = load(&plane->queue->full_waits);
		stats_out->dispatcher_sleeps = load(&plane->queue->sleeps);
		stats_out->dispatcher_wakes = load(&plane->queue->wakes);
	}
	for (peer = 0; peer < plane->peer_count; peer++) {
		const struct rpi_peer_counts *counts = &plane->peers[peer].counts;

		stats_out->tasks += load(&counts->tasks);
		stats_out->tasks_cancelled += load(&counts->cancelled);
		stats_out->bytes_to_device += load(&counts->bytes_in);
		stats_out->bytes_from_device += load(&counts->bytes_out);
		stats_out->bytes_zeroed += load(&counts->bytes_zeroed);
		stats_out->copies_to_device += load(&counts->copies_in);
		stats_out->copies_from_device += load(&counts->copies_out);
		stats_out->worker_sleeps += load(&counts->sleeps);
		stats_out->caller_wakes += load(&counts->caller_wakes);
		stats_out->kernels += load(&counts->kernels);
		stats_out->arena_hits += load(&counts->arena_hits);
		stats_out->arena_misses += load(&counts->arena_misses);
		stats_out->arena_builds += load(&counts->arena_builds);
		stats_out->arena_build_ns += load(&counts->arena_build_ns);
		stats_out->arena_grown_bytes += load(&counts->arena_grown_bytes);
		stats_out->arena_bytes += load(&counts->arena_bytes);
		stats_out->bytes_staged += load(&worker->copiers[peer].bytes_staged);
		stats_out->window_resets += load(&counts->resets);
		stats_out->window_bytes_reset += load(&counts->bytes_reset);
		stats_out->bytes_named += load(&worker->copiers[peer].bytes_named);
	}
	return 0;
}
