/* SPDX-License-Identifier: MIT */
/*
 * One task, from the orchestration's arguments to the lane. Per task: no system
 * call, no lock, no log; allocates only as hazard.c says.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "dispatch/frame.h"
#include "dispatch/plane.h"
#include "memory/overlap.h"
#include "memory/view.h"

static int check_counts(const char *call, const struct rp_arg *args, uint32_t arg_count,
			uint32_t *tensors_out)
{
	uint32_t tensors = 0;
	uint32_t i;

	if (arg_count && !args)
		return rpi_fail(-EINVAL, "%s: args NULL, expected %u arguments", call,
				arg_count);
	if (arg_count > RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS)
		return rpi_fail(-EINVAL, "%s: %u arguments, expected at most %u", call,
				arg_count, RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS);
	for (i = 0; i < arg_count; i++) {
		if (args[i].kind != RP_ARG_TENSOR && args[i].kind != RP_ARG_SCALAR)
			return rpi_fail(
				-EINVAL,
				"%s: argument %u is of kind %u, expected a tensor or "
				"a scalar",
				call, i, args[i].kind);
		tensors += args[i].kind == RP_ARG_TENSOR;
	}
	if (tensors > RP_MAX_TASK_TENSORS)
		return rpi_fail(-EINVAL, "%s: %u tensors, expected at most %u", call,
				tensors, RP_MAX_TASK_TENSORS);
	if (arg_count - tensors > RP_MAX_TASK_SCALARS)
		return rpi_fail(-EINVAL, "%s: %u scalars, expected at most %u", call,
				arg_count - tensors, RP_MAX_TASK_SCALARS);
	*tensors_out = tensors;
	return 0;
}

static __attribute__((cold, noinline)) int fail_host(const char *call, uint32_t arg,
						     uintptr_t low, uintptr_t high,
						     int err)
{
	if (err != -EFAULT)
		return rpi_fail(err, "%s: argument %u: %s", call, arg, rp_last_error());
	return rpi_fail(-EFAULT,
			"%s: argument %u at %p (%" PRIuPTR
			" bytes) is not memory that the chips see, expected memory from "
			"rp_shared_alloc()",
			call, arg, (void *)low, high - low);
}

/* The program's parameters say what may be done to their memory; other shared
 * memory is the orchestration's own. */
static int check_access(const struct rp_run *run, const char *call, uint32_t arg,
			uint32_t access, uint64_t resident, uintptr_t low, uintptr_t high)
{
	struct rpi_plane *plane = run->plane;
	const struct rpi_grant *denied = NULL;
	bool inside = false;
	bool granted = false;
	uint32_t i;
	int err;

	if (access < RP_IN || access > RP_INOUT)
		return rpi_fail(
			-EINVAL,
			"%s: argument %u has access %u, expected RP_IN, RP_OUT or "
			"RP_INOUT",
			call, arg, access);
	for (i = 0; i < run->grant_count; i++) {
		const struct rpi_grant *grant = &run->grants[i];
		bool whole = low >= grant->low && high <= grant->high;

		if (resident != grant->resident || low >= grant->high ||
		    high <= grant->low)
			continue;
		/* Reading back what an earlier task wrote to an OUT parameter is fine. */
		if ((access & RP_OUT) && !(grant->access & RP_OUT))
			denied = grant;
		else
			granted |= whole;
		inside |= whole;
	}
	/* Memory that was passed twice may be written through the one that says so. */
	if (denied && !granted)
		return rpi_fail(
			-EACCES,
			"%s: argument %u is written, its memory belongs to '%s', which "
			"the program only reads",
			call, arg, run->program->params[denied->param].name);
	if (inside || resident)
		return 0;
	err = plane->visible(plane->memory_context, (void *)low, high - low);
	if (rpi_unlikely(err))
		return fail_host(call, arg, low, high, err);
	if (!(access & RP_OUT))
		return 0;
	return plane->writable(plane->memory_context, call, (void *)low, high - low);
}

/* Device memory: it lies on one chip, and the task must go there. */
static int place_resident(struct rp_run *run, const char *call, uint32_t arg,
			  const struct rp_tensor *tensor, enum rpi_op op, uint32_t peer,
			  uint64_t *device_out)
{
	struct rpi_resident where;
	int err;

	if (op != RPI_OP_RUN)
		return rpi_fail(-EINVAL,
				"%s: argument %u is device memory, which callbacks can't "
				"see",
				call, arg);
	err = run->plane->resolve(run->plane->memory_context, call, tensor, &where);
	if (err)
		return err;
	if (where.chip == RPI_CHIP_SEVERAL)
		return rpi_fail(-EINVAL,
				"%s: argument %u is a whole stacked tensor, expected one "
				"shard of it (rp_tensor_index())",
				call, arg);
	if (where.chip != peer)
		return rpi_fail(
			-EINVAL,
			"%s: argument %u lies on chip %u, the task goes to chip %u", call,
			arg, where.chip, peer);
	*device_out = where.address;
	return 0;
}

/* View of the tensor argument `arg`: views are numbered by tensors. */
static uint32_t view_of(const struct rp_arg *args, uint32_t arg)
{
	uint32_t view = 0;
	uint32_t i;

	for (i = 0; i < arg; i++)
		view += args[i].kind == RP_ARG_TENSOR;
	return view;
}

static bool same_memory(const struct rp_arg *args, const struct rp_run *run, uint32_t a,
			uint32_t b, uint32_t view_b)
{
	return args[a].u.tensor.resident == args[b].u.tensor.resident &&
	       rpi_view_overlap(&run->views[view_of(args, a)], &run->views[view_b]) !=
		       RPI_OVERLAP_NONE;
}

static int check_written_apart(struct rp_run *run, const char *call,
			       const struct rp_arg *args, uint32_t arg_count)
{
	uint32_t written = 0;
	uint32_t view = 0;
	uint32_t i;

	for (i = 0; i < arg_count; i++) {
		uint32_t other;

		if (args[i].kind != RP_ARG_TENSOR)
			continue;
		if (args[i].access & RP_OUT) {
			for (other = 0; other < written; other++)
				if (same_memory(args, run, run->written[other], i, view))
					return rpi_fail(
						-EINVAL,
						"%s: argument %u writes bytes that "
						"another argument of the task "
						"writes",
						call, i);
			run->written[written++] = (uint16_t)i;
		}
		view++;
	}
	return 0;
}

/* Once more, for a line that names the argument. */
static __attribute__((cold, noinline)) int fail_view(const char *call, uint32_t arg,
						     const struct rp_tensor *tensor,
						     struct rpi_view *view)
{
	char named[64];

	rpi_format(named, sizeof(named), "%s: argument %u", call, arg);
	return rpi_view_from_tensor(named, tensor, view);
}

/* Check every argument; fill run->views; returns the stream's bytes through
 * *bytes_out, dependencies not counted. */
static int check_args(struct rp_run *run, const char *call, const struct rp_arg *args,
		      uint32_t arg_count, enum rpi_op op, uint32_t peer,
		      size_t *bytes_out)
{
	uint32_t tensors = 0;
	uint32_t view = 0;
	size_t bytes = 0;
	uint32_t i;
	int err;

	err = check_counts(call, args, arg_count, &tensors);
	if (err)
		return err;
	for (i = 0; i < arg_count; i++) {
		const struct rp_tensor *tensor = &args[i].u.tensor;
		uintptr_t low, high;

		if (args[i].kind == RP_ARG_SCALAR) {
			bytes += sizeof(struct rpi_wire_scalar);
			continue;
		}
		err = rpi_view_from_tensor(call, tensor, &run->views[view]);
		if (rpi_unlikely(err))
			return fail_view(call, i, tensor, &run->views[view]);
		rpi_view_extent(&run->views[view], &low, &high);
		err = check_access(run, call, i, args[i].access, tensor->resident, low,
				   high);
		if (!err && tensor->resident)
			err = place_resident(run, call, i, tensor, op, peer,
					     &run->device[view]);
		if (err)
			return err;
		view++;
		bytes += sizeof(struct rpi_wire_tensor);
		if (!rpi_tensor_row_major(tensor))
			bytes += sizeof(struct rpi_wire_strides);
	}
	*bytes_out = bytes;
	return tensors > 1 ? check_written_apart(run, call, args, arg_count) : 0;
}

/* Note the accesses, and learn whom the task follows. */
static int find_deps(struct rp_run *run, const struct rp_arg *args, uint32_t arg_count,
		     uint32_t peer, uint64_t seq)
{
	uint32_t view = 0;
	uint32_t i;
	int err;

	rpi_follow_reset(&run->follow);
	if (run->plane->peer_count == 1)
		return 0; /* one process works its tasks off in order */
	for (i = 0; i < arg_count; i++) {
		if (args[i].kind != RP_ARG_TENSOR)
			continue;
		/* Device memory belongs to one chip, which works in order. */
		if (args[i].u.tensor.resident) {
			view++;
			continue;
		}
		err = rpi_hazards_add(&run->hazards, &run->views[view++],
				      args[i].access & RP_OUT, peer, seq, &run->follow);
		if (err)
			return err;
	}
	return 0;
}

static uint8_t *write_scalar(uint8_t *at, const struct rp_scalar *scalar)
{
	struct rpi_wire_scalar *wire = (struct rpi_wire_scalar *)at;

	*wire = (struct rpi_wire_scalar){ .kind = RP_ARG_SCALAR,
					  .dtype = (uint8_t)scalar->dtype,
					  .bits = scalar->value.bits };
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

static void write_args(struct rp_run *run, uint8_t *at, const struct rp_arg *args,
		       uint32_t arg_count)
{
	uint32_t view = 0;
	uint32_t i;

	for (i = 0; i < arg_count; i++) {
		if (args[i].kind == RP_ARG_SCALAR) {
			at = write_scalar(at, &args[i].u.scalar);
			continue;
		}
		at = write_tensor(at, &args[i], &run->views[view], run->device[view]);
		view++;
	}
}

/* The run's notes on accesses hold a task that will not be: the run can't go on, also
 * if its orchestration would. */
static __attribute__((cold, noinline)) int break_run(struct rp_run *run, int err)
{
	rpi_run_cancel(run, err, rp_last_error());
	return err;
}

int rpi_run_enqueue(struct rp_run *run, const char *call, enum rpi_op op, uint32_t peer,
		    uint32_t entry, const struct rp_arg *args, uint32_t arg_count)
{
	struct rpi_plane *plane = run->plane;
	struct rpi_lane *lane = &plane->lanes[peer];
	struct rpi_dep deps[2 * RP_MAX_PEERS];
	struct rpi_task_body body;
	uint32_t spilled = 0;
	size_t bytes = 0;
	int err;

	err = check_args(run, call, args, arg_count, op, peer, &bytes);
	/* Before its accesses are noted: a task that is refused leaves no trace. */
	if (!err && bytes > lane->at.arg_bytes)
		err = rpi_fail(-ENOSPC,
			       "%s: the arguments take %zu bytes, arg_ring_bytes is %zu",
			       call, bytes, lane->at.arg_bytes);
	if (err)
		return err;
	err = find_deps(run, args, arg_count, peer, lane->next_seq);
	if (err)
		return break_run(run, err);
	body = (struct rpi_task_body){
		.op = (uint8_t)op,
		.frame_idx = (uint8_t)run->frame_idx,
		.program = (uint16_t)run->program_idx,
		.entry = (uint16_t)entry,
		.arg_count = (uint16_t)arg_count,
		.run_seq = run->seq,
	};
	if (rpi_unlikely(!rpi_follow_none(&run->follow))) {
		body.dep_count = (uint16_t)rpi_follow_count(&run->follow);
		rpi_follow_list(&run->follow, deps);
		if (body.dep_count > RPI_INLINE_DEPS)
			spilled = body.dep_count - RPI_INLINE_DEPS;
		memcpy(body.deps, deps, (body.dep_count - spilled) * sizeof(deps[0]));
		bytes += spilled * sizeof(deps[0]);
	}
	if (rpi_unlikely(!rpi_lane_has_room(lane, bytes))) {
		err = rpi_plane_await_room(plane, call, peer, bytes);
		if (err)
			return break_run(run, err);
	}
	if (bytes) {
		uint8_t *at = rpi_lane_args(lane, bytes, &body.args_at);

		body.arg_lines =
			(uint16_t)((bytes + RPI_CACHE_LINE - 1) / RPI_CACHE_LINE);
		memcpy(at, deps + RPI_INLINE_DEPS, spilled * sizeof(deps[0]));
		write_args(run, at + spilled * sizeof(deps[0]), args, arg_count);
	}
	/* Before the send: a task that is out there counts, come what may. */
	atomic_store_explicit(&run->peers,
			      atomic_load_explicit(&run->peers, memory_order_relaxed) |
				      UINT64_C(1) << peer,
			      memory_order_relaxed);
	if (rpi_unlikely(!rpi_lane_send(lane, &body)))
		return break_run(run,
				 rpi_fail(-EPROTO,
					  "%s: the task ring of worker process %u is "
					  "full with tasks that were never sent",
					  call, peer));
	return 0;
}
