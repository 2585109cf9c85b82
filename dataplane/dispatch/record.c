/* SPDX-License-Identifier: MIT */
/* The recording half; it may allocate. */
#include "dispatch/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/view.h"

int rpi_recording_begin(struct rp_recording *recording, struct rpi_plane *plane,
			struct rp_program *program, uint32_t program_idx)
{
	memset(recording, 0, sizeof(*recording));
	recording->plane = plane;
	recording->program = program;
	recording->program_idx = program_idx;
	recording->args = calloc(program->param_count + 1, sizeof(*recording->args));
	recording->grants = calloc(program->tensor_count + 1, sizeof(*recording->grants));
	if (recording->args && recording->grants)
		return 0;
	rpi_recording_release(recording);
	return -ENOMEM;
}

void rpi_recording_release(struct rp_recording *recording)
{
	free(recording->tasks.at);
	free(recording->bytes.at);
	free(recording->fixes.at);
	free(recording->deps.at);
	free(recording->constants.at);
	free(recording->args);
	free(recording->grants);
}

void rpi_record_start(struct rp_run *run)
{
	struct rp_recording *recording = run->recording;
	uint32_t peer;

	run->observed = true;
	memcpy(recording->args, run->args,
	       run->program->param_count * sizeof(*recording->args));
	memcpy(recording->grants, run->grants,
	       run->grant_count * sizeof(*recording->grants));
	recording->grant_count = run->grant_count;
	recording->config = run->frame->config;
	for (peer = 0; peer < run->plane->peer_count; peer++)
		recording->first_seq[peer] = run->plane->lanes[peer].next_seq;
}

void rpi_record_stop(struct rp_run *run)
{
	if (run->domains)
		rpi_record_refuse(run, "it takes a comm domain");
	run->recording = NULL;
	run->observed = run->notes;
}

static const struct rpi_grant *find_grant(const struct rp_run *run,
					  const struct rp_tensor *tensor, uintptr_t low,
					  uintptr_t high, bool *touches_out)
{
	uint32_t i;

	*touches_out = false;
	for (i = 0; i < run->grant_count; i++) {
		const struct rpi_grant *grant = &run->grants[i];

		if (grant->resident != tensor->resident || low >= grant->high ||
		    high <= grant->low)
			continue;
		if (low >= grant->low && high <= grant->high)
			return grant;
		*touches_out = true;
	}
	return NULL;
}

static bool add_constant(struct rp_recording *recording, uintptr_t low, uintptr_t high)
{
	struct rpi_record_constant *constants = recording->constants.at;
	uint32_t i;

	for (i = 0; i < recording->constants.count; i++)
		if (constants[i].low == low && constants[i].high == high)
			return true;
	constants = rpi_list_append(&recording->constants, 1, sizeof(*constants));
	if (constants)
		*constants = (struct rpi_record_constant){ low, high };
	return constants != NULL;
}

/* Where the address of one tensor comes from. */
static bool add_fix(struct rp_run *run, const struct rp_tensor *tensor,
		    const struct rpi_view *view, uint32_t offset)
{
	struct rp_recording *recording = run->recording;
	const struct rpi_grant *grant;
	struct rpi_record_fix *fix;
	uintptr_t low, high;
	bool touches;

	rpi_view_extent(view, &low, &high);
	grant = find_grant(run, tensor, low, high, &touches);
	if (!grant && touches)
		rpi_record_refuse(run, "a task names memory that only begins, or only "
				       "ends, in an argument");
	if (!grant && !tensor->resident)
		return add_constant(recording, low, high);
	fix = rpi_list_append(&recording->fixes, 1, sizeof(*fix));
	if (!fix)
		return false;
	*fix = (struct rpi_record_fix){
		.offset = offset,
		.param = grant ? grant->param : RPI_FIX_NONE,
		.delta = grant ? (uintptr_t)tensor->data - grant->low : 0,
		.tensor = *tensor,
	};
	return true;
}

static bool add_fixes(struct rp_run *run, const struct rpi_args *given, uint32_t at)
{
	uint32_t view = 0;
	uint32_t i;

	for (i = 0; i < given->count; i++) {
		const struct rp_tensor *tensor = &given->args[i].u.tensor;

		if (given->args[i].kind == RP_ARG_SCALAR) {
			at += sizeof(struct rpi_wire_scalar);
			continue;
		}
		if (!add_fix(run, tensor, &run->views[view++],
			     at + (uint32_t)offsetof(struct rpi_wire_tensor, address)))
			return false;
		at += sizeof(struct rpi_wire_tensor);
		if (!rpi_tensor_row_major(tensor))
			at += sizeof(struct rpi_wire_strides);
	}
	return true;
}

static bool add_deps(struct rp_run *run)
{
	struct rp_recording *recording = run->recording;
	const uint32_t count = rpi_follow_count(&run->follow);
	struct rpi_dep deps[2 * RP_MAX_PEERS];
	struct rpi_record_dep *kept;
	uint32_t i;

	if (!count)
		return true;
	rpi_follow_list(&run->follow, deps);
	kept = rpi_list_append(&recording->deps, count, sizeof(*kept));
	for (i = 0; kept && i < count; i++)
		kept[i] = (struct rpi_record_dep){
			.ordinal = deps[i].seq - recording->first_seq[deps[i].peer],
			.peer = deps[i].peer,
			.loaded = deps[i].loaded,
		};
	return kept != NULL;
}

static bool has_domain(const struct rpi_args *given)
{
	uint32_t i;

	for (i = 0; i < given->count; i++)
		if (given->args[i].kind == RP_ARG_DOMAIN)
			return true;
	return false;
}

static bool add_task(struct rp_run *run, uint32_t peer, const struct rpi_task_body *body,
		     const struct rpi_args *given)
{
	struct rp_recording *recording = run->recording;
	struct rpi_record_task task = {
		.body = *body,
		.peer = peer,
		.bytes_at = recording->bytes.count,
		.bytes = (uint32_t)given->bytes,
		.fix_at = recording->fixes.count,
		.dep_at = recording->deps.count,
	};
	struct rpi_record_task *kept;
	uint8_t *bytes;

	bytes = rpi_list_append(&recording->bytes, task.bytes, 1);
	if (!bytes)
		return false;
	rpi_args_write(run, bytes, given);
	if (!add_fixes(run, given, task.bytes_at) || !add_deps(run))
		return false;
	task.fix_count = recording->fixes.count - task.fix_at;
	task.dep_count = recording->deps.count - task.dep_at;
	kept = rpi_list_append(&recording->tasks, 1, sizeof(*kept));
	if (kept)
		*kept = task;
	return kept != NULL;
}

void rpi_record_task(struct rp_run *run, uint32_t peer, const struct rpi_task_body *body,
		     const struct rpi_args *given)
{
	struct rp_recording *recording = run->recording;

	/* A domain's record is not only read when it is written down. */
	if (has_domain(given))
		rpi_record_refuse(run, "it takes a comm domain");
	if (recording->refused || recording->err)
		return;
	if (!add_task(run, peer, body, given))
		recording->err = -ENOMEM;
}
