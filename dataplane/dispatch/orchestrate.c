/* SPDX-License-Identifier: MIT */
/* The orchestrations that threads are in. Per run: no system call, no allocation, no
 * lock. */
#include <errno.h>

#include "dispatch/plane.h"
#include "dispatch/record.h"

/* The orchestrations that this thread is in: those of other workers may submit to this
 * one, each other's inside them. */
struct orchestration {
	const struct rpi_plane *plane;
	struct rp_run *run;
	const struct orchestration *outer;
};

static _Thread_local __attribute__((tls_model("initial-exec")))
const struct orchestration *innermost;

bool rpi_plane_orchestrates(const struct rpi_plane *plane)
{
	const struct orchestration *at;

	for (at = innermost; at; at = at->outer)
		if (at->plane == plane)
			return true;
	return false;
}

void rpi_plane_flush_own(struct rpi_plane *plane)
{
	const struct orchestration *at;
	uint32_t peer;

	/* Only then are the lanes this thread's. */
	if (rpi_likely(!rpi_plane_orchestrates(plane)))
		return;
	for (at = innermost; at; at = at->outer)
		if (at->plane == plane)
			rpi_record_refuse(at->run, "it copies");
	for (peer = 0; peer < plane->peer_count; peer++)
		rpi_lane_flush(&plane->lanes[peer]);
}

int rpi_run_orchestrate(struct rp_run *run)
{
	const struct rp_program *program = run->program;
	struct rp_task task = { .entry = 0,
				.chip = 0,
				.args = run->args,
				.arg_count = program->param_count };
	const struct orchestration here = { run->plane, run, innermost };
	int err;

	if (!program->orchestrate)
		return run->bound ? rpi_run_enqueue_bound(run) : rp_run_task(run, &task);
	innermost = &here;
	err = program->orchestrate(run, run->args, program->param_count, program->user);
	innermost = here.outer;
	if (err > 0)
		return rpi_fail(
			-EINVAL,
			"rp_worker_submit: the orchestration of '%s' returned %d, "
			"expected 0 or a negative errno",
			program->name, err);
	return err;
}
