/* SPDX-License-Identifier: MIT */
#include "copy_worker.h"

#include <errno.h>
#include <string.h>

#include <ringplane/device.h>

#include "base/error.h"
#include "dispatch_worker.h"
#include "empty.h"

#define MIB ((size_t)1 << 20)

/* A second allocation as large as the first, for stacked tensors, and scratch. */
#define ROOM_FACTOR 3

/* By chips - 1, pages, and whether both sides spin. */
static struct copy_worker workers[COPY_CHIPS_MAX][3][2];

int copy_worker_get(const struct copy_variant *variant, struct copy_worker **out)
{
	struct copy_worker *at =
		&workers[variant->chip_count - 1][variant->pages][variant->rtt];
	int err = at->program ? 0 : bench_empty_program("copy", &at->program);

	if (err)
		return err;
	at->spins = variant->rtt;
	if (variant->bytes > at->bytes)
		at->bytes = variant->bytes;
	at->users++;
	*out = at;
	return 0;
}

static void stop(struct copy_worker *at)
{
	bench_worker_stop(at->worker);
	at->worker = NULL;
}

void copy_worker_put(struct copy_worker *at)
{
	if (--at->users)
		return;
	stop(at);
	rp_program_free(at->program);
	memset(at, 0, sizeof(*at));
}

/* What is there to be shared, as the processes will have it. */
static size_t list_inherited(struct rp_host_range ranges[COPY_BLOCK_COUNT])
{
	size_t count = 0;

	for (enum copy_block block = COPY_SHARED_USUAL; block < COPY_BLOCK_COUNT; block++)
		if (copy_block_at(block))
			ranges[count++] =
				(struct rp_host_range){ .base = copy_block_at(block),
							.bytes =
								copy_block_bytes(block) };
	return count;
}

static int start(struct copy_worker *at, const struct copy_variant *variant,
		 const struct bench_options *options)
{
	struct rp_host_range ranges[COPY_BLOCK_COUNT];
	struct rp_worker_options worker_options;
	int err;

	rp_worker_options_init(&worker_options);
	worker_options.chip_count = variant->chip_count;
	worker_options.wait = at->spins ? RP_WAIT_SPIN : RP_WAIT_HYBRID;
	worker_options.worker_wait = worker_options.wait;
	worker_options.pages = variant->pages == COPY_PAGES_4K ? RP_PAGES_NEVER
							       : RP_PAGES_AUTO;
	worker_options.device_memory_bytes = ROOM_FACTOR * at->bytes + 16 * MIB;
	worker_options.inherited = ranges;
	worker_options.inherited_count = list_inherited(ranges);
	err = bench_worker_start(options, at->program, &worker_options,
				 BENCH_PLACE_SPREAD, &at->worker);
	for (uint32_t chip = 0; !err && chip < variant->chip_count; chip++)
		err = rp_worker_device_alloc(at->worker, chip, at->bytes,
					     &at->device[chip]);
	if (err)
		stop(at);
	else
		at->start_seq++;
	return err;
}

int copy_worker_enter(struct copy_worker *at, const struct copy_variant *variant,
		      const struct bench_options *options)
{
	return at->worker ? 0 : start(at, variant, options);
}

void copy_worker_leave(struct copy_worker *at)
{
	if (at->spins)
		stop(at);
}
