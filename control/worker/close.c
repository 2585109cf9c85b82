/* SPDX-License-Identifier: MIT */
/* The end of a worker: drain, let the processes go, release. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "dispatch/queue.h"
#include "memory/zero.h"
#include "trace/counters.h"
#include "worker/release.h"
#include "worker/worker.h"

/* A look at a submit that has not been accepted yet. */
#define BUILDING_LOOK_NS 200000

/* The errors that nobody has heard, in the order of their runs. */
struct unheard {
	int status; /* the first one's */
	char text[RPI_ERROR_BYTES];
};

/* The oldest run after `after_seq` whose error waits in a handle. */
static struct rpi_handle_slot *next_unheard(struct rpi_handles *handles,
					    uint64_t after_seq)
{
	struct rpi_handle_slot *oldest = NULL;
	uint32_t idx;

	for (idx = 0; idx < handles->count; idx++) {
		struct rpi_handle_slot *slot = &handles->slots[idx];

		if (!rpi_handle_is_done(slot) || !slot->status ||
		    atomic_load_explicit(&slot->waited, memory_order_relaxed) ||
		    slot->run_seq <= after_seq)
			continue;
		if (!oldest || slot->run_seq < oldest->run_seq)
			oldest = slot;
	}
	return oldest;
}

static void collect_unheard(struct rp_worker *worker, struct unheard *unheard)
{
	struct rpi_handles *handles = &worker->plane.handles;
	struct rpi_handle_slot *slot;
	uint64_t after_seq = 0;
	size_t at = 0;

	memset(unheard, 0, sizeof(*unheard));
	while ((slot = next_unheard(handles, after_seq)) && at + 1 < RPI_ERROR_BYTES) {
		if (!unheard->status)
			unheard->status = slot->status;
		at += rpi_format(unheard->text + at, sizeof(unheard->text) - at, "%s%s",
				 at ? "; then: " : "",
				 handles->texts[slot - handles->slots]);
		after_seq = slot->run_seq;
	}
}

/* The oldest run that is not over, or NULL. */
static struct rp_run *oldest_run(struct rpi_plane *plane, uint64_t *word_out)
{
	struct rp_run *oldest = NULL;
	uint32_t idx;

	for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
		uint64_t word = atomic_load_explicit(&plane->runs[idx].word,
						     memory_order_acquire);
		uint64_t seq = word >> RPI_RUN_STATE_BITS;

		if (word == rpi_run_word(seq, RPI_RUN_FREE))
			continue;
		if (!oldest || seq < *word_out >> RPI_RUN_STATE_BITS) {
			oldest = &plane->runs[idx];
			*word_out = word;
		}
	}
	return oldest;
}

/* Accepted runs end in the order of their acceptance. 0, or -ETIMEDOUT. */
static int drain_runs(struct rpi_plane *plane, uint64_t deadline_ns)
{
	struct timespec moment = { .tv_nsec = BUILDING_LOOK_NS };

	for (;;) {
		/* Before the frames: who was admitted before `closing` may not have
		 * begun its run yet. */
		bool admitted = rpi_admission_taken(&plane->admission);
		uint64_t word = 0;
		struct rp_run *run = oldest_run(plane, &word);
		uint64_t seq = word >> RPI_RUN_STATE_BITS;

		if (!run && !admitted)
			return 0;
		if (run && word != rpi_run_word(seq, RPI_RUN_BUILDING)) {
			if (rpi_plane_await(plane, run->frame_idx, seq, deadline_ns))
				return -ETIMEDOUT;
			continue;
		}
		/* A submitter is at work; it may be waiting for a ring. */
		if (rpi_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&moment, NULL);
	}
}

/* Copies that were let in before `closing` end; nobody begins one any more. 0, or
 * -ETIMEDOUT. */
static int drain_copies(struct rp_worker *worker, uint64_t deadline_ns)
{
	struct timespec moment = { .tv_nsec = BUILDING_LOOK_NS };
	uint32_t peer;

	for (peer = 0; peer < worker->plane.peer_count; peer++) {
		while (rpi_admission_taken(&worker->copiers[peer].turn)) {
			if (rpi_now_ns() >= deadline_ns)
				return -ETIMEDOUT;
			nanosleep(&moment, NULL);
		}
	}
	return 0;
}

static int do_close(struct rp_worker *worker, int64_t timeout_ns)
{
	struct rpi_plane *plane = &worker->plane;
	const uint64_t deadline_ns = timeout_ns == RP_WAIT_FOREVER
					     ? UINT64_MAX
					     : rpi_now_ns() + (uint64_t)timeout_ns;
	struct unheard unheard;
	int released;
	int late;

	atomic_store_explicit(&plane->closing, 1, memory_order_seq_cst);
	late = rpi_dispatcher_drain(worker, deadline_ns);
	if (!late)
		late = drain_runs(plane, deadline_ns);
	if (!late)
		late = drain_copies(worker, deadline_ns);
	if (late) {
		rpi_supervisor_order(worker, RPI_ORDER_KILL);
		rpi_dispatcher_drain(worker, UINT64_MAX);
		drain_runs(plane, UINT64_MAX);
		drain_copies(worker, UINT64_MAX);
	}
	rpi_dispatcher_stop(worker);
	/* Whoever was admitted before `closing` has left; nobody enters any more. */
	rpi_admission_enter(&plane->admission);
	rpi_admission_leave(&plane->admission);
	rpi_supervisor_order(worker, RPI_ORDER_STOP);
	rpi_supervisor_join(worker);
	rpi_mapper_retire(worker);
	if (late)
		return rpi_fail(-ETIMEDOUT,
				"rp_worker_close: dispatches or copies were still "
				"running after timeout_ns %lld, the worker processes "
				"were killed",
				(long long)timeout_ns);
	released = rpi_domains_close(&worker->domains);
	collect_unheard(worker, &unheard);
	if (unheard.status)
		rpi_error_set(unheard.text);
	return unheard.status ? unheard.status : released;
}

int rp_worker_close(struct rp_worker *worker, int64_t timeout_ns)
{
	int status;

	if (!worker)
		return rpi_fail(-EINVAL, "rp_worker_close: worker NULL, expected one");
	if (timeout_ns < RP_WAIT_FOREVER)
		return rpi_fail(
			-EINVAL,
			"rp_worker_close: timeout_ns %lld, expected 0 or more, or "
			"RP_WAIT_FOREVER",
			(long long)timeout_ns);
	if (rpi_plane_orchestrates(&worker->plane))
		return rpi_fail(-EDEADLK,
				"rp_worker_close: called from an orchestration of the "
				"worker, which it would wait for");
	pthread_mutex_lock(&worker->lock);
	if (worker->life != RPI_LIFE_OPEN) {
		while (worker->life != RPI_LIFE_CLOSED)
			pthread_cond_wait(&worker->closed, &worker->lock);
		pthread_mutex_unlock(&worker->lock);
		return 0;
	}
	worker->life = RPI_LIFE_CLOSING;
	pthread_mutex_unlock(&worker->lock);
	status = do_close(worker, timeout_ns);
	pthread_mutex_lock(&worker->lock);
	worker->life = RPI_LIFE_CLOSED;
	pthread_cond_broadcast(&worker->closed);
	pthread_mutex_unlock(&worker->lock);
	return status;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void release_plane(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	uint32_t idx;

	for (idx = 0; plane->runs && idx < RPI_FRAME_COUNT; idx++) {
		free(plane->runs[idx].grants);
		free(plane->runs[idx].args);
		free(plane->runs[idx].views);
		free(plane->runs[idx].device);
		rpi_hazards_fini(&plane->runs[idx].hazards);
	}
	free(plane->runs);
	rpi_queue_destroy(plane->queue);
	rpi_counters_release(worker);
	rpi_handles_fini(&plane->handles);
	rpi_admission_fini(&plane->admission);
	free(plane->finished);
	rpi_waker_destroy(&plane->rouser.waker);
	rpi_worker_unlay(worker);
	rpi_pool_fini(&worker->domains.pool);
	if (worker->zero_chunk)
		munmap(worker->zero_chunk, RPI_ZERO_CHUNK_BYTES);
	close_fd(plane->event_fd);
	close_fd(worker->start_fd);
	close_fd(worker->supervisor.order_fd);
}

void rpi_worker_release(struct rp_worker *worker)
{
	uint32_t i;

	if (worker->supervisor.started) {
		/* Prepare failed after the processes were ready. */
		rpi_supervisor_order(worker, RPI_ORDER_STOP);
		rpi_supervisor_join(worker);
	}
	rpi_table_leave(worker);
	rpi_mapper_destroy(worker);
	release_plane(worker);
	if (worker->has_store)
		rpi_store_fini(&worker->store);
	rpi_inherited_fini(&worker->inherited);
	rpi_callbacks_release(worker);
	for (i = 0; i < worker->program_count; i++)
		rp_program_free(worker->programs[i]);
	free(worker->programs);
	free(worker->processes);
	free(worker->server);
	free(worker->chip_cpus);
	free(worker->capture_dir);
	free(worker->capture_places.at);
	pthread_mutex_destroy(&worker->lock);
	pthread_cond_destroy(&worker->closed);
	pthread_mutex_destroy(&worker->supervisor.lock);
	pthread_cond_destroy(&worker->supervisor.changed);
	free(worker);
}

void rp_worker_free(struct rp_worker *worker)
{
	if (!worker)
		return;
	rp_worker_close(worker, 0);
	rpi_worker_release(worker);
}
