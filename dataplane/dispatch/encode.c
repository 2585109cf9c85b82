/* SPDX-License-Identifier: MIT */
/*
 * One task, from the orchestration's arguments to the lane. Per task: no system
 * call, no lock, no log; allocates only as hazard.c says.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "dispatch/frame.h"
#include "dispatch/note.h"
#include "dispatch/plane.h"
#include "dispatch/record.h"
#include "memory/overlap.h"
#include "memory/view.h"

/* Of many arguments: not too many of any kind. */
static __attribute__((noinline)) int check_counts(const char *call,
						  const struct rp_arg *args,
						  uint32_t arg_count)
{
	uint32_t scalars = 0;
	uint32_t domains = 0;
	uint32_t i;

	if (arg_count > RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS)
		return rpi_fail(-EINVAL, "%s: %u arguments, expected at most %u", call,
				arg_count, RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS);
	for (i = 0; i < arg_count; i++) {
		scalars += args[i].kind == RP_ARG_SCALAR;
		domains += args[i].kind == RP_ARG_DOMAIN;
	}
	if (domains > RP_MAX_TASK_DOMAINS)
		return rpi_fail(-EINVAL, "%s: %u domains, expected at most %u", call,
				domains, RP_MAX_TASK_DOMAINS);
	if (scalars > RP_MAX_TASK_SCALARS)
		return rpi_fail(-EINVAL, "%s: %u scalars, expected at most %u", call,
				scalars, RP_MAX_TASK_SCALARS);
	if (arg_count - scalars - domains > RP_MAX_TASK_TENSORS)
		return rpi_fail(-EINVAL, "%s: %u tensors, expected at most %u", call,
				arg_count - scalars - domains, RP_MAX_TASK_TENSORS);
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

/* Once more, for a line that names the argument. */
static __attribute__((cold, noinline)) int fail_resident(const struct rpi_plane *plane,
							 const char *call, uint32_t arg,
							 const struct rp_tensor *tensor,
							 size_t bytes,
							 struct rpi_resident *where)
{
	char named[64];

	rpi_format(named, sizeof(named), "%s: argument %u", call, arg);
	return plane->locate(plane->memory_context, named, tensor, bytes, where);
}

/* Device memory: it lies on one chip, and the task must go there. */
static int place_resident(struct rp_run *run, const char *call, uint32_t arg,
			  const struct rp_tensor *tensor, size_t bytes, enum rpi_op op,
			  uint32_t peer, uint64_t *device_out)
{
	struct rpi_resident where;
	int err;

	if (op != RPI_OP_RUN)
		return rpi_fail(-EINVAL,
				"%s: argument %u is device memory, which callbacks can't "
				"see",
				call, arg);
	err = run->plane->locate(run->plane->memory_context, call, tensor, bytes, &where);
	if (rpi_unlikely(err))
		err = fail_resident(run->plane, call, arg, tensor, bytes, &where);
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

/* Likewise. */
static __attribute__((cold, noinline)) int fail_view(const char *call, uint32_t arg,
						     const struct rp_tensor *tensor,
						     struct rpi_view *view)
{
	char named[64];

	rpi_format(named, sizeof(named), "%s: argument %u", call, arg);
	return rpi_view_from_tensor(named, tensor, view);
}

/* One tensor, seen as `view`; the bytes of its records are added. Kept apart, so that
 * tasks without tensors do not pay for the registers that this takes. */
static __attribute__((noinline)) int check_tensor(struct rp_run *run, const char *call,
						  const struct rp_arg *arg, uint32_t idx,
						  enum rpi_op op, uint32_t peer,
						  uint32_t view, size_t *bytes)
{
	const struct rp_tensor *tensor = &arg->u.tensor;
	uintptr_t low, high;
	int err;

	err = rpi_view_from_tensor(call, tensor, &run->views[view]);
	if (rpi_unlikely(err))
		return fail_view(call, idx, tensor, &run->views[view]);
	rpi_view_extent(&run->views[view], &low, &high);
	err = check_access(run, call, idx, arg->access, tensor->resident, low, high);
	if (!err && tensor->resident)
		err = place_resident(run, call, idx, tensor, high - low, op, peer,
				     &run->device[view]);
	*bytes += sizeof(struct rpi_wire_tensor);
	if (!rpi_tensor_row_major(tensor))
		*bytes += sizeof(struct rpi_wire_strides);
	return err;
}

/* Check every argument; fill run->views; returns the stream's bytes through
 * *bytes_out, dependencies not counted. */
static int check_args(struct rp_run *run, const char *call, const struct rp_arg *args,
		      uint32_t arg_count, enum rpi_op op, uint32_t peer,
		      size_t *bytes_out)
{
	uint32_t view = 0;
	size_t bytes = 0;
	uint32_t i;
	int err = 0;

	if (rpi_unlikely(arg_count && !args))
		return rpi_fail(-EINVAL, "%s: args NULL, expected %u arguments", call,
				arg_count);
	if (rpi_unlikely(arg_count > RPI_FEW_ARGS))
		err = check_counts(call, args, arg_count);
	for (i = 0; !err && i < arg_count; i++) {
		switch (args[i].kind) {
		case RP_ARG_TENSOR:
			err = check_tensor(run, call, &args[i], i, op, peer, view++,
					   &bytes);
			break;
		case RP_ARG_SCALAR:
			bytes += sizeof(struct rpi_wire_scalar);
			break;
		case RP_ARG_DOMAIN:
			err = rpi_domain_check_task(run, call, i, args[i].u.domain, peer);
			bytes += sizeof(struct rpi_wire_domain);
			break;
		default:
			return rpi_fail(
				-EINVAL,
				"%s: argument %u is of kind %u, expected a tensor, a "
				"scalar or a domain",
				call, i, args[i].kind);
		}
	}
	*bytes_out = bytes;
	return err || view < 2 ? err : check_written_apart(run, call, args, arg_count);
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
		if (args[i].kind == RP_ARG_DOMAIN)
			rpi_domain_follow(args[i].u.domain, peer, &run->follow);
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

int rpi_run_break(struct rp_run *run, int err)
{
	rpi_run_cancel(run, err, rp_last_error());
	return err;
}

/* The domains' next users follow this task. */
static void note_domains(const struct rp_arg *args, uint32_t arg_count, uint32_t peer,
			 uint64_t seq)
{
	uint32_t i;

	for (i = 0; i < arg_count; i++)
		if (args[i].kind == RP_ARG_DOMAIN)
			rpi_domain_note(args[i].u.domain, peer, seq);
}

static __attribute__((cold, noinline)) void observe(struct rp_run *run, uint32_t peer,
						    uint64_t seq,
						    const struct rpi_task_body *body,
						    const struct rpi_args *given)
{
	if (run->recording)
		rpi_record_task(run, peer, body, given);
	if (run->notes)
		rpi_note_task(run, peer, seq, body, given);
}

static RPI_ALWAYS_INLINE int enqueue_checked(struct rp_run *run, const char *call,
					     enum rpi_op op, uint32_t peer,
					     uint32_t entry, const struct rpi_args *given)
{
	const struct rpi_lane *lane = &run->plane->lanes[peer];
	const uint64_t seq = lane->next_seq;
	struct rpi_task_body body;
	int err;

	/* Before its accesses are noted: a task that is refused leaves no trace. */
	if (rpi_unlikely(given->bytes > lane->at.arg_bytes))
		return rpi_fail(-ENOSPC,
				"%s: the arguments take %zu bytes, arg_ring_bytes is %zu",
				call, given->bytes, lane->at.arg_bytes);
	err = find_deps(run, given->args, given->count, peer, seq);
	if (err)
		return rpi_run_break(run, err);
	body = (struct rpi_task_body){
		.op = (uint8_t)op,
		.frame_idx = (uint8_t)run->frame_idx,
		.program = (uint16_t)run->program_idx,
		.entry = (uint16_t)entry,
		.arg_count = (uint16_t)given->count,
		.run_seq = run->seq,
	};
	if (rpi_unlikely(run->observed))
		observe(run, peer, seq, &body, given);
	err = rpi_run_send(run, call, peer, &body, given, true);
	if (err)
		return rpi_run_break(run, err);
	run->task_count++;
	if (rpi_unlikely(run->domains))
		note_domains(given->args, given->count, peer, seq);
	return 0;
}

int rpi_run_enqueue(struct rp_run *run, const char *call, enum rpi_op op, uint32_t peer,
		    uint32_t entry, const struct rp_arg *args, uint32_t arg_count)
{
	struct rpi_args given = { .args = args, .count = arg_count };
	int err;

	rpi_lane_expect(&run->plane->lanes[peer], arg_count);
	err = check_args(run, call, args, arg_count, op, peer, &given.bytes);
	return err ? err : enqueue_checked(run, call, op, peer, entry, &given);
}

int rpi_run_enqueue_bound(struct rp_run *run)
{
	static const char call[] = "rp_run_task";
	const uint32_t count = run->program->param_count;
	const uint32_t tensors = run->grant_count;
	const struct rpi_args given = {
		.args = run->args,
		.count = count,
		.bytes = tensors * sizeof(struct rpi_wire_tensor) +
			 (count - tensors) * sizeof(struct rpi_wire_scalar),
		.fits_words = run->program->fits_words,
	};
	int err = 0;

	if (!given.fits_words)
		rpi_lane_expect(&run->plane->lanes[0], count);
	if (tensors > 1)
		err = check_written_apart(run, call, run->args, count);
	return err ? err : enqueue_checked(run, call, RPI_OP_RUN, 0, 0, &given);
}
