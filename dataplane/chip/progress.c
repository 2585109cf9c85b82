/* SPDX-License-Identifier: MIT */
/*
 * The end of a task. Usually one store and one look at a word that nobody has
 * touched for long; somebody asked to be told only if that word says so.
 *
 * Never: an allocation, a lock, a log; a system call only to wake a sleeper.
 */
#include "base/futex.h"
#include "chip/server.h"
#include "completion/event.h"
#include "dispatch/frame.h"

static void announce(struct rp_chip *chip, uint64_t targets)
{
	if (targets & RPI_NOTICE_WAITER) {
		rpi_park_wake(chip->parent_park, &chip->rouser.waker);
		rpi_count(&chip->self->counts.caller_wakes, 1);
	}
	if (targets & RPI_NOTICE_FD)
		rpi_event_raise(chip->event_fd);
	if (targets & RPI_NOTICE_RING)
		rpi_waker_send(&chip->rouser.waker, chip->ring_fd, chip->ring_user_data);
}

static void look_at_notice(struct rp_chip *chip, uint32_t idx, bool always)
{
	struct rpi_frame *frame = &chip->frames[idx];
	uint64_t notice = atomic_load_explicit(&frame->notice, memory_order_acquire);

	if (!(notice & RPI_NOTICE_ARMED))
		return;
	if (rpi_frame_all_done(frame, chip->peers)) {
		/* The run may be another by now: then there is nothing to take. */
		announce(chip,
			 rpi_frame_take_notice(frame, notice >> RPI_NOTICE_RUN_SHIFT));
		return;
	}
	if (!always)
		atomic_fetch_or_explicit(&chip->self->attention, RPI_ATTENTION_FRAME(idx),
					 memory_order_acq_rel);
}

/* E5, the worker's end. Of two processes that end the last tasks of a run at once, one
 * sees both done: each has stored its own done_seq before its fence. */
static void look_at_notices(struct rp_chip *chip, uint32_t attention)
{
	const uint32_t asked = attention & RPI_ATTENTION_FRAMES;
	const bool always = attention & RPI_ATTENTION_ALWAYS;
	uint32_t idx;

	/* The bits go before a notice is read: one that is armed after that sets its bit
	 * again. */
	if (asked)
		atomic_fetch_and_explicit(&chip->self->attention, ~asked,
					  memory_order_seq_cst);
	for (idx = 0; idx < RPI_FRAME_COUNT; idx++)
		if (always || (asked & RPI_ATTENTION_FRAME(idx)))
			look_at_notice(chip, idx, always);
}

static void tell_peers(struct rp_chip *chip)
{
	uint64_t waiters;

	atomic_fetch_and_explicit(&chip->self->attention, ~RPI_ATTENTION_DEPS,
				  memory_order_acq_rel);
	waiters = atomic_exchange_explicit(&chip->self->dep_waiters, 0,
					   memory_order_acq_rel);
	while (waiters) {
		uint32_t peer = (uint32_t)__builtin_ctzll(waiters);

		waiters &= waiters - 1;
		if (peer < chip->peer_count)
			rpi_rouse_sleeper(&chip->rouser, peer);
	}
}

static void tell_room(struct rp_chip *chip, uint64_t seq)
{
	struct rpi_peer *self = chip->self;

	if (seq < atomic_load_explicit(&self->room_seq, memory_order_acquire))
		return;
	atomic_fetch_and_explicit(&self->attention, ~RPI_ATTENTION_ROOM,
				  memory_order_acq_rel);
	atomic_fetch_add_explicit(&self->room_futex, 1, memory_order_release);
	rpi_futex_wake_all(&self->room_futex, RPI_FUTEX_SHARED);
}

static __attribute__((noinline)) void serve_attention(struct rp_chip *chip, uint64_t seq,
						      uint32_t attention)
{
	if (attention & (RPI_ATTENTION_FRAMES | RPI_ATTENTION_ALWAYS))
		look_at_notices(chip, attention);
	if (attention & RPI_ATTENTION_DEPS)
		tell_peers(chip);
	if (attention & RPI_ATTENTION_ROOM)
		tell_room(chip, seq);
}

void rpi_server_loaded(struct rp_chip *chip, uint64_t seq)
{
	/* E3: the inputs were read before. */
	atomic_store_explicit(&chip->self->loaded_seq, seq, memory_order_release);
	rpi_fence(); /* E4: a peer may sleep on this word */
	if (rpi_unlikely(
		    atomic_load_explicit(&chip->self->attention, memory_order_relaxed) &
		    RPI_ATTENTION_DEPS))
		tell_peers(chip);
}

void rpi_server_publish(struct rp_chip *chip, uint64_t seq)
{
	uint32_t attention;

	/* E2: outputs, counters and a failure's text come before. */
	atomic_store_explicit(&chip->self->done_seq, seq, memory_order_release);
	rpi_fence(); /* E5 */
	attention = atomic_load_explicit(&chip->self->attention, memory_order_relaxed);
	if (rpi_unlikely(attention))
		serve_attention(chip, seq, attention);
}
