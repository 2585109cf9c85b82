/* SPDX-License-Identifier: MIT */
/* What any process may do to a shared frame: fail its run, judge its notice. */
#ifndef RPI_DISPATCH_FRAME_H
#define RPI_DISPATCH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "dispatch/wire.h"

/* True once somebody has failed this run. */
static inline bool rpi_frame_cancelled(const struct rpi_frame *frame, uint64_t run_seq)
{
	/* Relaxed: advice to stop early; the outcome is read under E2 and E6. */
	return atomic_load_explicit(&frame->cancelled_run, memory_order_relaxed) ==
	       run_seq;
}

/* Fail a run. The first to do so leaves its status and text; true for it. Then
 * whoever may sleep in this run must be roused. */
bool rpi_frame_fail(struct rpi_frame *frame, uint64_t run_seq, int status, int peer,
		    const char *text);

/* The run's status once all its tasks have ended: 0, or what it failed with and
 * *text_out (valid until the frame's next run). */
int rpi_frame_outcome(const struct rpi_frame *frame, uint64_t run_seq,
		      const char **text_out);

/* Whether every task of the frame's present run has ended. */
bool rpi_frame_all_done(const struct rpi_frame *frame, const struct rpi_peer *peers);

/* Bit set: that peer still has tasks before it; a hint. */
uint64_t rpi_frame_busy(const struct rpi_frame *frame, const struct rpi_peer *peers);

/* The most tasks that a process still has before it in the frame; a hint. */
uint64_t rpi_frame_left(const struct rpi_frame *frame, const struct rpi_peer *peers);

/* Take an armed notice of this run: its targets, or 0 when it is not armed, or
 * somebody else took it. */
uint64_t rpi_frame_take_notice(struct rpi_frame *frame, uint64_t run_seq);

#endif
