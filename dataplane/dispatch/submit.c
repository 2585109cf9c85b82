/* SPDX-License-Identifier: MIT */
/*
 * From a call to an accepted run. Steady state: no system call, no allocation;
 * the only lock is admission, which is one compare-and-swap when nobody else
 * submits.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/probe.h"
#include "dispatch/capture.h"
#include "dispatch/frame.h"
#include "dispatch/plane.h"
#include "dispatch/queue.h"
#include "dispatch/record.h"
#include "runtime/sizing.h"
#include "trace/capture.h"

/* The first failure of a persistent worker stands for good: what its tasks left in the
 * windows is nobody's to use. */
static int check_terminal(const struct rpi_plane *plane)
{
	int terminal = atomic_load_explicit(&plane->terminal, memory_order_acquire);

	if (rpi_likely(!terminal))
		return 0;
	return rpi_fail(terminal, "%s", plane->terminal_text);
}

/* What ends also a request that was let in. */
int rpi_plane_check_alive(struct rpi_plane *plane)
{
	if (rpi_unlikely(atomic_load_explicit(&plane->fall, memory_order_acquire) !=
			 RPI_FALL_NONE))
		return rpi_fail(-EOWNERDEAD, "%s", plane->fall_text);
	return check_terminal(plane);
}

int rpi_plane_check_open(struct rpi_plane *plane)
{
	/* Seq_cst: a close stores `closing`, then looks at admission; this thread takes
	 * admission, then looks here. One of the two sees the other. */
	if (rpi_unlikely(atomic_load_explicit(&plane->closing, memory_order_seq_cst)))
		return rpi_fail(-ESHUTDOWN,
				"rp_worker_submit: the worker is closed or being closed");
	return rpi_plane_check_alive(plane);
}

static __attribute__((cold, noinline)) int fail_program(const struct rpi_plane *plane,
							const struct rp_program *program)
{
	char names[256];
	size_t at = 0;
	uint32_t i;

	if (!program)
		return rpi_fail(
			-EINVAL,
			"rp_worker_submit: program NULL, expected one of the %u that "
			"the worker was prepared with",
			plane->program_count);
	for (i = 0; i < plane->program_count && at + 1 < sizeof(names); i++)
		at += rpi_format(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
				 plane->programs[i]->name);
	return rpi_fail(-ENOENT,
			"rp_worker_submit: program '%s' at %p was not prepared on this "
			"worker, expected one of: %s",
			program->name, (const void *)program, names);
}

static int find_program(const struct rpi_plane *plane, const struct rp_program *program,
			uint32_t *idx_out)
{
	/* Acquire: the programs below it are there. */
	const uint32_t count =
		atomic_load_explicit(&plane->program_count, memory_order_acquire);
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (plane->programs[i] == program) {
			*idx_out = i;
			return 0;
		}
	}
	if (program || count != 1)
		return fail_program(plane, program);
	*idx_out = 0;
	return 0;
}

/* A free frame; the oldest run is waited for when there is none, as long as `check`
 * allows it. Its error stays its own. */
int rpi_plane_take_frame(struct rpi_plane *plane, int (*check)(struct rpi_plane *plane),
			 struct rp_run **run_out)
{
	for (;;) {
		struct rp_run *oldest = &plane->runs[0];
		uint64_t oldest_seq = UINT64_MAX;
		uint32_t idx;
		int err;

		for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
			struct rp_run *run = &plane->runs[idx];
			/* Acquire: the frame's last run has been collected. */
			uint64_t word =
				atomic_load_explicit(&run->word, memory_order_acquire);
			uint64_t seq = word >> RPI_RUN_STATE_BITS;

			if (word == rpi_run_word(seq, RPI_RUN_FREE)) {
				*run_out = run;
				return 0;
			}
			if (seq < oldest_seq) {
				oldest = run;
				oldest_seq = seq;
			}
		}
		atomic_fetch_add_explicit(&plane->frame_waits, 1, memory_order_relaxed);
		rpi_plane_await(plane, oldest->frame_idx, oldest_seq, UINT64_MAX);
		err = check(plane);
		if (err)
			return err;
	}
}

static int check_config(const struct rp_run_config *config)
{
	int err;

	if (!config)
		return 0;
	if (config->size != sizeof(*config))
		return rpi_fail(-EINVAL,
				"rp_worker_submit: config size %zu, expected %zu (use "
				"rp_run_config_init())",
				config->size, sizeof(*config));
	err = rpi_sizing_check("rp_worker_submit", config);
	return err ? err : rpi_capture_check("rp_worker_submit", &config->capture);
}

void rpi_run_begin(struct rp_run *run, struct rp_program *program, uint32_t program_idx,
		   const struct rp_run_config *config, uint64_t began)
{
	struct rpi_plane *plane = run->plane;

	/* Its last run is over: control/ takes the domains back, unless they are
	 * retained. Then nothing is to be done: the run's number, which they name, is no
	 * other's. */
	if (rpi_unlikely(run->domains) && !plane->persistent)
		plane->retire(plane->memory_context, run);
	/* A process that looked at its notice has read it. */
	rpi_cpu_prefetch_write(run->frame);
	run->domains = 0;
	run->fenced = 0;
	run->task_count = 0;
	run->began = began;
	run->seq = plane->next_run_seq++;
	atomic_store_explicit(&run->word, rpi_run_word(run->seq, RPI_RUN_BUILDING),
			      memory_order_relaxed);
	atomic_store_explicit(&run->peers, 0, memory_order_relaxed);
	run->program = program;
	run->program_idx = program_idx;
	run->next_chip = 0;
	run->given_up = 0;
	rpi_hazards_reset(&run->hazards);
	if (rpi_unlikely(config || !run->plain_config)) {
		if (config)
			run->frame->config = *config;
		else
			rp_run_config_init(&run->frame->config);
		run->plain_config = !config;
	}
}

/* E5 with ALWAYS. Armed only once the run counts as running: who is told of its end
 * must be able to collect it. Its tasks may all have ended before, and another thread
 * may have collected it before; then the notice is delivered here. The frame stays this
 * run's meanwhile, because this thread holds admission. */
static __attribute__((noinline)) void arm_always(struct rp_run *run, uint64_t targets)
{
	const uint64_t seq = run->seq;
	uint64_t seen = atomic_load_explicit(&run->frame->notice, memory_order_relaxed);

	if (run->plane->quiet)
		return;
	/* A waiter may have armed it for itself already. */
	while (!atomic_compare_exchange_weak_explicit(
		&run->frame->notice, &seen, seen | RPI_NOTICE_ARMED | targets,
		memory_order_acq_rel, memory_order_relaxed))
		;
	rpi_fence(); /* E5 */
	rpi_run_poll(run, seq);
	while (atomic_load_explicit(&run->word, memory_order_acquire) ==
	       rpi_run_word(seq, RPI_RUN_FINISHING))
		sched_yield();
	if (atomic_load_explicit(&run->word, memory_order_acquire) ==
	    rpi_run_word(seq, RPI_RUN_FREE))
		rpi_plane_announce(run->plane, rpi_frame_take_notice(run->frame, seq));
}

/* All tasks are enqueued: from here on the run can end. */
static void accept_run(struct rp_run *run)
{
	struct rpi_plane *plane = run->plane;
	uint64_t targets =
		atomic_load_explicit(&plane->notice_targets, memory_order_acquire);
	uint64_t peers = atomic_load_explicit(&run->peers, memory_order_relaxed);
	/* E5: a waiter looks whether the run is RUNNING, and then whether it has ended,
	 * before it sleeps. So it may be armed, and its end be told, before it is. */
	uint64_t waiters =
		plane->gate.armed && peers ? RPI_NOTICE_ARMED | RPI_NOTICE_WAITER : 0;
	uint64_t left = peers;

	atomic_store_explicit(&run->frame->peers, peers, memory_order_relaxed);
	while (left) {
		uint32_t peer = (uint32_t)__builtin_ctzll(left);

		left &= left - 1;
		rpi_lane_flush(&plane->lanes[peer]);
		plane->lanes[peer].lone_next = true;
		atomic_store_explicit(&run->frame->target_seq[peer],
				      plane->lanes[peer].next_seq - 1,
				      memory_order_relaxed);
		plane->fence_seq[peer] = plane->lanes[peer].next_seq - 1;
	}
	/* Release: whoever sees this run's number here sees its targets. */
	atomic_store_explicit(&run->frame->notice,
			      run->seq << RPI_NOTICE_RUN_SHIFT | waiters,
			      memory_order_release);
	atomic_store_explicit(&run->word, rpi_run_word(run->seq, RPI_RUN_RUNNING),
			      memory_order_release);
	if (rpi_unlikely(targets))
		arm_always(run, targets);
	if (rpi_unlikely(run->domains))
		rpi_domains_reset_ahead(run);
}

/* A fall may have been judged before this run counted as running. */
static void check_fallen(struct rp_run *run)
{
	struct rpi_plane *plane = run->plane;
	uint32_t fall;

	rpi_fence();
	fall = atomic_load_explicit(&plane->fall, memory_order_acquire);
	if (rpi_likely(fall == RPI_FALL_NONE))
		return;
	while (fall != RPI_FALL_OVER) {
		struct timespec moment = { .tv_nsec = 100000 };

		nanosleep(&moment, NULL);
		fall = atomic_load_explicit(&plane->fall, memory_order_acquire);
	}
	rpi_run_finish_fallen(run);
}

void rpi_run_accept(struct rp_run *run)
{
	accept_run(run);
	check_fallen(run);
}

/* The orchestration failed: end what it enqueued, then forget the run. */
static void abandon(struct rp_run *run, int err, const char *text)
{
	struct rpi_plane *plane = run->plane;
	const struct rpi_ticket ticket = { .run_idx = run->frame_idx,
					   .run_seq = run->seq,
					   .handle_idx = run->handle_idx };

	if (!atomic_load_explicit(&run->peers, memory_order_relaxed)) {
		rpi_handles_cancel(&plane->handles, run->handle_idx);
		atomic_exchange_explicit(&run->word, rpi_run_word(run->seq, RPI_RUN_FREE),
					 memory_order_seq_cst);
		rpi_gate_published(plane);
		return;
	}
	/* Nobody has heard of its handle, so nobody has it. */
	plane->handles.slots[run->handle_idx].handed_out = false;
	rpi_run_cancel(run, err, text);
	rpi_run_accept(run);
	rpi_plane_settle(plane, &ticket);
}

void rpi_plane_count_dispatch(struct rpi_plane *plane)
{
	/* Relaxed, no read-modify-write: written under admission only. */
	atomic_store_explicit(
		&plane->dispatches,
		atomic_load_explicit(&plane->dispatches, memory_order_relaxed) + 1,
		memory_order_relaxed);
}

/* Its tasks, from the orchestration or as they were kept. */
static int fill(struct rp_run *run, const struct rpi_offer *offer)
{
	int err;

	if (rpi_unlikely(offer->replay != NULL))
		return rpi_replay(run, offer->replay);
	if (rpi_likely(!offer->record))
		return rpi_run_orchestrate(run);
	run->recording = offer->record;
	rpi_record_start(run);
	err = rpi_run_orchestrate(run);
	rpi_record_stop(run);
	return err;
}

/* Its arguments are those of its one task. */
static bool wants_views(const struct rp_program *program)
{
	return !program->orchestrate && program->entry_count &&
	       program->param_count <= RPI_FEW_ARGS;
}

int rpi_plane_build(struct rpi_plane *plane, const struct rpi_offer *offer,
		    uint64_t began, struct rpi_ticket *ticket_out)
{
	char text[RPI_ERROR_BYTES];
	struct rpi_handle_slot *slot;
	struct rpi_call call;
	struct rp_run *run;
	uint32_t handle_idx;
	uint64_t handle, at;
	int err;

	err = rpi_plane_take_frame(plane, rpi_plane_check_open, &run);
	if (err)
		return err;
	err = rpi_handles_take(&plane->handles, offer->wants_handle, &handle_idx,
			       &handle);
	if (err)
		return err;
	/* Not read again below: a load wider than this store waits for all stores. */
	run->handle_idx = handle_idx;
	rpi_run_begin(run, offer->program, offer->program_idx, offer->config, began);
	at = rpi_run_span(run, RPI_SPAN_SUBMIT_FRAME, began);
	call = (struct rpi_call){ .plane = plane,
				  .program = offer->program,
				  .args = run->args,
				  .grants = run->grants,
				  .views = wants_views(offer->program) ? run->views
								       : NULL };
	err = rpi_call_bind(&call, offer->args, offer->nargs);
	run->grant_count = call.grant_count;
	run->bound = call.views && !call.any_resident;
	at = rpi_run_span(run, RPI_SPAN_SUBMIT_BIND, at);
	if (!err)
		err = fill(run, offer);
	at = rpi_run_span(run, RPI_SPAN_SUBMIT_ORCHESTRATE, at);
	/* Before the handle leaves this function. */
	slot = &plane->handles.slots[handle_idx];
	slot->run_idx = run->frame_idx;
	slot->run_seq = run->seq;
	if (rpi_unlikely(err)) {
		rpi_format(text, sizeof(text), "%s", rp_last_error());
		abandon(run, err, text);
		rpi_error_set(text);
		return err;
	}
	*ticket_out = (struct rpi_ticket){ .handle = handle,
					   .run_seq = run->seq,
					   .run_idx = run->frame_idx,
					   .handle_idx = handle_idx };
	rpi_run_accept(run);
	rpi_probe(submit, ticket_out->run_seq, offer->program_idx);
	rpi_run_span(run, RPI_SPAN_SUBMIT_PUBLISH, at);
	rpi_run_span(run, RPI_SPAN_SUBMIT, began);
	return 0;
}

/* Whether this thread may submit at all. */
static int check_place(struct rpi_plane *plane)
{
	if (rpi_likely(!rpi_plane_orchestrates(plane)))
		return 0;
	return rpi_fail(-EDEADLK, "rp_worker_submit: called from an orchestration of the "
				  "same worker, which it would wait for");
}

int rpi_plane_check_submit(struct rpi_plane *plane, const struct rp_program *program,
			   const struct rp_run_config *config, uint32_t *program_idx_out)
{
	int err;

	err = rpi_plane_check_open(plane);
	if (!err)
		err = check_config(config);
	if (!err)
		err = find_program(plane, program, program_idx_out);
	return err ? err : check_place(plane);
}

/* All checks that need no admission have been made. */
static int submit(struct rpi_plane *plane, const struct rpi_offer *offer, uint64_t began,
		  struct rpi_ticket *ticket_out)
{
	int err;

	if (plane->queue)
		return rpi_queue_submit(plane->queue, offer, began, ticket_out);
	rpi_admission_enter(&plane->admission);
	/* Again: a close may have begun while this thread queued. */
	err = rpi_plane_check_open(plane);
	if (!err)
		err = rpi_plane_build(plane, offer, began, ticket_out);
	if (rpi_likely(!err))
		rpi_plane_count_dispatch(plane);
	rpi_admission_leave(&plane->admission);
	return err;
}

/* It has a configuration, or somebody wants to know more: it may be captured. */
static __attribute__((noinline)) int submit_special(struct rpi_plane *plane,
						    const struct rpi_offer *offer,
						    uint64_t began,
						    struct rpi_ticket *ticket_out)
{
	const struct rp_run_config *config = offer->config;
	struct rpi_offer own = *offer;

	own.capture =
		rpi_capture_choose(config ? &config->capture : NULL, plane->capture);
	return own.capture ? rpi_plane_submit_captured(plane, &own, ticket_out)
			   : submit(plane, offer, began, ticket_out);
}

int rpi_plane_submit(struct rpi_plane *plane, struct rp_program *program,
		     const struct rp_arg *args, size_t nargs,
		     const struct rp_run_config *config, bool wants_handle,
		     struct rpi_ticket *ticket_out)
{
	const uint64_t began = rpi_trace_open(&plane->tracer, RPI_TRACE_RUN);
	struct rpi_offer offer = { .args = args,
				   .nargs = nargs,
				   .wants_handle = wants_handle };
	int err;

	err = rpi_plane_check_submit(plane, program, config, &offer.program_idx);
	if (err)
		return err;
	offer.program = plane->programs[offer.program_idx];
	offer.config = config ? config : offer.program->config;
	return rpi_unlikely(began || offer.config)
		       ? submit_special(plane, &offer, began, ticket_out)
		       : submit(plane, &offer, began, ticket_out);
}

int rpi_plane_submit_known(struct rpi_plane *plane, const struct rpi_offer *offer,
			   struct rpi_ticket *ticket_out)
{
	const uint64_t began = rpi_trace_open(&plane->tracer, RPI_TRACE_RUN);
	int err;

	err = rpi_plane_check_open(plane);
	if (!err)
		err = check_config(offer->config);
	if (!err)
		err = check_place(plane);
	if (err)
		return err;
	return rpi_unlikely(began || offer->config)
		       ? submit_special(plane, offer, began, ticket_out)
		       : submit(plane, offer, began, ticket_out);
}

int rpi_plane_settle(struct rpi_plane *plane, const struct rpi_ticket *ticket)
{
	struct rpi_handle_slot *slot = &plane->handles.slots[ticket->handle_idx];

	if (!plane->queue) {
		rpi_plane_await(plane, ticket->run_idx, ticket->run_seq, UINT64_MAX);
		return rpi_handles_settle(&plane->handles, ticket->handle_idx);
	}
	while (rpi_handle_is_queued(slot))
		rpi_plane_await_dispatch(plane, slot, UINT64_MAX);
	/* Done already: it was refused. */
	if (!rpi_handle_is_done(slot))
		rpi_plane_await(plane, slot->run_idx, slot->run_seq, UINT64_MAX);
	return rpi_handles_settle(&plane->handles, ticket->handle_idx);
}
