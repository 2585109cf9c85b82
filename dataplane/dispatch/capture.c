/* SPDX-License-Identifier: MIT */
#include "dispatch/capture.h"

#include <errno.h>

#include "dispatch/queue.h"

int rpi_plane_pass(struct rpi_plane *plane, const struct rpi_offer *offer,
		   struct rpi_pass *pass)
{
	struct rpi_offer own = *offer;
	struct rpi_ticket ticket;
	uint32_t idx;
	int err;

	own.wants_handle = false;
	for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
		plane->runs[idx].pass = pass->number;
		plane->runs[idx].notes = pass->notes;
		plane->runs[idx].observed = pass->notes;
	}
	plane->quiet = true;
	err = rpi_plane_build(plane, &own, rpi_trace_open(&plane->tracer, RPI_TRACE_RUN),
			      &ticket);
	pass->accepted = !err;
	if (!err)
		err = rpi_plane_settle(plane, &ticket);
	plane->quiet = false;
	for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
		plane->runs[idx].pass = 0;
		plane->runs[idx].notes = NULL;
		plane->runs[idx].observed = false;
	}
	return err;
}

/* Earlier dispatches end; their errors stay theirs. */
static void drain(struct rpi_plane *plane)
{
	uint32_t idx;

	for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
		uint64_t word = atomic_load_explicit(&plane->runs[idx].word,
						     memory_order_acquire);
		uint64_t seq = word >> RPI_RUN_STATE_BITS;

		if (word != rpi_run_word(seq, RPI_RUN_FREE))
			rpi_plane_await(plane, idx, seq, UINT64_MAX);
	}
}

/* Under admission, with nothing in flight. */
static int run(struct rpi_plane *plane, const struct rpi_offer *offer,
	       int (*check)(struct rpi_plane *plane), bool *accepted_out)
{
	int err;

	*accepted_out = false;
	err = check(plane);
	if (err)
		return err;
	return plane->captured(plane->memory_context, offer, accepted_out);
}

static uint64_t count_failed(const struct rpi_plane *plane)
{
	uint64_t count = 0;
	uint32_t kind;

	for (kind = 0; kind < RPI_FAILED_KINDS; kind++)
		count += atomic_load_explicit(&plane->failed[kind], memory_order_relaxed);
	return count;
}

/* The handle's outcome. A failure is counted once: by its run, or here. */
static void conclude(struct rpi_plane *plane, uint32_t handle_idx, int status,
		     uint64_t failed_before)
{
	if (status && count_failed(plane) == failed_before)
		rpi_plane_refuse(plane, handle_idx, status, rp_last_error());
	else
		rpi_plane_conclude(plane, handle_idx, status, rp_last_error());
}

static int submit_alone(struct rpi_plane *plane, const struct rpi_offer *offer,
			struct rpi_ticket *ticket_out)
{
	struct rpi_handle_slot *slot;
	char text[RPI_ERROR_BYTES];
	struct rpi_ticket ticket;
	uint64_t failed;
	bool accepted;
	int status;

	status = rpi_handles_take(&plane->handles, offer->wants_handle,
				  &ticket.handle_idx, &ticket.handle);
	if (status)
		return status;
	drain(plane);
	failed = count_failed(plane);
	status = run(plane, offer, rpi_plane_check_open, &accepted);
	if (!accepted) {
		rpi_format(text, sizeof(text), "%s", rp_last_error());
		rpi_handles_cancel(&plane->handles, ticket.handle_idx);
		rpi_error_set(text);
		return status;
	}
	rpi_plane_count_dispatch(plane);
	/* Whoever waits finds that the run is over. */
	slot = &plane->handles.slots[ticket.handle_idx];
	ticket.run_idx = slot->run_idx = 0;
	ticket.run_seq = slot->run_seq = plane->next_run_seq - 1;
	conclude(plane, ticket.handle_idx, status, failed);
	*ticket_out = ticket;
	return 0;
}

/* The dispatcher has it; nobody else has heard of the handle. */
static void await_queued(struct rpi_plane *plane, const struct rpi_ticket *ticket)
{
	struct rpi_handle_slot *slot = &plane->handles.slots[ticket->handle_idx];

	while (rpi_handle_is_queued(slot))
		rpi_plane_await_dispatch(plane, slot, UINT64_MAX);
}

int rpi_plane_submit_captured(struct rpi_plane *plane, const struct rpi_offer *offer,
			      struct rpi_ticket *ticket_out)
{
	int err;

	if (offer->record || offer->replay)
		return rpi_fail(-EOPNOTSUPP,
				"rp_worker_submit: a capture of a recording or a replay, "
				"expected a config with output_dir and no flag, or none "
				"of either");
	if (plane->queue) {
		err = rpi_queue_submit(plane->queue, offer, 0, ticket_out);
		if (!err)
			await_queued(plane, ticket_out);
		return err;
	}
	rpi_admission_enter(&plane->admission);
	err = rpi_plane_check_open(plane);
	if (!err)
		err = submit_alone(plane, offer, ticket_out);
	rpi_admission_leave(&plane->admission);
	return err;
}

void rpi_plane_dispatch_captured(struct rpi_plane *plane, struct rpi_request *request)
{
	const uint32_t handle_idx = request->handle_idx;
	const struct rpi_offer offer = {
		.program = request->program,
		.program_idx = request->program_idx,
		.args = request->args,
		.nargs = request->program->param_count,
		.config = request->has_config ? &request->config : NULL,
		.capture = request->capture,
	};
	uint64_t failed;
	bool accepted;
	int status;

	rpi_plane_count_dispatch(plane);
	drain(plane);
	failed = count_failed(plane);
	if (*rp_last_error())
		rpi_error_set("");
	status = run(plane, &offer, rpi_plane_check_alive, &accepted);
	plane->handles.slots[handle_idx].run_idx = 0;
	plane->handles.slots[handle_idx].run_seq = plane->next_run_seq - 1;
	rpi_queue_give_back(plane->queue, request);
	conclude(plane, handle_idx, status, failed);
}
