/* SPDX-License-Identifier: MIT */
/* A worker in somebody's event loop: its descriptor, and what has ended. */
#include <errno.h>
#include <sched.h>

#include "base/error.h"
#include "completion/event.h"
#include "ring/burst.h"
#include "worker/release.h"
#include "worker/worker.h"

void rpi_worker_look_always(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	uint32_t peer;

	for (peer = 0; peer < plane->peer_count; peer++)
		atomic_fetch_or_explicit(&plane->peers[peer].attention,
					 RPI_ATTENTION_ALWAYS, memory_order_acq_rel);
}

void rpi_worker_arm_always(struct rp_worker *worker, uint64_t targets)
{
	struct rpi_plane *plane = &worker->plane;

	rpi_worker_look_always(worker);
	/* E5. From here on every process looks at the notices of runs to come. */
	rpi_fence();
	atomic_fetch_or_explicit(&plane->notice_targets, targets, memory_order_acq_rel);
}

int rp_worker_fd(struct rp_worker *worker)
{
	struct rpi_plane *plane;

	if (!worker)
		return rpi_fail(-EINVAL, "rp_worker_fd: worker NULL, expected one");
	plane = &worker->plane;
	if (atomic_load_explicit(&plane->closing, memory_order_acquire))
		return rpi_fail(-ESHUTDOWN, "rp_worker_fd: the worker is closed or being "
					    "closed");
	if (!(atomic_load_explicit(&plane->notice_targets, memory_order_acquire) &
	      RPI_NOTICE_FD)) {
		rpi_worker_arm_always(worker, RPI_NOTICE_FD);
		/* A death before this call is told as well. */
		if (atomic_load_explicit(&plane->fall, memory_order_acquire) ==
		    RPI_FALL_OVER)
			rpi_event_raise(plane->event_fd);
	}
	return plane->event_fd;
}

/* Collect what has ended; a run that another thread is collecting is there in a
 * moment, and must be: its announcement is about to be cleared. */
static void collect_ended(struct rpi_plane *plane)
{
	uint32_t idx;

	for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
		struct rp_run *run = &plane->runs[idx];
		uint64_t word = atomic_load_explicit(&run->word, memory_order_acquire);
		uint64_t seq = word >> RPI_RUN_STATE_BITS;

		if (word == rpi_run_word(seq, RPI_RUN_RUNNING))
			rpi_run_poll(run, seq);
		while (atomic_load_explicit(&run->word, memory_order_acquire) ==
		       rpi_run_word(seq, RPI_RUN_FINISHING))
			sched_yield();
	}
}

size_t rp_worker_reap(struct rp_worker *worker, struct rp_handle *handles_out, size_t max)
{
	size_t count = 0;
	uint64_t run;

	if (!worker || (max && !handles_out))
		return 0;
	/* Quiet first, then look: what ends after the look raises it again. */
	rpi_event_clear(worker->plane.event_fd);
	collect_ended(&worker->plane);
	while (count < max && rpi_burst_pop(worker->plane.finished, &run, 1)) {
		handles_out[count].worker = worker->id;
		handles_out[count].run = run;
		count++;
	}
	/* Some stay: the descriptor stays readable. */
	if (count == max && rpi_burst_count(worker->plane.finished))
		rpi_event_raise(worker->plane.event_fd);
	return count;
}
