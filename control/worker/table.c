/* SPDX-License-Identifier: MIT */
/* All workers of this process, so that a handle of one that was freed is told
 * apart instead of followed. */
#include <errno.h>

#include "base/error.h"
#include "worker/worker.h"

#define TABLE_SLOTS	 1024u
#define GENERATION_SHIFT 32

struct slot {
	_Atomic uint32_t generation; /* of the worker that is or was here */
	_Atomic(struct rp_worker *) worker;
};

static struct slot table[TABLE_SLOTS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

int rpi_table_enter(struct rp_worker *worker)
{
	uint32_t idx;

	pthread_mutex_lock(&table_lock);
	for (idx = 0; idx < TABLE_SLOTS; idx++)
		if (!atomic_load_explicit(&table[idx].worker, memory_order_relaxed))
			break;
	if (idx < TABLE_SLOTS) {
		uint32_t generation = atomic_fetch_add_explicit(&table[idx].generation, 1,
								memory_order_relaxed) +
				      1;

		worker->id = (uint64_t)generation << GENERATION_SHIFT | idx;
		atomic_store_explicit(&table[idx].worker, worker, memory_order_release);
	}
	pthread_mutex_unlock(&table_lock);
	if (idx == TABLE_SLOTS)
		return rpi_fail(-EMFILE, "rp_worker_prepare: %u workers exist already",
				TABLE_SLOTS);
	return 0;
}

void rpi_table_leave(struct rp_worker *worker)
{
	if (worker->id)
		atomic_store_explicit(&table[(uint32_t)worker->id].worker, NULL,
				      memory_order_release);
	worker->id = 0;
}

struct rp_worker *rpi_table_find(uint64_t id)
{
	uint32_t idx = (uint32_t)id;
	struct rp_worker *worker;

	if (idx >= TABLE_SLOTS)
		return NULL;
	worker = atomic_load_explicit(&table[idx].worker, memory_order_acquire);
	if (!worker ||
	    atomic_load_explicit(&table[idx].generation, memory_order_relaxed) !=
		    (uint32_t)(id >> GENERATION_SHIFT))
		return NULL;
	return worker;
}
