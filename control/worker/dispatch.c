/* SPDX-License-Identifier: MIT */
/* The public operations of a dispatch; the work is dataplane/dispatch/'s. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "worker/worker.h"

int rp_worker_submit(struct rp_worker *worker, struct rp_program *program,
		     const struct rp_arg *args, size_t nargs,
		     const struct rp_run_config *config, struct rp_handle *handle_out)
{
	struct rpi_ticket ticket;
	int err;

	if (rpi_unlikely(!worker || !handle_out))
		return rpi_fail(-EINVAL, "rp_worker_submit: %s NULL, expected one",
				worker ? "handle_out" : "worker");
	err = rpi_plane_submit(&worker->plane, program, args, nargs, config, true,
			       &ticket);
	if (rpi_unlikely(err))
		return err;
	handle_out->worker = worker->id;
	handle_out->run = ticket.handle;
	return 0;
}

int rp_worker_run(struct rp_worker *worker, struct rp_program *program,
		  const struct rp_arg *args, size_t nargs,
		  const struct rp_run_config *config)
{
	struct rpi_ticket ticket;
	int err;

	if (rpi_unlikely(!worker))
		return rpi_fail(-EINVAL, "rp_worker_run: worker NULL, expected one");
	err = rpi_plane_submit(&worker->plane, program, args, nargs, config, false,
			       &ticket);
	return err ? err : rpi_plane_settle(&worker->plane, &ticket);
}

int rpi_worker_run_known(struct rp_worker *worker, const struct rpi_offer *offer,
			 uint64_t begin_ns, uint64_t *wall_ns_out)
{
	struct rpi_ticket ticket;
	int err;

	err = rpi_plane_submit_known(&worker->plane, offer, &ticket);
	if (!err)
		err = rpi_plane_settle(&worker->plane, &ticket);
	if (!err && wall_ns_out)
		*wall_ns_out = rpi_now_ns() - begin_ns;
	return err;
}

int rpi_worker_submit_known(struct rp_worker *worker, struct rpi_offer *offer,
			    struct rp_handle *handle_out)
{
	struct rpi_ticket ticket;
	int err;

	offer->wants_handle = true;
	err = rpi_plane_submit_known(&worker->plane, offer, &ticket);
	if (!err)
		*handle_out = (struct rp_handle){ worker->id, ticket.handle };
	return err;
}

static int stale(const char *call)
{
	return rpi_fail(
		-ESTALE,
		"%s: no such handle, expected one from rp_worker_submit() that was "
		"not released and whose worker was not freed",
		call);
}

int rp_handle_wait(struct rp_handle handle, int64_t timeout_ns)
{
	struct rp_worker *worker = rpi_table_find(handle.worker);
	uint64_t deadline_ns = UINT64_MAX;
	int status;
	int ret;

	if (rpi_unlikely(timeout_ns < RP_WAIT_FOREVER))
		return rpi_fail(-EINVAL,
				"rp_handle_wait: timeout_ns %lld, expected 0 or more, or "
				"RP_WAIT_FOREVER",
				(long long)timeout_ns);
	if (rpi_unlikely(!worker))
		return stale("rp_handle_wait");
	if (timeout_ns >= 0)
		deadline_ns = timeout_ns ? rpi_now_ns() + (uint64_t)timeout_ns : 0;
	ret = rpi_plane_wait_handle(&worker->plane, handle.run, deadline_ns, &status);
	if (rpi_likely(ret == 1))
		return status;
	if (ret == -EDEADLK)
		return ret;
	return ret ? stale("rp_handle_wait") : -ETIMEDOUT;
}

int rp_handle_done(struct rp_handle handle)
{
	struct rp_worker *worker = rpi_table_find(handle.worker);
	struct rpi_handle_slot *slot = NULL;
	uint32_t idx;

	if (worker)
		slot = rpi_handles_find(&worker->plane.handles, handle.run, &idx);
	if (!slot)
		return stale("rp_handle_done");
	if (rpi_handle_is_done(slot))
		return 1;
	if (rpi_handle_is_queued(slot))
		return 0;
	rpi_run_poll(&worker->plane.runs[slot->run_idx], slot->run_seq);
	return rpi_handle_is_done(slot);
}

int rp_handle_release(struct rp_handle handle)
{
	struct rp_worker *worker = rpi_table_find(handle.worker);

	if (!worker || rpi_handles_release(&worker->plane.handles, handle.run))
		return stale("rp_handle_release");
	return 0;
}
