/* SPDX-License-Identifier: MIT */
/* Never: a system call, an allocation, a lock, a log. */
#include "dispatch/frame.h"

#include <errno.h>
#include <string.h>

bool rpi_frame_fail(struct rpi_frame *frame, uint64_t run_seq, int status, int peer,
		    const char *text)
{
	uint64_t seen = atomic_load_explicit(&frame->cancelled_run, memory_order_relaxed);

	do {
		if (seen == run_seq)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&frame->cancelled_run, &seen,
							run_seq, memory_order_acq_rel,
							memory_order_relaxed));
	frame->failed_status = status;
	frame->failed_peer = peer;
	rpi_format(frame->failed_text, sizeof(frame->failed_text), "%s", text);
	/* E6: the text is whole before it counts. */
	atomic_store_explicit(&frame->failed_run, run_seq, memory_order_release);
	return true;
}

int rpi_frame_outcome(const struct rpi_frame *frame, uint64_t run_seq,
		      const char **text_out)
{
	*text_out = "";
	if (!rpi_frame_cancelled(frame, run_seq))
		return 0;
	/* E6. Whoever failed the run wrote its text before its own task ended. */
	if (atomic_load_explicit(&frame->failed_run, memory_order_acquire) != run_seq) {
		*text_out = "run: cancelled by a process that did not say why";
		return -EPROTO;
	}
	*text_out = frame->failed_text;
	return frame->failed_status < 0 ? frame->failed_status : -EPROTO;
}

bool rpi_frame_all_done(const struct rpi_frame *frame, const struct rpi_peer *peers)
{
	uint64_t left = atomic_load_explicit(&frame->peers, memory_order_relaxed);

	while (left) {
		uint32_t peer = (uint32_t)__builtin_ctzll(left);

		left &= left - 1;
		/* E2 for the caller: what the tasks wrote is there. */
		if (atomic_load_explicit(&peers[peer].done_seq, memory_order_acquire) <
		    atomic_load_explicit(&frame->target_seq[peer], memory_order_relaxed))
			return false;
	}
	return true;
}

uint64_t rpi_frame_busy(const struct rpi_frame *frame, const struct rpi_peer *peers)
{
	/* Relaxed throughout: no data hangs on it. */
	uint64_t left = atomic_load_explicit(&frame->peers, memory_order_relaxed);
	uint64_t busy = 0;

	while (left) {
		uint64_t bit = left & -left;
		uint32_t peer = (uint32_t)__builtin_ctzll(left);

		left ^= bit;
		if (atomic_load_explicit(&peers[peer].done_seq, memory_order_relaxed) <
		    atomic_load_explicit(&frame->target_seq[peer], memory_order_relaxed))
			busy |= bit;
	}
	return busy;
}

uint64_t rpi_frame_left(const struct rpi_frame *frame, const struct rpi_peer *peers)
{
	/* Relaxed throughout: no data hangs on it. */
	uint64_t left = atomic_load_explicit(&frame->peers, memory_order_relaxed);
	uint64_t most = 0;

	while (left) {
		uint32_t peer = (uint32_t)__builtin_ctzll(left);
		uint64_t target = atomic_load_explicit(&frame->target_seq[peer],
						       memory_order_relaxed);
		uint64_t done =
			atomic_load_explicit(&peers[peer].done_seq, memory_order_relaxed);

		left &= left - 1;
		if (done < target && target - done > most)
			most = target - done;
	}
	return most;
}

uint64_t rpi_frame_take_notice(struct rpi_frame *frame, uint64_t run_seq)
{
	uint64_t seen = atomic_load_explicit(&frame->notice, memory_order_acquire);

	while (seen >> RPI_NOTICE_RUN_SHIFT == run_seq && (seen & RPI_NOTICE_ARMED)) {
		/* Exactly one taker: the one that clears ARMED owes the wake-up. */
		if (atomic_compare_exchange_weak_explicit(
			    &frame->notice, &seen, run_seq << RPI_NOTICE_RUN_SHIFT,
			    memory_order_acq_rel, memory_order_acquire))
			return seen & RPI_NOTICE_TARGETS;
	}
	return 0;
}
