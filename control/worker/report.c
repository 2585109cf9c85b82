/* SPDX-License-Identifier: MIT */
/* What a worker says about itself. */
#include <errno.h>

#include "base/error.h"
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
