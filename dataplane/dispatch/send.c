/* SPDX-License-Identifier: MIT */
/*
 * A checked task goes into the lane of its process: dependencies, then the records of
 * its arguments. Per task: no system call while there is room, no lock, no allocation,
 * no log.
 */
#include <errno.h>
#include <string.h>

#include "dispatch/frame.h"
#include "dispatch/plane.h"
#include "memory/view.h"

static uint8_t *write_scalar(uint8_t *at, const struct rp_scalar *scalar)
{
	struct rpi_wire_scalar *wire = (struct rpi_wire_scalar *)at;

	*wire = (struct rpi_wire_scalar){ .kind = RP_ARG_SCALAR,
					  .dtype = (uint8_t)scalar->dtype,
					  .bits = scalar->value.bits };
	return at + sizeof(*wire);
}

/* What its next task is to zero goes with this one. */
static uint8_t *write_domain(uint8_t *at, struct rp_domain *domain)
{
	struct rpi_wire_domain *wire = (struct rpi_wire_domain *)at;

	*wire = (struct rpi_wire_domain){ .kind = RP_ARG_DOMAIN,
					  .slot = (uint16_t)domain->slot_idx,
					  .reset = domain->reset_due,
					  .generation = domain->generation,
					  .lease = domain->lease,
					  .timeout_ns = domain->timeout_ns };
	domain->reset_due = 0;
	return at + sizeof(*wire);
}

static uint8_t *write_tensor(uint8_t *at, const struct rp_arg *arg,
			     const struct rpi_view *view, uint64_t device)
{
	struct rpi_wire_tensor *wire = (struct rpi_wire_tensor *)at;
	const struct rp_tensor *tensor = &arg->u.tensor;

	wire->kind = RP_ARG_TENSOR;
	wire->dtype = (uint8_t)tensor->dtype;
	wire->rank = (uint8_t)tensor->rank;
	wire->access = (uint8_t)arg->access;
	wire->strided = rpi_tensor_row_major(tensor) ? 0 : 1;
	wire->resident = tensor->resident ? 1 : 0;
	wire->address = wire->resident ? device : (uint64_t)(uintptr_t)tensor->data;
	wire->bytes = (uint64_t)rpi_view_bytes(view);
	memcpy(wire->shape, tensor->shape, sizeof(wire->shape));
	at += sizeof(*wire);
	if (wire->strided) {
		struct rpi_wire_strides *strides = (struct rpi_wire_strides *)at;

		memcpy(strides->strides, tensor->strides, sizeof(strides->strides));
		strides->reserved = 0;
		at += sizeof(*strides);
	}
	return at;
}

void rpi_args_write(const struct rp_run *run, uint8_t *at, const struct rpi_args *given)
{
	const struct rp_arg *args = given->args;
	uint32_t view = 0;
	uint32_t i;

	if (given->stream) {
		memcpy(at, given->stream, given->bytes);
		return;
	}
	for (i = 0; i < given->count; i++) {
		if (args[i].kind == RP_ARG_SCALAR) {
			at = write_scalar(at, &args[i].u.scalar);
			continue;
		}
		if (args[i].kind == RP_ARG_DOMAIN) {
			at = write_domain(at, args[i].u.domain);
			continue;
		}
		at = write_tensor(at, &args[i], &run->views[view], run->device[view]);
		view++;
	}
}

/* So few that none is a tensor. */
static void write_inline(uint8_t *at, const struct rpi_args *given)
{
	uint32_t i;

	if (given->stream)
		memcpy(at, given->stream, given->bytes);
	for (i = 0; i < given->count; i++)
		at = given->args[i].kind == RP_ARG_DOMAIN
			     ? write_domain(at, given->args[i].u.domain)
			     : write_scalar(at, &given->args[i].u.scalar);
}

/* One line then carries all, records that would fill lines of their own. */
static void write_words(struct rpi_task_body *body, const struct rpi_args *given)
{
	uint32_t i;

	body->op = RPI_OP_RUN_WORDS;
	for (i = 0; i < given->count; i++) {
		const struct rp_arg *arg = &given->args[i];

		body->in.args.words[i] = arg->kind == RP_ARG_TENSOR
						 ? (uint64_t)(uintptr_t)arg->u.tensor.data
						 : arg->u.scalar.value.bits;
	}
}

/* Requests of a persistent worker are worked off one after the other: a chip begins
 * one when all others have ended the one before. */
static void follow_run_before(struct rp_run *run, uint32_t peer)
{
	const struct rpi_plane *plane = run->plane;
	uint32_t other;

	if (rpi_likely(!plane->persistent) || run->fenced >> peer & 1)
		return;
	for (other = 0; other < plane->peer_count; other++)
		if (other != peer && plane->fence_seq[other])
			rpi_follow_done(&run->follow, other, plane->fence_seq[other]);
}

/* How many dependencies the task itself has no place for. */
static uint32_t place_deps(const struct rp_run *run, struct rpi_task_body *body,
			   struct rpi_dep *deps)
{
	uint32_t spilled = 0;

	body->dep_count = (uint16_t)rpi_follow_count(&run->follow);
	rpi_follow_list(&run->follow, deps);
	if (body->dep_count > RPI_INLINE_DEPS)
		spilled = body->dep_count - RPI_INLINE_DEPS;
	memcpy(body->in.deps, deps, (body->dep_count - spilled) * sizeof(deps[0]));
	return spilled;
}

int rpi_run_send(struct rp_run *run, const char *call, uint32_t peer,
		 struct rpi_task_body *body, const struct rpi_args *args, bool of_run)
{
	struct rpi_plane *plane = run->plane;
	struct rpi_lane *lane = &plane->lanes[peer];
	struct rpi_dep deps[2 * RP_MAX_PEERS];
	size_t bytes = args->bytes;
	uint32_t spilled = 0;
	int err;

	if (of_run)
		follow_run_before(run, peer);
	if (rpi_unlikely(!rpi_follow_none(&run->follow))) {
		spilled = place_deps(run, body, deps);
		bytes += spilled * sizeof(deps[0]);
	} else if (bytes <= sizeof(body->in.args) || args->fits_words) {
		bytes = 0; /* one line carries all */
	}
	if (rpi_unlikely(!rpi_lane_has_room(lane, bytes))) {
		err = rpi_plane_await_room(plane, call, peer, bytes);
		if (err)
			return err;
	}
	if (bytes) {
		uint8_t *at = rpi_lane_args(lane, bytes, &body->args_at);

		body->arg_lines =
			(uint16_t)((bytes + RPI_CACHE_LINE - 1) / RPI_CACHE_LINE);
		memcpy(at, deps + RPI_INLINE_DEPS, spilled * sizeof(deps[0]));
		rpi_args_write(run, at + spilled * sizeof(deps[0]), args);
	} else if (args->bytes > sizeof(body->in.args)) {
		write_words(body, args);
	} else if (args->bytes) {
		write_inline(body->in.args.bytes, args);
	}
	/* Before the send: a task that is out there counts, come what may. */
	if (rpi_likely(of_run)) {
		run->fenced |= UINT64_C(1) << peer;
		atomic_store_explicit(
			&run->peers,
			atomic_load_explicit(&run->peers, memory_order_relaxed) |
				UINT64_C(1) << peer,
			memory_order_relaxed);
	}
	if (rpi_unlikely(!rpi_lane_send(lane, body)))
		return rpi_fail(-EPROTO,
				"%s: the task ring of worker process %u is full with "
				"tasks that were never sent",
				call, peer);
	return 0;
}
