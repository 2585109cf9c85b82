/* SPDX-License-Identifier: MIT */
/* From programs and options to a worker whose processes are ready. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/testing.h"
#include "capture/session.h"
#include "dispatch/queue.h"
#include "program/program.h"
#include "region/pages.h"
#include "ring/burst.h"
#include "trace/capture.h"
#include "trace/counters.h"
#include "worker/release.h"
#include "worker/worker.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int check_backend(struct rp_worker *worker)
{
	const char *platform = worker->programs[0]->platform;
	const char *name = worker->options.backend ? worker->options.backend : platform;

	worker->backend = rpi_backend_find(name);
	if (!worker->backend)
		return rpi_fail(
			-EOPNOTSUPP,
			"rp_worker_prepare: no backend '%s', this build has 'sim'", name);
	if (strcmp(worker->backend->name, platform))
		return rpi_fail(
			-EINVAL,
			"rp_worker_prepare: program '%s' is built for platform '%s', "
			"the worker's backend is '%s'",
			worker->programs[0]->name, platform, worker->backend->name);
	if (strcmp(worker->programs[0]->runtime, RPI_RUNTIME_NAME))
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: program '%s' wants runtime '%s', "
				"backend '%s' has '%s'",
				worker->programs[0]->name, worker->programs[0]->runtime,
				worker->backend->name, RPI_RUNTIME_NAME);
	if (worker->options.unified_memory &&
	    !(worker->backend->capabilities & RPI_CAP_UNIFIED))
		return rpi_fail(-EOPNOTSUPP,
				"rp_worker_prepare: backend '%s' has no unified memory",
				worker->backend->name);
	return 0;
}

static int hold_programs(struct rp_worker *worker, struct rp_program *const *programs,
			 size_t count)
{
	size_t i;

	worker->programs =
		calloc(count + worker->program_room, sizeof(*worker->programs));
	if (!worker->programs)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	for (i = 0; i < count; i++) {
		worker->programs[i] = programs[i];
		rpi_program_hold(programs[i]);
	}
	worker->program_count = (uint32_t)count;
	return 0;
}

static int make_eventfd(int *fd_out)
{
	int fd = rpi_test_point("prepare.eventfd");

	if (!fd)
		fd = rpi_descriptor_above_standard(
			eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (fd < 0)
		return rpi_fail(fd, "rp_worker_prepare: an eventfd: %s", strerror(-fd));
	*fd_out = fd;
	return 0;
}

static int copy_cpus(struct rp_worker *worker)
{
	const struct rp_worker_options *options = &worker->options;
	uint32_t chip;

	if (!options->chip_cpus)
		return 0;
	for (chip = 0; chip < options->chip_count; chip++)
		if (options->chip_cpus[chip] < -1 || options->chip_cpus[chip] >= 1024)
			return rpi_fail(
				-EINVAL,
				"rp_worker_prepare: chip_cpus[%u] is %d, expected a "
				"CPU number or -1",
				chip, options->chip_cpus[chip]);
	worker->chip_cpus = calloc(RP_MAX_PEERS, sizeof(*worker->chip_cpus));
	if (!worker->chip_cpus)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	memcpy(worker->chip_cpus, options->chip_cpus,
	       options->chip_count * sizeof(*worker->chip_cpus));
	return 0;
}

static int visible(void *context, const void *addr, size_t bytes)
{
	return rpi_mapper_show(context, addr, bytes);
}

static int writable(void *context, const char *call, const void *addr, size_t bytes)
{
	const struct rp_worker *worker = context;

	return rpi_inherited_check_write(&worker->inherited, call, addr, bytes);
}

static int locate(void *context, const char *call, const struct rp_tensor *tensor,
		  uint64_t bytes, struct rpi_resident *out)
{
	struct rp_worker *worker = context;

	return rpi_store_locate(&worker->store, call, tensor, bytes, out);
}

static bool is_device(void *context, uint64_t address)
{
	struct rp_worker *worker = context;

	return rpi_store_is_device_address(&worker->store, address);
}

static void retire(void *context, struct rp_run *run)
{
	struct rp_worker *worker = context;

	rpi_domains_retire(&worker->domains, run);
}

static int create_runs(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	uint32_t tensors = 1;
	uint32_t params = 1;
	uint32_t i;

	for (i = 0; i < worker->program_count; i++) {
		const struct rp_program *program = worker->programs[i];

		if (program->tensor_count > tensors)
			tensors = program->tensor_count;
		if (program->param_count > params)
			params = program->param_count;
	}
	/* What comes later may have as many as there can be. */
	if (worker->program_room) {
		tensors = RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS;
		params = RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS;
	}
	plane->runs =
		aligned_alloc(RPI_SHARE_ALIGN, RPI_FRAME_COUNT * sizeof(*plane->runs));
	if (!plane->runs)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	memset(plane->runs, 0, RPI_FRAME_COUNT * sizeof(*plane->runs));
	for (i = 0; i < RPI_FRAME_COUNT; i++) {
		struct rp_run *run = &plane->runs[i];

		run->frame_idx = i;
		run->frame = &worker->frames[i];
		run->plane = plane;
		run->grants = calloc(tensors, sizeof(*run->grants));
		run->args = calloc(params, sizeof(*run->args));
		run->views = calloc(RP_MAX_TASK_TENSORS, sizeof(*run->views));
		run->device = calloc(RP_MAX_TASK_TENSORS, sizeof(*run->device));
		rpi_hazards_init(&run->hazards, plane->in_place ? 0 : plane->chip_count);
		if (!run->grants || !run->args || !run->views || !run->device)
			return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	}
	plane->next_run_seq = 1;
	return rpi_dispatcher_create(worker, params, tensors);
}

static int create_finished(struct rp_worker *worker)
{
	uint32_t capacity = 2 * worker->options.handle_count;
	size_t bytes = rpi_burst_bytes(sizeof(uint64_t), capacity);

	worker->plane.finished =
		aligned_alloc(RPI_SHARE_ALIGN, (bytes + RPI_SHARE_ALIGN - 1) &
						       ~(size_t)(RPI_SHARE_ALIGN - 1));
	if (!worker->plane.finished)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory for %u handles",
				worker->options.handle_count);
	return rpi_burst_init(worker->plane.finished, bytes, sizeof(uint64_t), capacity,
			      0);
}

static void set_up_waiting(struct rp_worker *worker)
{
	const struct rp_worker_options *options = &worker->options;
	struct rpi_plane *plane = &worker->plane;
	const unsigned cpus = rpi_cpu_allowed_with(
		worker->chip_cpus, worker->chip_cpus ? options->chip_count : 0);
	const uint32_t spinners = options->chip_count + 1 + options->dispatcher;

	rpi_clock_setup();
	/* The caller, its dispatcher and every chip want to spin; callback workers are
	 * rarely hot. */
	worker->crowded = spinners > cpus;
	worker->packed = spinners > 2 * cpus;
	plane->gate.patient = options->wait != RP_WAIT_BLOCK && !worker->crowded;
	plane->gate.armed = options->wait == RP_WAIT_BLOCK;
	rpi_worker_spin_init(worker, options->wait, &plane->gate.spin);
	atomic_store_explicit(&plane->gate.budget_ns, rpi_spin_budget(&plane->gate.spin),
			      memory_order_relaxed);
}

static void fill_plane(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;

	plane->chip_count = worker->options.chip_count;
	plane->peer_count = plane->chip_count + worker->callback_workers;
	plane->program_count = worker->program_count;
	plane->programs = worker->programs;
	plane->callbacks = worker->callbacks;
	plane->in_place = worker->options.unified_memory;
	plane->visible = visible;
	plane->writable = writable;
	plane->locate = locate;
	plane->is_device = is_device;
	plane->retire = retire;
	plane->domains = worker->domains.records;
	plane->persistent = worker->options.persistent;
	plane->memory_context = worker;
	plane->park = &worker->parent_park;
	plane->captured = rpi_session_run;
	plane->ring_fd = worker->options.ring_fd;
	plane->ring_user_data = worker->options.ring_user_data;
}

static int create_plane(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	int err;

	fill_plane(worker);
	if (plane->peer_count > RP_MAX_PEERS)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: %u chips and %u callback workers, "
				"expected at most %d together",
				plane->chip_count, worker->callback_workers,
				RP_MAX_PEERS);
	set_up_waiting(worker);
	err = make_eventfd(&plane->event_fd);
	if (!err)
		err = make_eventfd(&worker->start_fd);
	if (!err)
		err = make_eventfd(&worker->supervisor.order_fd);
	if (!err)
		err = rpi_worker_lay_out(worker);
	if (err)
		return err;
	if (plane->gate.armed)
		rpi_worker_look_always(worker);
	plane->rouser.peers = plane->peers;
	plane->rouser.parks = worker->parks;
	plane->rouser.peer_count = plane->peer_count;
	err = create_runs(worker);
	if (!err)
		err = rpi_handles_init(&plane->handles, worker->options.handle_count);
	if (!err)
		err = create_finished(worker);
	if (!err)
		err = rpi_admission_init(&plane->admission);
	if (!err)
		err = rpi_counters_publish(worker);
	if (!err)
		err = rpi_mapper_create(worker);
	return err;
}

/* The fork has left this process's private pages to be copied when they are written
 * next. Take those of the hot path now; a kernel before 5.14 takes them one by one in
 * the first dispatches. */
static void take_pages(void *mem, size_t bytes)
{
	uintptr_t low = (uintptr_t)mem & ~(uintptr_t)(RPI_SMALL_PAGE - 1);
	uintptr_t high = ((uintptr_t)mem + bytes + RPI_SMALL_PAGE - 1) &
			 ~(uintptr_t)(RPI_SMALL_PAGE - 1);

	madvise((void *)low, high - low, MADV_POPULATE_WRITE);
}

static void take_private_pages(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	const uint32_t count = worker->options.handle_count;
	uint32_t peer;

	take_pages(worker, sizeof(*worker));
	take_pages(plane->handles.slots, count * sizeof(*plane->handles.slots));
	take_pages(plane->handles.free, rpi_burst_bytes(sizeof(uint32_t), count));
	take_pages(plane->runs, RPI_FRAME_COUNT * sizeof(*plane->runs));
	take_pages(plane->lanes, plane->peer_count * sizeof(*plane->lanes));
	for (peer = 0; peer < plane->peer_count; peer++)
		take_pages(plane->lanes[peer].arg_end,
			   plane->lanes[peer].at.capacity * sizeof(uint64_t));
	if (plane->queue) {
		take_pages(plane->queue, sizeof(*plane->queue));
		take_pages(plane->queue->requests,
			   plane->queue->count * plane->queue->request_bytes);
	}
}

/* The parent's own side of what the children set up for themselves. */
static int own_parent_side(struct rp_worker *worker)
{
	uint32_t peer;
	int err;

	err = rpi_park_own(&worker->parent_park);
	if (err)
		return rpi_fail(err, "rp_worker_prepare: a place to sleep: %s",
				strerror(-err));
	for (peer = 0; peer < worker->plane.peer_count; peer++)
		rpi_park_disown(&worker->parks[peer]);
	if (worker->plane.ring_fd >= 0)
		rpi_worker_arm_always(worker, RPI_NOTICE_RING);
	return rpi_waker_init(&worker->plane.rouser.waker, rpi_waker_engine(worker),
			      false);
}

/* The chips have said where their memory is. Their words: bound them. */
static int open_heaps(struct rp_worker *worker)
{
	uint32_t chip;
	int err;

	err = rpi_store_init(&worker->store, worker->id, worker->plane.chip_count);
	worker->has_store = !err;
	for (chip = 0; !err && chip < worker->plane.chip_count; chip++) {
		const struct rpi_peer *peer = &worker->plane.peers[chip];
		uint64_t bytes = peer->heap_bytes;

		if (bytes > worker->options.device_memory_bytes + ((size_t)2 << 20))
			return rpi_fail(
				-EPROTO,
				"rp_worker_prepare: chip %u says it has %llu bytes of "
				"memory, it was given %zu",
				chip, (unsigned long long)bytes,
				worker->options.device_memory_bytes);
		err = rpi_store_open_heap(&worker->store, chip, peer->heap_base, bytes);
	}
	return err;
}

static int start(struct rp_worker *worker)
{
	uint32_t peer;
	int err;

	worker->processes = calloc(worker->plane.peer_count, sizeof(*worker->processes));
	worker->server = aligned_alloc(_Alignof(struct rp_chip), sizeof(*worker->server));
	if (!worker->processes || !worker->server)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	for (peer = 0; peer < worker->plane.peer_count; peer++)
		worker->processes[peer].pidfd = -1;
	err = rpi_table_enter(worker);
	if (!err)
		err = rpi_supervisor_start(worker);
	if (!err)
		err = own_parent_side(worker);
	if (err)
		return err;
	rpi_mapper_serve(worker);
	take_private_pages(worker);
	err = open_heaps(worker);
	return err ? err : rpi_dispatcher_start(worker);
}

/* What the options capture: with a name of its own. */
static int set_up_capture(struct rp_worker *worker)
{
	static const char call[] = "rp_worker_prepare";
	struct rp_capture *capture = &worker->options.capture;
	int err;

	err = rpi_capture_check(call, capture);
	if (err || !rpi_capture_is_on(capture))
		return err;
	err = rpi_session_check(call, capture);
	if (err)
		return err;
	worker->capture_dir = strdup(capture->output_dir);
	if (!worker->capture_dir)
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	capture->output_dir = worker->capture_dir;
	err = rpi_place_try(call, capture->output_dir);
	if (err)
		return err;
	worker->plane.capture = capture;
	return 0;
}

static struct rp_worker *allocate(void)
{
	struct rp_worker *worker;
	size_t bytes = (sizeof(*worker) + RPI_SHARE_ALIGN - 1) &
		       ~(size_t)(RPI_SHARE_ALIGN - 1);

	worker = aligned_alloc(RPI_SHARE_ALIGN, bytes);
	if (!worker)
		return NULL;
	memset(worker, 0, bytes);
	worker->plane.event_fd = -1;
	worker->start_fd = -1;
	worker->supervisor.order_fd = -1;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->closed, NULL);
	pthread_mutex_init(&worker->supervisor.lock, NULL);
	pthread_cond_init(&worker->supervisor.changed, NULL);
	return worker;
}

int rpi_worker_prepare(struct rp_program *const *programs, size_t program_count,
		       const struct rp_worker_options *options, uint32_t program_room,
		       struct rp_worker **worker_out)
{
	struct rp_worker_options resolved;
	char text[RPI_ERROR_BYTES];
	struct rp_worker *worker;
	int err;

	if (!worker_out)
		return rpi_fail(-EINVAL, "rp_worker_prepare: worker_out NULL");
	/* What was tried in vain on the way to a success is not the caller's error. */
	rpi_format(text, sizeof(text), "%s", rp_last_error());
	err = rpi_options_resolve(options, &resolved);
	if (!err)
		err = rpi_programs_check(programs, program_count, &resolved);
	if (err)
		return err;
	worker = allocate();
	if (!worker)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	worker->options = resolved;
	worker->program_room = program_room;
	err = hold_programs(worker, programs, program_count);
	/* What a dispatch without a configuration has. */
	if (!err && !worker->options.prewarm)
		worker->options.prewarm = programs[0]->config;
	if (!err)
		err = check_backend(worker);
	if (!err)
		err = rpi_callbacks_bind(worker);
	if (!err)
		err = copy_cpus(worker);
	if (!err)
		err = rpi_inherited_init(&worker->inherited, worker->options.inherited,
					 worker->options.inherited_count);
	if (!err)
		err = set_up_capture(worker);
	if (!err)
		err = create_plane(worker);
	/* From now on each dispatch is looked at. */
	if (!err && worker->plane.capture)
		rpi_trace_want(worker->plane.tracer.trace, RPI_TRACE_CAPTURE, 0);
	if (!err)
		err = start(worker);
	if (err) {
		rpi_format(text, sizeof(text), "%s", rp_last_error());
		rpi_worker_release(worker);
		rpi_error_set(text);
		return err;
	}
	rpi_error_set(text);
	*worker_out = worker;
	return 0;
}

int rp_worker_prepare(struct rp_program *const *programs, size_t program_count,
		      const struct rp_worker_options *options,
		      struct rp_worker **worker_out)
{
	return rpi_worker_prepare(programs, program_count, options, 0, worker_out);
}
