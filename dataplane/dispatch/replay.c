/* SPDX-License-Identifier: MIT */
/*
 * The replaying half. Per dispatch: no system call while there is room, no allocation, no
 * lock, no log. Everything that can be refused is, before the first task is sent.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "dispatch/record.h"
#include "memory/view.h"

static const char call[] = "rp_recording_run";

static int check_arg(const struct rp_recording *recording, const struct rp_run *run,
		     uint32_t idx)
{
	const char *name = recording->program->params[idx].name;
	const struct rp_arg *then = &recording->args[idx];
	const struct rp_arg *now = &run->args[idx];
	uint32_t dim;

	/* Kinds, dtypes and ranks are the program's. */
	if (now->kind == RP_ARG_SCALAR) {
		if (rpi_likely(now->u.scalar.value.bits == then->u.scalar.value.bits))
			return 0;
		return rpi_fail(-EINVAL,
				"%s: scalar '%s' has the bits %#" PRIx64
				", it was recorded with %#" PRIx64,
				call, name, now->u.scalar.value.bits,
				then->u.scalar.value.bits);
	}
	for (dim = 0; dim < now->u.tensor.rank; dim++)
		if (rpi_unlikely(now->u.tensor.shape[dim] != then->u.tensor.shape[dim]))
			return rpi_fail(-EINVAL,
					"%s: '%s' dim %u is %" PRId64
					", it was recorded with %" PRId64,
					call, name, dim, now->u.tensor.shape[dim],
					then->u.tensor.shape[dim]);
	if (rpi_unlikely(!now->u.tensor.resident != !then->u.tensor.resident))
		return rpi_fail(-EINVAL, "%s: '%s' is %s memory, it was recorded as %s",
				call, name, now->u.tensor.resident ? "device" : "host",
				then->u.tensor.resident ? "device memory"
							: "host memory");
	return 0;
}

static bool overlap(const struct rpi_grant *a, const struct rpi_grant *b)
{
	return a->resident == b->resident && a->low < b->high && b->low < a->high;
}

/* Who follows whom was found by the bytes that arguments share. Extents have the sizes
 * that they had. */
static int check_overlaps(const struct rp_recording *recording, const struct rp_run *run)
{
	const struct rpi_grant *then = recording->grants;
	const struct rpi_grant *now = run->grants;
	uint32_t a;
	uint32_t b;

	for (a = 0; a < run->grant_count; a++) {
		for (b = a + 1; b < run->grant_count; b++) {
			bool shared = overlap(&then[a], &then[b]);

			if (rpi_likely(shared == overlap(&now[a], &now[b]) &&
				       (!shared || now[a].low - now[b].low ==
							   then[a].low - then[b].low)))
				continue;
			return rpi_fail(
				-EINVAL,
				"%s: '%s' and '%s' share other bytes than when it was "
				"recorded",
				call, run->program->params[now[a].param].name,
				run->program->params[now[b].param].name);
		}
	}
	return 0;
}

/* Memory of the orchestration's own is where it was, and no argument's. */
static int check_constants(const struct rp_recording *recording, const struct rp_run *run)
{
	const struct rpi_record_constant *constants = recording->constants.at;
	struct rpi_plane *plane = run->plane;
	uint32_t i;
	uint32_t k;
	int err;

	for (i = 0; i < recording->constants.count; i++) {
		const struct rpi_record_constant *constant = &constants[i];

		err = plane->visible(plane->memory_context, (void *)constant->low,
				     constant->high - constant->low);
		if (rpi_unlikely(err))
			return err != -EFAULT
				       ? err
				       : rpi_fail(-EFAULT,
						  "%s: memory at %p that was recorded "
						  "has been freed",
						  call, (void *)constant->low);
		for (k = 0; k < run->grant_count; k++)
			if (rpi_unlikely(!run->grants[k].resident &&
					 run->grants[k].low < constant->high &&
					 constant->low < run->grants[k].high))
				return rpi_fail(
					-EINVAL,
					"%s: '%s' shares bytes with memory of the "
					"orchestration, which it did not when it was "
					"recorded",
					call,
					run->program->params[run->grants[k].param].name);
	}
	return 0;
}

static int check_config(const struct rp_recording *recording, const struct rp_run *run)
{
	if (rpi_likely(!recording->reads_config) ||
	    !memcmp(&recording->config, &run->frame->config, sizeof(recording->config)))
		return 0;
	return rpi_fail(-EINVAL,
			"%s: the orchestration of '%s' read its configuration when it "
			"was recorded, and this one differs",
			call, run->program->name);
}

static int place_resident(const struct rp_run *run, const struct rpi_record_fix *fix,
			  uint32_t peer, uint64_t *address_out)
{
	struct rp_tensor tensor = fix->tensor;
	struct rpi_resident where;
	struct rpi_view view;
	int err;

	if (fix->param != RPI_FIX_NONE) {
		const struct rp_tensor *now = &run->args[fix->param].u.tensor;

		tensor.resident = now->resident;
		tensor.data = (char *)now->data + fix->delta;
	}
	err = rpi_view_from_tensor(call, &tensor, &view);
	if (!err)
		err = run->plane->locate(run->plane->memory_context, call, &tensor,
					 (uint64_t)view.span_bytes, &where);
	if (err)
		return err;
	if (where.chip != peer)
		return rpi_fail(
			-EINVAL, "%s: '%s' lies on chip %u, it was recorded on chip %u",
			call,
			fix->param != RPI_FIX_NONE ? run->program->params[fix->param].name
						   : "a tensor of the orchestration",
			where.chip, peer);
	*address_out = where.address;
	return 0;
}

/* Put this call's addresses into the bytes of all tasks. */
static int place_all(const struct rp_run *run, const struct rp_recording *recording)
{
	const struct rpi_record_task *task = recording->tasks.at;
	const struct rpi_record_fix *fixes = recording->fixes.at;
	uint8_t *bytes = recording->bytes.at;
	uint64_t address = 0;
	uint32_t t;
	uint32_t i;
	int err;

	for (t = 0; t < recording->tasks.count; t++, task++) {
		for (i = task->fix_at; i < task->fix_at + task->fix_count; i++) {
			const struct rpi_record_fix *fix = &fixes[i];

			if (rpi_unlikely(fix->tensor.resident)) {
				err = place_resident(run, fix, task->peer, &address);
				if (err)
					return err;
			} else {
				address = (uintptr_t)run->args[fix->param].u.tensor.data +
					  fix->delta;
			}
			memcpy(bytes + fix->offset, &address, sizeof(address));
		}
	}
	return 0;
}

static int check(const struct rp_run *run, const struct rp_recording *recording)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < run->program->param_count; i++)
		err = check_arg(recording, run, i);
	if (!err)
		err = check_overlaps(recording, run);
	if (!err)
		err = check_constants(recording, run);
	return err ? err : check_config(recording, run);
}

/* run->follow, counted from this run's first tasks. */
static void follow(struct rp_run *run, const struct rp_recording *recording,
		   const struct rpi_record_task *task, const uint64_t *first_seq)
{
	const struct rpi_record_dep *dep =
		(const struct rpi_record_dep *)recording->deps.at + task->dep_at;
	uint32_t i;

	rpi_follow_reset(&run->follow);
	for (i = 0; i < task->dep_count; i++, dep++) {
		if (dep->loaded)
			rpi_follow_loaded(&run->follow, dep->peer,
					  first_seq[dep->peer] + dep->ordinal);
		else
			rpi_follow_done(&run->follow, dep->peer,
					first_seq[dep->peer] + dep->ordinal);
	}
}

int rpi_replay(struct rp_run *run, const struct rp_recording *recording)
{
	const struct rpi_record_task *task = recording->tasks.at;
	const struct rpi_plane *plane = run->plane;
	uint64_t first_seq[RP_MAX_PEERS];
	uint32_t i;
	int err;

	err = check(run, recording);
	if (!err)
		err = place_all(run, recording);
	if (err)
		return err;
	for (i = 0; i < plane->peer_count; i++)
		first_seq[i] = plane->lanes[i].next_seq;
	for (i = 0; i < recording->tasks.count; i++, task++) {
		const struct rpi_args given = {
			.bytes = task->bytes,
			.stream = (const uint8_t *)recording->bytes.at + task->bytes_at,
		};
		struct rpi_task_body body = task->body;

		body.frame_idx = (uint8_t)run->frame_idx;
		body.run_seq = run->seq;
		follow(run, recording, task, first_seq);
		err = rpi_run_send(run, call, task->peer, &body, &given, true);
		if (rpi_unlikely(err))
			return rpi_run_break(run, err);
		run->task_count++;
	}
	return 0;
}
