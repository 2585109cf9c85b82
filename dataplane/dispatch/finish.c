/* SPDX-License-Identifier: MIT */
/*
 * The end of a run: seen by whoever looks first, collected by exactly one.
 *
 * Never: an allocation, a lock, a log; a system call only for those who sleep.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>

#include "base/error.h"
#include "base/probe.h"
#include "completion/event.h"
#include "dispatch/frame.h"
#include "dispatch/plane.h"
#include "ring/burst.h"

void rpi_run_cancel(struct rp_run *run, int status, const char *text)
{
	if (rpi_frame_fail(run->frame, run->seq, status, -1, text))
		rpi_rouse_all(&run->plane->rouser);
}

void rpi_plane_announce(struct rpi_plane *plane, uint64_t targets)
{
	if (targets & RPI_NOTICE_WAITER)
		rpi_park_wake(plane->park, &plane->rouser.waker);
	if (targets & RPI_NOTICE_FD)
		rpi_event_raise(plane->event_fd);
	if (targets & RPI_NOTICE_RING)
		rpi_waker_send(&plane->rouser.waker, plane->ring_fd,
			       plane->ring_user_data);
}

/* Remember a finished handle for rp_worker_reap(). The queue has room for every
 * live handle; what fills it beyond that are handles released meanwhile. */
static void remember(struct rpi_plane *plane, uint64_t run)
{
	uint32_t idx;
	uint64_t old;

	while (!rpi_burst_push(plane->finished, &run, 1)) {
		if (rpi_burst_pop(plane->finished, &old, 1) &&
		    rpi_handles_find(&plane->handles, old, &idx))
			rpi_burst_push(plane->finished, &old, 1);
	}
}

/* The peers' words are theirs: a count of tasks that were never published is a
 * process that has lost its mind, not a success. */
static int check_peers(const struct rp_run *run)
{
	uint64_t left = atomic_load_explicit(&run->peers, memory_order_relaxed);
	const struct rpi_plane *plane = run->plane;

	while (left) {
		uint32_t peer = (uint32_t)__builtin_ctzll(left);
		/* E2: it may be a later task's, of another thread's submit. */
		uint64_t done = atomic_load_explicit(&plane->peers[peer].done_seq,
						     memory_order_acquire);
		uint64_t published = atomic_load_explicit(
			&plane->lanes[peer].published_seq, memory_order_relaxed);

		left &= left - 1;
		if (done > published)
			return rpi_fail(
				-EPROTO,
				"run: worker process %u says it ended task %" PRIu64
				", %" PRIu64 " were sent",
				peer, done, published);
	}
	return 0;
}

static struct rp_run *other_run(const struct rp_run *run)
{
	return &run->plane->runs[!run->frame_idx];
}

/* One that is under way behind a run that failed works on what that one's tasks have
 * left: it need not go on. Where it has tasks nobody reads its outcome now: that waits
 * for this run's. */
static void cancel_behind(const struct rp_run *run, int status, const char *text)
{
	struct rp_run *behind = other_run(run);
	uint64_t word = atomic_load_explicit(&behind->word, memory_order_acquire);
	uint64_t seq = word >> RPI_RUN_STATE_BITS;

	if (seq > run->seq && word == rpi_run_word(seq, RPI_RUN_RUNNING) &&
	    atomic_load_explicit(&behind->frame->peers, memory_order_relaxed) &&
	    rpi_frame_fail(behind->frame, seq, status, -1, text))
		rpi_rouse_all(&run->plane->rouser);
}

/* Before the handle says so: who has heard of the failure finds it at its next submit.
 * Of two runs that fail at once one is the first. */
static void end_persistence(const struct rp_run *run, int status, const char *text)
{
	struct rpi_plane *plane = run->plane;
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong_explicit(&plane->terminal_taken, &none, 1,
						     memory_order_relaxed,
						     memory_order_relaxed))
		return;
	rpi_format(plane->terminal_text, sizeof(plane->terminal_text), "%s", text);
	plane->terminal_seq = run->seq;
	atomic_store_explicit(&plane->terminal, status, memory_order_release);
	cancel_behind(run, status, text);
}

/* What an entry returns may be any negative number. */
static __attribute__((cold)) void count_failure(struct rpi_plane *plane, int status)
{
	enum rpi_failed_kind kind = RPI_FAILED_OTHER;

	switch (status) {
	case -EOWNERDEAD:
	case -EPROTO:
		kind = RPI_FAILED_PROCESS;
		break;
	case -ENOMEM:
	case -ENOSPC:
		kind = RPI_FAILED_MEMORY;
		break;
	case -EDEADLK:
		kind = RPI_FAILED_DEADLOCK;
		break;
	case -ETIMEDOUT:
	case -ECANCELED:
		kind = RPI_FAILED_TIMEOUT;
		break;
	case -EINVAL:
	case -EFAULT:
	case -EACCES:
	case -ERANGE:
		kind = RPI_FAILED_ARGUMENT;
		break;
	}
	atomic_fetch_add_explicit(&plane->failed[kind], 1, memory_order_relaxed);
}

/* The one collector: outcome to the handle, frame back, waiters told. */
static void collect(struct rp_run *run, int status, const char *text)
{
	struct rpi_plane *plane = run->plane;
	uint64_t seq = run->seq;
	uint64_t announce =
		atomic_load_explicit(&plane->notice_targets, memory_order_relaxed);
	uint64_t targets;

	if (rpi_unlikely(run->began))
		rpi_run_timed(run);
	rpi_probe(finish, seq, status);
	if (rpi_unlikely(status)) {
		count_failure(plane, status);
		if (plane->persistent && run->task_count)
			end_persistence(run, status, text);
	}
	if (rpi_unlikely(announce) && plane->handles.slots[run->handle_idx].handed_out) {
		uint64_t handle = rpi_handles_word(&plane->handles, run->handle_idx);

		rpi_handles_finish(&plane->handles, run->handle_idx, status, text);
		remember(plane, handle);
	} else {
		rpi_handles_finish(&plane->handles, run->handle_idx, status, text);
	}
	/* A notice that is still armed is ours to deliver: the frame's next run may
	 * be armed before the last process comes to look at it. */
	targets = rpi_frame_take_notice(run->frame, seq);
	/* Release: the next run of this frame starts from what was read here. An
	 * exchange, because W1 wants a full barrier behind it. */
	atomic_exchange_explicit(&run->word, rpi_run_word(seq, RPI_RUN_FREE),
				 memory_order_seq_cst);
	rpi_gate_published(plane);
	if (rpi_unlikely(targets))
		rpi_plane_announce(plane, targets);
}

void rpi_plane_refuse(struct rpi_plane *plane, uint32_t handle_idx, int status,
		      const char *text)
{
	count_failure(plane, status);
	rpi_plane_conclude(plane, handle_idx, status, text);
}

void rpi_plane_conclude(struct rpi_plane *plane, uint32_t handle_idx, int status,
			const char *text)
{
	const bool handed_out = plane->handles.slots[handle_idx].handed_out;
	uint64_t handle = rpi_handles_word(&plane->handles, handle_idx);
	uint64_t announce =
		atomic_load_explicit(&plane->notice_targets, memory_order_relaxed);

	rpi_handles_refuse(&plane->handles, handle_idx, status, text);
	if (rpi_likely(!announce))
		return;
	if (handed_out)
		remember(plane, handle);
	rpi_plane_announce(plane, announce);
}

static bool seize(struct rp_run *run, uint64_t seq)
{
	uint64_t expected = rpi_run_word(seq, RPI_RUN_RUNNING);

	return atomic_compare_exchange_strong_explicit(
		&run->word, &expected, rpi_run_word(seq, RPI_RUN_FINISHING),
		memory_order_seq_cst, memory_order_relaxed);
}

/* A persistent worker's runs end in their order: how the one before ended is known
 * before this one's outcome is. Its tasks have ended, unless this run was cancelled. */
static void settle_before(const struct rp_run *run, uint64_t seq)
{
	struct rp_run *before = other_run(run);
	uint64_t word = atomic_load_explicit(&before->word, memory_order_acquire);
	uint64_t before_seq = word >> RPI_RUN_STATE_BITS;

	if (before_seq > seq || word == rpi_run_word(before_seq, RPI_RUN_FREE))
		return;
	rpi_run_poll(before, before_seq);
	while (atomic_load_explicit(&before->word, memory_order_acquire) ==
	       rpi_run_word(before_seq, RPI_RUN_FINISHING))
		sched_yield();
}

/* A run with tasks that a failure went before fails with it. */
static int inherited(const struct rp_run *run, const char **text_out)
{
	const struct rpi_plane *plane = run->plane;
	int status = atomic_load_explicit(&plane->terminal, memory_order_acquire);

	if (rpi_likely(!status) || !run->task_count || plane->terminal_seq > run->seq)
		return 0;
	*text_out = plane->terminal_text;
	return status;
}

bool rpi_run_poll(struct rp_run *run, uint64_t seq)
{
	uint64_t word = atomic_load_explicit(&run->word, memory_order_acquire);
	const char *text;
	int status;

	if (word != rpi_run_word(seq, RPI_RUN_RUNNING))
		return word >> RPI_RUN_STATE_BITS != seq ||
		       word == rpi_run_word(seq, RPI_RUN_FREE);
	/* May look at the frame's next run if this one ends meanwhile: then the
	 * seizure fails. */
	if (!rpi_frame_all_done(run->frame, run->plane->peers))
		return false;
	if (run->plane->persistent)
		settle_before(run, seq);
	if (!seize(run, seq))
		return false; /* somebody is at it: over in a moment */
	status = check_peers(run);
	text = rp_last_error();
	if (rpi_likely(!status))
		status = rpi_frame_outcome(run->frame, seq, &text);
	if (rpi_unlikely(run->given_up)) {
		status = run->given_up;
		text = run->fail_text;
	}
	if (!status && run->plane->persistent)
		status = inherited(run, &text);
	collect(run, status, text);
	return true;
}

void rpi_run_finish_fallen(struct rp_run *run)
{
	uint64_t word = atomic_load_explicit(&run->word, memory_order_acquire);
	uint64_t seq = word >> RPI_RUN_STATE_BITS;

	if (word != rpi_run_word(seq, RPI_RUN_RUNNING) || rpi_run_poll(run, seq))
		return; /* it had ended before the fall */
	if (seize(run, seq))
		collect(run, -EOWNERDEAD, run->plane->fall_text);
}
