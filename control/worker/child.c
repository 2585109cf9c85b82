/* SPDX-License-Identifier: MIT */
/* A worker process, from its fork to its loop. Runs in the child only. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/testing.h"
#include "process/hygiene.h"
#include "process/leave.h"
#include "runtime/runtime.h"
#include "trace/pmu.h"
#include "worker/worker.h"

/* Shared memory of the caller that is touched before a process is ready; more is
 * touched by the dispatch that first uses it. */
#define PREFAULT_SHARED_BYTES ((size_t)64 << 20)

/* At most this of a chip's memory is scratch for arguments. */
#define SCRATCH_BYTES_MAX ((size_t)256 << 20)

static void enter_phase(struct rpi_peer *self, enum rpi_phase phase)
{
	/* Release: what belongs to the phase is there. */
	atomic_store_explicit(&self->phase, phase, memory_order_release);
}

/* Tell the preparing thread to look at the phases. */
static void ring_start(const struct rp_worker *worker)
{
	uint64_t one = 1;

	while (write(worker->start_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void fail_start(struct rp_worker *worker, struct rpi_peer *self, int err)
{
	self->start_status = err;
	/* Relaxed: this thread's own. */
	self->start_phase = atomic_load_explicit(&self->phase, memory_order_relaxed);
	rpi_format(self->start_text, sizeof(self->start_text), "%s", rp_last_error());
	enter_phase(self, RPI_PHASE_FAILED);
	ring_start(worker);
}

static size_t keep_park(const struct rpi_park *park, int *keep, size_t count)
{
	int fds[2];
	int n = rpi_park_fds(park, fds);

	while (n-- > 0)
		keep[count++] = fds[n];
	return count;
}

/* Everything that is not ringplane's goes: a server's sockets must not live on in
 * a chip. */
static void clean(struct rp_worker *worker)
{
	int keep[2 * (RP_MAX_PEERS + 1) + 8];
	size_t count = 0;
	uint32_t peer;

	keep[count++] = worker->start_fd;
	keep[count++] = worker->plane.event_fd;
	keep[count++] = worker->server->mapping.fd;
	if (worker->plane.ring_fd >= 0)
		keep[count++] = worker->plane.ring_fd;
	count = keep_park(&worker->parent_park, keep, count);
	for (peer = 0; peer < worker->plane.peer_count; peer++)
		count = keep_park(&worker->parks[peer], keep, count);
	rpi_child_close_descriptors(keep, count);
}

static int set_up_waiting(struct rp_worker *worker, struct rp_chip *chip)
{
	uint32_t peer;
	int err;

	rpi_park_disown(&worker->parent_park);
	for (peer = 0; peer < worker->plane.peer_count; peer++)
		if (peer != chip->peer_idx)
			rpi_park_disown(&worker->parks[peer]);
	err = rpi_park_own(&worker->parks[chip->peer_idx]);
	if (err)
		return rpi_fail(err, "a place to sleep: %s", strerror(-err));
	chip->rouser.peers = worker->plane.peers;
	chip->rouser.parks = worker->parks;
	chip->rouser.peer_count = worker->plane.peer_count;
	return rpi_waker_init(&chip->rouser.waker, rpi_waker_engine(worker), false);
}

/* Page tables for what the hot path touches; a first touch there would cost more
 * than a dispatch. */
static int touch(struct rp_worker *worker)
{
	uint64_t begin_ns = rpi_now_ns();
	int err;

	err = rpi_region_populate(&worker->region, 0, worker->region.bytes);
	if (!err)
		err = rpi_shared_map_populate(&worker->shared, PREFAULT_SHARED_BYTES);
	/* What was asked for. Without a word from the user, windows are backed when
	 * domains come to be: many workers never have one. */
	if (!err && worker->options.window_memory_bytes &&
	    worker->server->peer_idx < worker->plane.chip_count)
		rpi_windows_attach_all(&worker->server->windows,
				       worker->plane.chip_count);
	worker->plane.peers[worker->server->peer_idx].populate_ns =
		rpi_now_ns() - begin_ns;
	return err;
}

/* The first part is scratch for arguments, the rest the parent hands out. */
static void split_memory(struct rp_chip *chip)
{
	size_t scratch = chip->argument_bytes / 4;

	if (scratch > SCRATCH_BYTES_MAX)
		scratch = SCRATCH_BYTES_MAX;
	scratch = (scratch + RP_DEVICE_ALIGN - 1) & ~(size_t)(RP_DEVICE_ALIGN - 1);
	chip->self->heap_base = chip->argument_base + scratch;
	chip->self->heap_bytes = chip->argument_bytes - scratch;
	chip->argument_bytes = scratch;
}

/* Where this process might run before it was pinned: compute threads still may. */
static cpu_set_t unpinned;

/* Entries submit kernels where device addresses are pointers. */
static int open_runtime(struct rp_worker *worker, struct rp_chip *chip)
{
	const struct rp_worker_options *options = &worker->options;
	struct rpi_runtime_config config = {
		.compute_threads = options->compute_threads,
		.arena_cache = options->arena_cache,
		.pages = options->pages,
		.stall_ns = (uint64_t)(options->kernel_timeout_s * 1e9),
		.patient = !worker->crowded && options->worker_wait != RP_WAIT_BLOCK,
		.cpus = worker->chip_cpus ? &unpinned : NULL,
	};

	if (!(worker->backend->capabilities & RPI_CAP_CPU_ADDRESS))
		return 0;
	rpi_sizing_from_env(getenv, &config.env);
	return rpi_server_runtime_open(chip, &config, options->prewarm);
}

static int open_device(struct rp_worker *worker, struct rp_chip *chip)
{
	struct rpi_device_config config = {
		.chip = chip->peer_idx,
		.memory_bytes = worker->options.device_memory_bytes,
		.pages = worker->options.pages,
		.node = rpi_worker_chip_node(worker, chip->peer_idx),
	};
	int err;

	if (chip->peer_idx >= chip->chip_count)
		return 0; /* a callback worker has no device */
	err = worker->backend->open(&config, &chip->device);
	if (err)
		return err;
	worker->backend->argument_memory(chip->device, &chip->argument_base,
					 &chip->argument_bytes);
	split_memory(chip);
	return open_runtime(worker, chip);
}

static void fill_windows(const struct rp_worker *worker, struct rpi_windows *windows)
{
	const struct rpi_pool *pool = &worker->domains.pool;

	windows->slots = pool->slots;
	windows->slices = pool->slices;
	windows->slice_bytes = pool->slice_bytes;
	windows->engine = worker->options.reset_engine;
	windows->zero_chunk = worker->zero_chunk;
}

static void fill_server(struct rp_worker *worker, uint32_t peer_idx)
{
	const struct rp_worker_options *options = &worker->options;
	struct rpi_plane *plane = &worker->plane;
	struct rp_chip *chip = worker->server;

	memset(chip, 0, sizeof(*chip));
	chip->chip_count = plane->chip_count;
	chip->peer_idx = peer_idx;
	chip->peer_count = plane->peer_count;
	chip->in_place = options->unified_memory || peer_idx >= plane->chip_count;
	chip->self = &plane->peers[peer_idx];
	chip->peers = plane->peers;
	chip->frames = worker->frames;
	rpi_lane_rx_init(&chip->rx, &worker->lane_memory[peer_idx]);
	chip->commands.lane = &worker->command_lanes[peer_idx];
	chip->commands.next_seq = 1;
	chip->mapping.fd = worker->mapper.peer_fds[peer_idx];
	/* What was inherited; copies name the chunks too. */
	chip->mapping.reach = worker->shared.reach;
	if (worker->chunks.base)
		rpi_reach_set(&chip->mapping.reach, (uintptr_t)worker->chunks.base,
			      worker->chunks.bytes);
	chip->park = &worker->parks[peer_idx];
	rpi_worker_spin_init(worker, options->worker_wait, &chip->spin);
	rpi_worker_spin_init(worker, options->worker_wait, &chip->dep_spin);
	chip->parent_park = &worker->parent_park;
	chip->event_fd = plane->event_fd;
	chip->ring_fd = plane->ring_fd;
	chip->ring_user_data = plane->ring_user_data;
	fill_windows(worker, &chip->windows);
	chip->tracer = rpi_worker_tracer(worker, peer_idx);
	rpi_trace_forget_thread();
	chip->programs = worker->programs;
	chip->program_count = worker->program_count;
	chip->callbacks = worker->callbacks;
	chip->backend = worker->backend;
}

static int start(struct rp_worker *worker, const struct rpi_child_arg *arg)
{
	struct rp_chip *chip = worker->server;
	char name[16];
	int err = 0;

	rpi_peer_name(worker, arg->peer_idx, name, sizeof(name));
	rpi_child_name(name);
	clean(worker);
	if (worker->chip_cpus && arg->peer_idx < chip->chip_count)
		err = rpi_child_pin(worker->chip_cpus[arg->peer_idx]);
	if (!err)
		err = set_up_waiting(worker, chip);
	if (err)
		return err;
	enter_phase(chip->self, RPI_PHASE_CLEAN);
	CPU_ZERO(&unpinned);
	sched_getaffinity(0, sizeof(unpinned), &unpinned);
	err = rpi_test_point("child.clean");
	if (!err)
		err = touch(worker);
	if (err)
		return err;
	enter_phase(chip->self, RPI_PHASE_MEMORY);
	err = rpi_test_point("child.memory");
	if (!err)
		err = open_device(worker, chip);
	if (err)
		return err;
	enter_phase(chip->self, RPI_PHASE_BACKEND);
	return rpi_test_point("child.backend");
}

int rpi_child_main(void *child_arg)
{
	const struct rpi_child_arg *arg = child_arg;
	struct rp_worker *worker = arg->worker;
	struct rpi_peer *self = &worker->plane.peers[arg->peer_idx];
	int err;

	rpi_child_bind_to_parent(arg->parent);
	rpi_child_reset_signals();
	rpi_leave_quietly();
	fill_server(worker, arg->peer_idx);
	err = start(worker, arg);
	if (err) {
		fail_start(worker, self, err);
		return 1;
	}
	enter_phase(self, RPI_PHASE_READY);
	ring_start(worker);
	close(worker->start_fd);
	rpi_server_run(worker->server);
	rpi_server_runtime_close(worker->server);
	rpi_pmu_destroy(worker->server->pmu);
	if (worker->server->device)
		worker->backend->close(worker->server->device);
	return 0;
}

void rpi_peer_name(const struct rp_worker *worker, uint32_t peer_idx, char *buf,
		   size_t bytes)
{
	if (peer_idx < worker->plane.chip_count)
		rpi_format(buf, bytes, "rp-chip%u", peer_idx);
	else
		rpi_format(buf, bytes, "rp-call%u", peer_idx - worker->plane.chip_count);
}
