/* SPDX-License-Identifier: MIT */
/*
 * Threads of the parent that wait for a run.
 *
 * A short wait looks for itself. A longer one elects a leader: it spins for the
 * adaptive budget, then arms the notices of the runs in flight and sleeps on the
 * one park that worker processes wake. The others are followers and sleep on
 * `epoch`, which changes when a run has ended or the leader has left; a follower
 * arms its own run first, so that its end wakes the leader, who collects it.
 *
 * Memory order.
 *   E5 notice   see wire.h; arm_run() and the fence behind it are its end here
 *   W1 gate     a follower counts itself, then looks at its run and at the lead;
 *               who ends a run or leaves the lead stores that, then looks at the
 *               count. All four are seq_cst, so at least one sees the other.
 * Invariant: while followers sleep there is a leader, or epoch has changed since
 * they looked.
 */
#include <errno.h>
#include <sched.h>

#include "base/futex.h"
#include "base/testing.h"
#include "dispatch/frame.h"
#include "dispatch/plane.h"

/* Looks before the lead is asked for: about what a quick dispatch takes. */
#define QUICK_LOOKS 64

/* Clock looks of a spin that has a deadline but no budget. */
#define DEADLINE_TURNS 64

/* A spin asks so often how much is left. A pause is no longer than two empty tasks on
 * any processor known; so much of them at most is a few microseconds. */
#define STAND_BACK_TURNS 4
#define MANY_TASKS	 8
#define TASKS_PER_PAUSE	 2
#define PAUSES_MAX	 64

#define AGAIN		 1

static bool past(uint64_t deadline_ns)
{
	return deadline_ns != UINT64_MAX && rpi_now_ns() >= deadline_ns;
}

/* False: it is not running, yet or any more, so its end would wake nobody. Who finds it
 * running a moment later has to arm it again before going to sleep. */
static bool arm_run(struct rpi_plane *plane, struct rp_run *run)
{
	uint64_t word = atomic_load_explicit(&run->word, memory_order_acquire);
	uint64_t seq = word >> RPI_RUN_STATE_BITS;
	uint64_t left = atomic_load_explicit(&run->peers, memory_order_relaxed);
	uint64_t seen;
	uint64_t next;

	if (word != rpi_run_word(seq, RPI_RUN_RUNNING))
		return false;
	if (plane->gate.armed)
		return true; /* since it was accepted, or taken: then it has ended */
	seen = atomic_load_explicit(&run->frame->notice, memory_order_relaxed);
	do {
		if (seen >> RPI_NOTICE_RUN_SHIFT != seq)
			return false; /* ended meanwhile */
		next = seen | RPI_NOTICE_ARMED | RPI_NOTICE_WAITER;
		/* E5: the targets stand in the frame since the run was accepted. */
	} while (!atomic_compare_exchange_weak_explicit(&run->frame->notice, &seen, next,
							memory_order_acq_rel,
							memory_order_relaxed));
	while (left) {
		uint32_t peer = (uint32_t)__builtin_ctzll(left);

		left &= left - 1;
		atomic_fetch_or_explicit(&plane->peers[peer].attention,
					 RPI_ATTENTION_FRAME(run->frame_idx),
					 memory_order_acq_rel);
	}
	return true;
}

/* The leader leaves: nobody sleeps on the park, so nobody is to be woken there. */
static void disarm_run(const struct rpi_plane *plane, struct rp_run *run)
{
	uint64_t seen;
	uint64_t next;

	if (plane->gate.armed)
		return;
	seen = atomic_load_explicit(&run->frame->notice, memory_order_relaxed);
	do {
		if (!(seen & RPI_NOTICE_WAITER))
			return;
		next = seen & ~RPI_NOTICE_WAITER;
		if (!(next & RPI_NOTICE_TARGETS))
			next &= ~RPI_NOTICE_ARMED;
	} while (!atomic_compare_exchange_weak_explicit(&run->frame->notice, &seen, next,
							memory_order_acq_rel,
							memory_order_relaxed));
}

/* Collect whatever has ended: followers wait for it. */
static void poll_all(struct rpi_plane *plane)
{
	uint32_t idx;

	for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
		uint64_t word = atomic_load_explicit(&plane->runs[idx].word,
						     memory_order_acquire);
		uint64_t seq = word >> RPI_RUN_STATE_BITS;

		if (word == rpi_run_word(seq, RPI_RUN_RUNNING))
			rpi_run_poll(&plane->runs[idx], seq);
	}
}

static void bump_epoch(struct rpi_gate *gate)
{
	atomic_fetch_add_explicit(&gate->epoch, 1, memory_order_seq_cst);
	rpi_futex_wake_all(&gate->epoch, RPI_FUTEX_PRIVATE);
}

void rpi_gate_published(struct rpi_plane *plane)
{
	/* W1: the run's word was exchanged before, seq_cst like this. */
	if (rpi_unlikely(
		    atomic_load_explicit(&plane->gate.followers, memory_order_seq_cst)))
		bump_epoch(&plane->gate);
}

void rpi_gate_wake_all(struct rpi_plane *plane)
{
	bump_epoch(&plane->gate);
	rpi_park_wake(plane->park, &plane->rouser.waker);
}

static bool try_lead(struct rpi_gate *gate)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(
		&gate->leader, &expected, 1, memory_order_seq_cst, memory_order_seq_cst);
}

static void resign(struct rpi_gate *gate)
{
	atomic_store_explicit(&gate->budget_ns, rpi_spin_budget(&gate->spin),
			      memory_order_relaxed);
	/* W1. The next leader finds the spin state and the park as they are now. */
	atomic_store_explicit(&gate->leader, 0, memory_order_seq_cst);
	if (atomic_load_explicit(&gate->followers, memory_order_seq_cst))
		bump_epoch(gate);
}

/*
 * A process that works off many tasks stores done_seq after each, and whoever looks
 * takes that line from it. So with many to come, stay away for a part of the time that
 * they take at the least.
 */
static void stand_back(const struct rpi_plane *plane, const struct rp_run *run)
{
	uint64_t left = rpi_frame_left(run->frame, plane->peers);
	uint64_t pauses = left < MANY_TASKS ? 0 : left / TASKS_PER_PAUSE;

	if (pauses > PAUSES_MAX)
		pauses = PAUSES_MAX;
	while (pauses--)
		rpi_cpu_pause();
}

/* How often the leader gives its CPU away: at once to who is still at work for the run.
 */
static uint32_t yield_ns(const struct rpi_plane *plane, const struct rp_run *run)
{
	uint64_t busy = rpi_frame_busy(run->frame, plane->peers);

	return rpi_rouser_beside(&plane->rouser, plane->park, busy) ? 0
								    : RPI_SPIN_ALONE_NS;
}

/* Look until the run is over, the spin's budget is spent (1) or the deadline has
 * passed. The leader collects for its followers meanwhile. */
static int spin_for_run(struct rpi_plane *plane, struct rp_run *run, uint64_t seq,
			uint64_t deadline_ns, struct rpi_spin_wait *wait, bool leads)
{
	const bool crowded = leads && plane->gate.spin.crowded;
	uint32_t turns = 0;

	if (rpi_unlikely(crowded))
		rpi_park_sit(plane->park);
	while (!rpi_run_poll(run, seq)) {
		if (rpi_unlikely(crowded))
			wait->yield_ns = yield_ns(plane, run);
		if (!rpi_spin_again(wait))
			return AGAIN;
		if (++turns % STAND_BACK_TURNS == 0)
			stand_back(plane, run);
		if (turns % DEADLINE_TURNS)
			continue;
		if (past(deadline_ns))
			return -ETIMEDOUT;
		if (leads &&
		    atomic_load_explicit(&plane->gate.followers, memory_order_relaxed))
			poll_all(plane);
	}
	return 0;
}

/*
 * Whether a thread that has armed the run, or tried to, may sleep until it ends. It may
 * not while a dispatcher is about to accept it; nor while another thread collects it,
 * who may have looked at the notice just before it was armed. Both are over in a moment.
 * While an armed run is RUNNING, its collector is yet to look.
 */
static bool will_be_told(const struct rp_run *run, uint64_t seq, bool armed)
{
	return armed && atomic_load_explicit(&run->word, memory_order_seq_cst) ==
				rpi_run_word(seq, RPI_RUN_RUNNING);
}

static int sleep_for_run(struct rpi_plane *plane, struct rp_run *run, uint64_t seq,
			 uint64_t deadline_ns)
{
	for (;;) {
		bool armed = false;
		uint32_t idx;

		for (idx = 0; idx < RPI_FRAME_COUNT; idx++)
			if (arm_run(plane, &plane->runs[idx]) && &plane->runs[idx] == run)
				armed = true;
		rpi_fence(); /* E5 */
		poll_all(plane);
		if (rpi_run_poll(run, seq))
			return 0;
		rpi_test_point("wait.leads");
		if (!will_be_told(run, seq, armed)) {
			sched_yield();
			continue;
		}
		if (past(deadline_ns))
			return -ETIMEDOUT;
		atomic_fetch_add_explicit(&plane->gate.sleeps, 1, memory_order_relaxed);
		rpi_park_sleep(plane->park, deadline_ns);
		/* Who woke this thread has written these, of several chips perhaps the
		 * first: ask for them all at once. */
		for (idx = 0; idx < RPI_FRAME_COUNT; idx++)
			rpi_cpu_prefetch_write(&plane->runs[idx].frame->notice);
		__builtin_prefetch(&plane->peers[0].done_seq);
	}
}

static int wait_as_leader(struct rpi_plane *plane, struct rp_run *run, uint64_t seq,
			  uint64_t deadline_ns)
{
	struct rpi_gate *gate = &plane->gate;
	struct rpi_spin_wait wait;
	uint32_t idx;
	bool slept;
	int ret;

	rpi_spin_begin(&wait, &gate->spin);
	ret = spin_for_run(plane, run, seq, deadline_ns, &wait, true);
	slept = ret == AGAIN;
	if (slept) {
		ret = sleep_for_run(plane, run, seq, deadline_ns);
		for (idx = 0; idx < RPI_FRAME_COUNT; idx++)
			disarm_run(plane, &plane->runs[idx]);
	}
	rpi_spin_end(&wait, slept);
	resign(gate);
	return ret;
}

void rpi_gate_borrow(const struct rpi_plane *plane, struct rpi_spin *spin_out)
{
	const struct rpi_gate *gate = &plane->gate;

	/* The spin state is the leader's; whoever else spins borrows its budget. */
	rpi_spin_init(spin_out, RPI_SPIN_NEVER, 0, 0, gate->spin.crowded);
	spin_out->budget_ns =
		atomic_load_explicit(&gate->budget_ns, memory_order_relaxed);
}

static int wait_as_follower(struct rpi_plane *plane, struct rp_run *run, uint64_t seq,
			    uint64_t deadline_ns)
{
	struct rpi_gate *gate = &plane->gate;
	struct rpi_spin_wait wait;
	struct rpi_spin mine;
	uint32_t epoch;
	bool armed;
	int ret;

	rpi_gate_borrow(plane, &mine);
	rpi_spin_begin(&wait, &mine);
	ret = spin_for_run(plane, run, seq, deadline_ns, &wait, false);
	if (ret != AGAIN)
		return ret;
	atomic_fetch_add_explicit(&gate->followers, 1, memory_order_seq_cst); /* W1 */
	epoch = atomic_load_explicit(&gate->epoch, memory_order_seq_cst);
	armed = arm_run(plane, run);
	rpi_fence(); /* E5 */
	if (rpi_run_poll(run, seq)) {
		; /* the caller finds it over */
	} else if (rpi_test_point("wait.follows") || !will_be_told(run, seq, armed)) {
		sched_yield();
	} else if (atomic_load_explicit(&gate->leader, memory_order_seq_cst)) {
		atomic_fetch_add_explicit(&gate->sleeps, 1, memory_order_relaxed);
		rpi_futex_wait(&gate->epoch, epoch, RPI_FUTEX_PRIVATE, deadline_ns);
	}
	atomic_fetch_sub_explicit(&gate->followers, 1, memory_order_seq_cst);
	return past(deadline_ns) ? -ETIMEDOUT : AGAIN;
}

static int await_run(struct rpi_plane *plane, uint32_t run_idx, uint64_t run_seq,
		     uint64_t deadline_ns)
{
	struct rp_run *run = &plane->runs[run_idx];
	int looks;
	int ret;

	if (plane->gate.patient) {
		for (looks = 0; looks < QUICK_LOOKS; looks++) {
			if (rpi_run_poll(run, run_seq))
				return 0;
			rpi_cpu_pause();
		}
	}
	for (;;) {
		if (rpi_run_poll(run, run_seq))
			return 0;
		if (past(deadline_ns))
			return -ETIMEDOUT;
		ret = try_lead(&plane->gate)
			      ? wait_as_leader(plane, run, run_seq, deadline_ns)
			      : wait_as_follower(plane, run, run_seq, deadline_ns);
		if (ret == -ETIMEDOUT && rpi_run_poll(run, run_seq))
			return 0;
		if (ret != AGAIN)
			return ret;
	}
}

int rpi_plane_await(struct rpi_plane *plane, uint32_t run_idx, uint64_t run_seq,
		    uint64_t deadline_ns)
{
	const uint64_t began = rpi_trace_open(&plane->tracer, RPI_TRACE_HOST);
	int ret = await_run(plane, run_idx, run_seq, deadline_ns);

	/* The frame may be another run's by now. */
	if (rpi_unlikely(began))
		rpi_run_span_record(plane, RPI_SPAN_WAIT, began, rpi_clock_ticks(),
				    run_seq, RPI_SPAN_UNKNOWN);
	return ret;
}

int rpi_plane_await_dispatch(struct rpi_plane *plane, struct rpi_handle_slot *slot,
			     uint64_t deadline_ns)
{
	uint32_t queued = RPI_QUEUED_YES;
	struct rpi_spin_wait wait;
	struct rpi_spin mine;
	uint32_t turns = 0;

	rpi_gate_borrow(plane, &mine);
	rpi_spin_begin(&wait, &mine);
	while (rpi_handle_is_queued(slot)) {
		if (turns++ % DEADLINE_TURNS == 0 && past(deadline_ns))
			return -ETIMEDOUT;
		if (rpi_spin_again(&wait))
			continue;
		/* The word is the futex: once it says so, the dispatcher wakes. */
		if (!atomic_compare_exchange_strong_explicit(
			    &slot->queued, &queued, RPI_QUEUED_WATCHED,
			    memory_order_acquire, memory_order_acquire) &&
		    queued == RPI_QUEUED_NO)
			return 0;
		atomic_fetch_add_explicit(&plane->gate.sleeps, 1, memory_order_relaxed);
		rpi_futex_wait(&slot->queued, RPI_QUEUED_WATCHED, RPI_FUTEX_PRIVATE,
			       deadline_ns);
		return past(deadline_ns) && rpi_handle_is_queued(slot) ? -ETIMEDOUT : 0;
	}
	return 0;
}

/* A queued request has no run yet. */
static int await_dispatch(struct rpi_plane *plane, struct rpi_handle_slot *slot,
			  uint64_t deadline_ns)
{
	/* It waits for the orchestration that this thread is in. */
	if (deadline_ns == UINT64_MAX && rpi_plane_orchestrates(plane))
		return rpi_fail(-EDEADLK, "rp_handle_wait: the request waits for the "
					  "orchestration that this call is made in");
	return rpi_plane_await_dispatch(plane, slot, deadline_ns);
}

int rpi_plane_wait_handle(struct rpi_plane *plane, uint64_t run, uint64_t deadline_ns,
			  int *status_out)
{
	struct rpi_handle_slot *slot;
	uint32_t idx;
	int ret;

	for (;;) {
		ret = rpi_handles_outcome(&plane->handles, run, status_out);
		if (ret)
			return ret;
		slot = rpi_handles_find(&plane->handles, run, &idx);
		if (!slot)
			return -ESTALE;
		if (rpi_unlikely(rpi_handle_is_queued(slot))) {
			ret = await_dispatch(plane, slot, deadline_ns);
			if (ret == -EDEADLK)
				return ret;
			if (ret)
				return rpi_handles_outcome(&plane->handles, run,
							   status_out);
			continue;
		}
		/* If the slot becomes another run's here, that one is waited for, and
		 * then the handle is stale. */
		if (rpi_plane_await(plane, slot->run_idx, slot->run_seq, deadline_ns))
			return rpi_handles_outcome(&plane->handles, run, status_out);
	}
}
