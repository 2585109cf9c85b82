/* SPDX-License-Identifier: MIT */
/*
 * From a queued request to a run: the dispatcher's part of a submit. Steady state: no
 * system call, no allocation, and admission is free.
 */
#include <string.h>

#include "base/probe.h"
#include "base/testing.h"
#include "dispatch/capture.h"
#include "dispatch/plane.h"
#include "dispatch/queue.h"

/* Its time in the queue, once its run has a number. Not of one that was queued before
 * anybody wanted to know. */
static RPI_ALWAYS_INLINE void note_queued(struct rpi_plane *plane,
					  const struct rpi_request *request,
					  uint64_t taken, uint64_t run_seq)
{
	/* The first: code that a build without host spans drops. */
	if ((RPI_TRACE_HOST & RPI_TRACE_BUILT) && rpi_unlikely(taken && request->queued))
		rpi_run_span_record(plane, RPI_SPAN_QUEUE, request->queued, taken,
				    run_seq, request->program_idx);
}

/* As abandon(), for a request: its handle is out, and hears of it. */
static void abandon_request(struct rp_run *run, int err, const char *text)
{
	struct rpi_plane *plane = run->plane;

	if (!atomic_load_explicit(&run->peers, memory_order_relaxed)) {
		atomic_exchange_explicit(&run->word, rpi_run_word(run->seq, RPI_RUN_FREE),
					 memory_order_seq_cst);
		rpi_gate_published(plane);
		rpi_plane_refuse(plane, run->handle_idx, err, text);
		return;
	}
	run->given_up = err;
	rpi_format(run->fail_text, sizeof(run->fail_text), "%s", text);
	rpi_run_cancel(run, err, text);
	rpi_handle_unqueue(&plane->handles.slots[run->handle_idx]);
	rpi_run_accept(run);
}

/* `taken`: when the dispatcher took it, in ticks; 0: nobody wants to know. */
static void build_request(struct rp_run *run, struct rpi_request *request, uint64_t taken)
{
	struct rpi_plane *plane = run->plane;
	struct rpi_handle_slot *slot = &plane->handles.slots[request->handle_idx];
	char text[RPI_ERROR_BYTES];
	uint64_t at;
	int err;

	run->handle_idx = request->handle_idx;
	rpi_run_begin(run, request->program, request->program_idx,
		      request->has_config ? &request->config : NULL, request->began);
	note_queued(plane, request, taken, run->seq);
	at = rpi_run_span(run, RPI_SPAN_SUBMIT_FRAME, taken);
	memcpy(run->args, request->args,
	       request->program->param_count * sizeof(*run->args));
	memcpy(run->grants, request->grants, request->grant_count * sizeof(*run->grants));
	run->grant_count = request->grant_count;
	run->bound = false;
	rpi_queue_give_back(plane->queue, request);
	at = rpi_run_span(run, RPI_SPAN_SUBMIT_BIND, at);
	/* This thread's line may be an earlier request's. */
	if (*rp_last_error())
		rpi_error_set("");
	err = rpi_run_orchestrate(run);
	rpi_run_span(run, RPI_SPAN_SUBMIT_ORCHESTRATE, at);
	slot->run_idx = run->frame_idx;
	slot->run_seq = run->seq;
	if (rpi_unlikely(err)) {
		if (!*rp_last_error())
			rpi_fail(err,
				 "rp_worker_submit: the orchestration of '%s' returned "
				 "%d",
				 run->program->name, err);
		rpi_format(text, sizeof(text), "%s", rp_last_error());
		abandon_request(run, err, text);
		return;
	}
	/* Without .publish: once published the run may end, and its spans are there then.
	 */
	rpi_run_span(run, RPI_SPAN_SUBMIT, taken);
	/* H1. Before the run can end: until then it holds the slot. Those who wait find
	 * it being built for a moment longer. */
	rpi_handle_unqueue(slot);
	rpi_test_point("request.unqueued");
	rpi_probe(submit, run->seq, run->program_idx);
	rpi_run_accept(run);
	rpi_test_point("request.accepted");
}

void rpi_plane_dispatch(struct rpi_plane *plane, struct rpi_request *request)
{
	const uint64_t taken = rpi_trace_open(&plane->tracer, RPI_TRACE_HOST);
	uint32_t handle_idx = request->handle_idx;
	struct rp_run *run;
	int err;

	rpi_admission_enter(&plane->admission);
	if (rpi_unlikely(request->capture != NULL)) {
		rpi_plane_dispatch_captured(plane, request);
		rpi_admission_leave(&plane->admission);
		return;
	}
	rpi_plane_count_dispatch(plane);
	err = rpi_plane_check_alive(plane);
	if (!err)
		err = rpi_plane_take_frame(plane, rpi_plane_check_alive, &run);
	if (rpi_likely(!err)) {
		build_request(run, request, taken);
	} else {
		note_queued(plane, request, taken, plane->next_run_seq);
		rpi_queue_give_back(plane->queue, request);
		plane->handles.slots[handle_idx].run_seq = plane->next_run_seq++;
		rpi_plane_refuse(plane, handle_idx, err, rp_last_error());
	}
	rpi_admission_leave(&plane->admission);
}
