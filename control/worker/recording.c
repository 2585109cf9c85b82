/* SPDX-License-Identifier: MIT */
/* Recordings and their replays; the work is dataplane/dispatch/'s. */
#include <ringplane/recording.h>

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "dispatch/record.h"
#include "program/program.h"
#include "worker/recording.h"

/* The run has ended well: is what was kept of it good for a replay? */
static int judge(const char *call, const struct rp_recording *recording)
{
	if (recording->err)
		return rpi_fail(recording->err, "%s: no memory to keep the tasks of '%s'",
				call, recording->program->name);
	if (recording->refused)
		return rpi_fail(-EOPNOTSUPP,
				"%s: the orchestration of '%s' can't be replayed: %s",
				call, recording->program->name, recording->refused);
	return 0;
}

int rpi_worker_record(struct rp_worker *worker, const char *call, struct rpi_offer *offer,
		      struct rp_recording **recording_out)
{
	struct rp_recording *recording;
	int err;

	if (!recording_out)
		return rpi_fail(-EINVAL, "%s: recording_out NULL, expected one", call);
	if (worker->plane.queue)
		return rpi_fail(-EOPNOTSUPP,
				"%s: the worker has a dispatcher, whose orchestrations "
				"are not recorded",
				call);
	recording = malloc(sizeof(*recording));
	if (!recording || rpi_recording_begin(recording, &worker->plane, offer->program,
					      offer->program_idx)) {
		free(recording);
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	}
	recording->worker_id = worker->id;
	offer->record = recording;
	err = rpi_worker_run_known(worker, offer, 0, NULL);
	if (!err)
		err = judge(call, recording);
	if (err) {
		rpi_recording_release(recording);
		free(recording);
		return err;
	}
	rpi_program_hold(recording->program);
	*recording_out = recording;
	return 0;
}

int rp_worker_record(struct rp_worker *worker, struct rp_program *program,
		     const struct rp_arg *args, size_t nargs,
		     const struct rp_run_config *config,
		     struct rp_recording **recording_out)
{
	struct rpi_offer offer = { .args = args, .nargs = nargs };
	int err;

	if (!worker)
		return rpi_fail(-EINVAL, "rp_worker_record: worker NULL, expected one");
	err = rpi_plane_check_submit(&worker->plane, program, config, &offer.program_idx);
	if (err)
		return err;
	offer.program = worker->plane.programs[offer.program_idx];
	offer.config = config ? config : offer.program->config;
	return rpi_worker_record(worker, "rp_worker_record", &offer, recording_out);
}

/* A replay, and the worker that it goes to. */
static int offer_replay(const char *call, const struct rp_recording *recording,
			const struct rp_arg *args, size_t nargs,
			const struct rp_run_config *config, struct rpi_offer *offer_out,
			struct rp_worker **worker_out)
{
	if (rpi_unlikely(!recording))
		return rpi_fail(-EINVAL, "%s: recording NULL, expected one", call);
	*worker_out = rpi_table_find(recording->worker_id);
	if (rpi_unlikely(!*worker_out))
		return rpi_fail(-ESTALE,
				"%s: the worker of the recording of '%s' was freed", call,
				recording->program->name);
	*offer_out = (struct rpi_offer){ .program = recording->program,
					 .program_idx = recording->program_idx,
					 .args = args,
					 .nargs = nargs,
					 .config = config ? config
							  : recording->program->config,
					 .replay = recording };
	return 0;
}

int rp_recording_run(struct rp_recording *recording, const struct rp_arg *args,
		     size_t nargs, const struct rp_run_config *config,
		     uint64_t *wall_ns_out)
{
	const uint64_t begin_ns = wall_ns_out ? rpi_now_ns() : 0;
	struct rp_worker *worker;
	struct rpi_offer offer;
	int err;

	err = offer_replay("rp_recording_run", recording, args, nargs, config, &offer,
			   &worker);
	return err ? err : rpi_worker_run_known(worker, &offer, begin_ns, wall_ns_out);
}

int rp_recording_submit(struct rp_recording *recording, const struct rp_arg *args,
			size_t nargs, const struct rp_run_config *config,
			struct rp_handle *handle_out)
{
	struct rp_worker *worker;
	struct rpi_offer offer;
	int err;

	if (rpi_unlikely(!handle_out))
		return rpi_fail(-EINVAL,
				"rp_recording_submit: handle_out NULL, expected one");
	err = offer_replay("rp_recording_submit", recording, args, nargs, config, &offer,
			   &worker);
	return err ? err : rpi_worker_submit_known(worker, &offer, handle_out);
}

size_t rp_recording_task_count(const struct rp_recording *recording)
{
	return recording ? recording->tasks.count : 0;
}

void rp_recording_free(struct rp_recording *recording)
{
	if (!recording)
		return;
	rp_program_free(recording->program);
	rpi_recording_release(recording);
	free(recording);
}
