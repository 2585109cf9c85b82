/* SPDX-License-Identifier: MIT */
/*
 * The region that the parent and its worker processes share:
 *
 *	frames | peers | park of the parent | parks | command lanes | lane 0 | ...
 *
 * Laid out and initialised in the parent before the fork; everybody finds it at
 * the same address. The parent owns it and unmaps it at the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "memory/zero.h"
#include "region/node.h"
#include "trace/pipe.h"
#include "worker/worker.h"

#define DEFAULT_WINDOW_MEMORY ((size_t)64 << 20)

static size_t aligned(size_t bytes)
{
	return (bytes + RPI_SHARE_ALIGN - 1) & ~(size_t)(RPI_SHARE_ALIGN - 1);
}

static size_t region_bytes(const struct rp_worker *worker)
{
	const struct rp_worker_options *options = &worker->options;
	size_t peers = worker->plane.peer_count;

	return aligned(RPI_FRAME_COUNT * sizeof(struct rpi_frame)) +
	       peers * sizeof(struct rpi_peer) +
	       (1 + peers) * sizeof(struct rpi_park_block) +
	       peers * sizeof(struct rpi_command_lane) +
	       peers * rpi_lane_bytes(options->task_ring_slots, options->arg_ring_bytes);
}

static int create_parks(struct rp_worker *worker, struct rpi_park_block *blocks)
{
	static const enum rpi_park_engine engines[] = {
		[RP_SLEEP_AUTO] = RPI_PARK_AUTO,
		[RP_SLEEP_URING] = RPI_PARK_URING,
		[RP_SLEEP_FUTEX] = RPI_PARK_FUTEX,
	};
	enum rpi_park_engine engine = engines[worker->options.sleep_engine];
	const char *why;
	uint32_t peer;
	int err;

	err = rpi_park_create(&worker->parent_park, engine, &blocks[0]);
	if (err)
		return err;
	/* The rest of the set as the first: wakers then need one way only. A ring
	 * that can't be had any more (a limit) turns the whole set to futexes. */
	for (peer = 0; peer < worker->plane.peer_count; peer++) {
		err = rpi_park_create(&worker->parks[peer], worker->parent_park.engine,
				      &blocks[1 + peer]);
		if (!err)
			continue;
		if (engine == RPI_PARK_URING)
			return err;
		why = worker->parks[peer].reason;
		while (peer-- > 0)
			rpi_park_destroy(&worker->parks[peer]);
		rpi_park_destroy(&worker->parent_park);
		rpi_log(RP_LOG_INFO, "prepare: sleeping in futexes: %s", rp_last_error());
		worker->options.sleep_engine = RP_SLEEP_FUTEX;
		err = create_parks(worker, blocks);
		worker->parent_park.reason = why; /* nobody asked for futexes */
		return err;
	}
	return 0;
}

static int create_lanes(struct rp_worker *worker, uint8_t *at)
{
	const struct rp_worker_options *options = &worker->options;
	struct rpi_plane *plane = &worker->plane;
	size_t bytes = rpi_lane_bytes(options->task_ring_slots, options->arg_ring_bytes);
	uint32_t peer;
	int err;

	for (peer = 0; peer < plane->peer_count; peer++, at += bytes) {
		err = rpi_lane_carve(at, &plane->peers[peer], options->task_ring_slots,
				     options->arg_ring_bytes, &worker->lane_memory[peer]);
		if (!err)
			err = rpi_lane_init(&plane->lanes[peer],
					    &worker->lane_memory[peer], &plane->rouser,
					    peer);
		if (err)
			return err;
	}
	return 0;
}

int rpi_worker_chip_node(const struct rp_worker *worker, uint32_t chip)
{
	return worker->chip_cpus && chip < worker->plane.chip_count
		       ? rpi_node_of_cpu(worker->chip_cpus[chip])
		       : -1;
}

/* Each chip's near the CPU that it is pinned to; before they are backed. */
static void place_chunks(struct rp_worker *worker, size_t bytes)
{
	uint32_t chip;

	for (chip = 0; chip < worker->plane.chip_count; chip++)
		rpi_node_prefer((uint8_t *)worker->chunks.base + chip * bytes, bytes,
				rpi_worker_chip_node(worker, chip));
}

/* Chunks are the worker's own, taken once: copying for ever takes no more. They are
 * backed by the first copy that needs them: many workers never copy. */
static int create_copiers(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	const size_t bytes = RPI_STAGING_CHUNKS * RPI_STAGING_CHUNK_BYTES;
	uint32_t peer;
	int err;

	worker->copiers = aligned_alloc(RPI_SHARE_ALIGN,
					plane->peer_count * sizeof(*worker->copiers));
	if (!worker->copiers)
		return rpi_fail(-ENOMEM, "prepare: no memory");
	memset(worker->copiers, 0, plane->peer_count * sizeof(*worker->copiers));
	err = rpi_region_create_lazy(&worker->chunks, "rp-staging",
				     plane->chip_count * bytes, worker->options.pages);
	if (!err)
		place_chunks(worker, bytes);
	for (peer = 0; !err && peer < plane->peer_count; peer++)
		err = rpi_copier_init(
			&worker->copiers[peer], plane, peer, &worker->command_lanes[peer],
			peer < plane->chip_count
				? (uint8_t *)worker->chunks.base + peer * bytes
				: NULL);
	return err;
}

static int create_domains(struct rp_worker *worker)
{
	const struct rp_worker_options *options = &worker->options;
	struct rpi_domains *domains = &worker->domains;
	size_t bytes = options->window_memory_bytes;
	enum rp_page_policy pages = options->pages;

	domains->persistent = options->persistent;
	domains->reset = options->reset_windows;
	if (domains->reset == RP_WINDOWS_DEFAULT)
		domains->reset = RP_WINDOWS_RESET;
	/* Reads of it all come from the one zero page: it costs no memory. */
	if (options->persistent && options->reset_engine == RP_RESET_CHUNK) {
		void *chunk = mmap(NULL, RPI_ZERO_CHUNK_BYTES, PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (chunk == MAP_FAILED)
			return rpi_fail(-errno, "prepare: the zero chunk: %s",
					strerror(errno));
		worker->zero_chunk = chunk;
	}
	/* Nobody has asked for the default pool: it takes the pages that it gets. */
	if (!bytes && pages == RP_PAGES_REQUIRE)
		pages = RP_PAGES_AUTO;
	return rpi_pool_init(&domains->pool, options->chip_count,
			     bytes ? bytes : DEFAULT_WINDOW_MEMORY, pages);
}

/* The logs of the peers, then the caller's. Small pages: most of it is never touched. */
static int create_trace(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	const char *device = getenv("SIMPLER_DEVICE_STRACE_ENABLE");
	int err = rpi_region_create_lazy(
		&worker->trace_region, "rp-trace",
		sizeof(struct rpi_trace) +
			(plane->peer_count + 1) * sizeof(struct rpi_trace_log) +
			plane->peer_count * sizeof(struct rpi_pipe),
		RP_PAGES_NEVER);

	if (err)
		return err;
	worker->device_spans = !device || strcmp(device, "0") != 0;
	worker->anchor_ns = rpi_now_ns();
	worker->anchor_ticks = rpi_clock_ticks();
	plane->tracer = rpi_worker_tracer(worker, plane->peer_count);
	return 0;
}

struct rpi_pipe *rpi_worker_pipe(const struct rp_worker *worker, uint32_t peer)
{
	struct rpi_trace *trace = worker->trace_region.base;
	const uint32_t peers = worker->plane.peer_count;

	return peer < peers ? (struct rpi_pipe *)(void *)&trace->logs[peers + 1] + peer
			    : NULL;
}

struct rpi_tracer rpi_worker_tracer(const struct rp_worker *worker, uint32_t peer)
{
	struct rpi_trace *trace = worker->trace_region.base;

	return (struct rpi_tracer){ .trace = trace,
				    .log = &trace->logs[peer],
				    .pipe = rpi_worker_pipe(worker, peer) };
}

int rpi_worker_lay_out(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	size_t bytes = region_bytes(worker);
	struct rpi_park_block *blocks;
	uint8_t *at;
	int err;

	worker->parks = calloc(plane->peer_count, sizeof(*worker->parks));
	worker->lane_memory = calloc(plane->peer_count, sizeof(*worker->lane_memory));
	plane->lanes = calloc(plane->peer_count, sizeof(*plane->lanes));
	if (!worker->parks || !worker->lane_memory || !plane->lanes)
		return rpi_fail(-ENOMEM, "prepare: no memory for %u worker processes",
				plane->peer_count);
	err = rpi_region_create(&worker->region, "rp-lanes", bytes,
				worker->options.pages);
	if (err)
		return err;
	worker->has_region = true;
	/* Zeroed by the kernel: sequences, phases and flags start at 0. */
	at = worker->region.base;
	worker->frames = (struct rpi_frame *)at;
	at += aligned(RPI_FRAME_COUNT * sizeof(struct rpi_frame));
	plane->peers = (struct rpi_peer *)at;
	at += plane->peer_count * sizeof(struct rpi_peer);
	blocks = (struct rpi_park_block *)at;
	at += (1 + (size_t)plane->peer_count) * sizeof(*blocks);
	worker->command_lanes = (struct rpi_command_lane *)at;
	at += plane->peer_count * sizeof(*worker->command_lanes);
	err = create_parks(worker, blocks);
	if (!err)
		err = create_lanes(worker, at);
	if (!err)
		err = create_copiers(worker);
	if (!err)
		err = create_trace(worker);
	if (!err)
		err = create_domains(worker);
	return err;
}

void rpi_worker_unlay(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	uint32_t peer;

	for (peer = 0; worker->parks && peer < plane->peer_count; peer++)
		rpi_park_destroy(&worker->parks[peer]);
	rpi_park_destroy(&worker->parent_park);
	for (peer = 0; plane->lanes && peer < plane->peer_count; peer++)
		rpi_lane_fini(&plane->lanes[peer]);
	for (peer = 0; worker->copiers && peer < plane->peer_count; peer++)
		rpi_copier_fini(&worker->copiers[peer]);
	free(worker->copiers);
	worker->copiers = NULL;
	if (worker->chunks.base)
		rpi_region_destroy(&worker->chunks);
	rpi_region_destroy(&worker->trace_region);
	if (worker->has_region)
		rpi_region_destroy(&worker->region);
	worker->has_region = false;
	free(worker->parks);
	free(worker->lane_memory);
	free(plane->lanes);
	worker->parks = NULL;
	worker->lane_memory = NULL;
	plane->lanes = NULL;
	plane->peers = NULL;
}
