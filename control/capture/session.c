/* SPDX-License-Identifier: MIT */
#include "capture/session.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "capture/keep.h"
#include "worker/worker.h"

int rpi_session_no_memory(void)
{
	return rpi_fail(-ENOMEM, "rp_worker_submit: capture: no memory");
}

uint32_t rpi_session_peers(const struct rpi_session *session)
{
	return session->worker->plane.peer_count;
}

const char *rpi_session_kind(const struct rpi_session *session, uint32_t peer,
			     uint32_t *number_out)
{
	const struct rpi_plane *plane = &session->worker->plane;

	*number_out = peer < plane->chip_count ? peer : peer - plane->chip_count;
	if (peer < plane->chip_count)
		return "chip";
	*number_out = peer < plane->peer_count ? peer - plane->chip_count : 0;
	return peer < plane->peer_count ? "callback" : "caller";
}

int rpi_session_check(const char *call, const struct rp_capture *asked)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < rpi_collector_count; i++)
		if (rpi_collectors[i]->on(asked) && rpi_collectors[i]->check)
			err = rpi_collectors[i]->check(call);
	return err;
}

/* --- Runs ----------------------------------------------------------------- */

static uint32_t wanted(const struct rpi_session *session)
{
	uint32_t wants = 0, i;

	for (i = 0; i < rpi_collector_count; i++)
		if (rpi_collectors[i]->on(&session->asked))
			wants |= rpi_collectors[i]->wants(&session->asked, session->pass,
							  session->passes);
	return wants & RPI_TRACE_BUILT;
}

static int begin_all(struct rpi_session *session)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < rpi_collector_count; i++)
		if (rpi_collectors[i]->on(&session->asked) && rpi_collectors[i]->begin)
			err = rpi_collectors[i]->begin(session);
	return err;
}

static void end_all(struct rpi_session *session)
{
	uint32_t i;

	for (i = 0; i < rpi_collector_count; i++)
		if (rpi_collectors[i]->on(&session->asked) && rpi_collectors[i]->end)
			rpi_collectors[i]->end(session);
}

/* One run, and what was recorded of it. *ran_out: it has had its number. */
static int run_once(struct rpi_session *session, struct rpi_pass *pass, bool *ran_out)
{
	struct rp_worker *worker = session->worker;
	struct rpi_capture_run *run = &session->runs[session->pass - 1];
	struct rpi_reader reader;
	uint32_t peer;
	int err;

	run->run = worker->plane.next_run_seq;
	for (peer = 0; peer < worker->plane.peer_count; peer++)
		run->first_seq[peer] = worker->plane.lanes[peer].next_seq;
	*ran_out = false;
	err = rpi_reader_start(&reader, worker, run->run, &run->reading);
	if (err)
		return err;
	rpi_trace_want_captured(worker, wanted(session));
	err = begin_all(session);
	if (!err)
		err = rpi_plane_pass(&worker->plane, session->offer, pass);
	rpi_trace_want_captured(worker, 0);
	end_all(session);
	rpi_reader_stop(&reader);
	rpi_reading_sort(&run->reading);
	rpi_scale_init(&run->scale, worker);
	*ran_out = worker->plane.next_run_seq > run->run;
	return err;
}

static void note_outcome(struct rpi_session *session, int status)
{
	session->status = status;
	rpi_format(session->text, sizeof(session->text), "%s",
		   status ? rp_last_error() : "");
}

/* All runs. *ran_out: there is something to be written. Returns the outcome. */
static int run_all(struct rpi_session *session, bool *accepted_out, bool *ran_out)
{
	struct rpi_keep keep = { 0 };
	int err = 0;

	*ran_out = false;
	if (session->passes > 1)
		err = rpi_keep_take(&keep, &session->worker->plane, session->offer);
	while (!err && session->pass < session->passes) {
		struct rpi_pass pass = {
			.number = session->passes > 1 ? session->pass + 1 : 0,
			.notes = session->pass ? NULL : &session->notes,
		};
		bool ran;

		if (session->pass)
			rpi_keep_restore(&keep);
		session->pass++;
		err = run_once(session, &pass, &ran);
		note_outcome(session, err);
		*accepted_out = pass.accepted;
		*ran_out |= ran;
		/* It was the one before that was the last. */
		if (!ran && session->pass > 1)
			session->pass--;
	}
	rpi_keep_free(&keep);
	return err;
}

/* --- The dispatch --------------------------------------------------------- */

static void fill_pids(struct rpi_session *session)
{
	struct rp_worker *worker = session->worker;
	uint32_t peer;

	for (peer = 0; peer < worker->plane.peer_count; peer++)
		session->pids[peer] = rp_worker_pid(worker, peer);
	session->pids[peer] = (int32_t)getpid();
}

static int open_session(struct rpi_session *session)
{
	struct rp_worker *worker = session->worker;
	int err;

	err = rpi_session_check("rp_worker_submit", &session->asked);
	if (err)
		return err;
	if (rpi_labels_create(&session->labels, worker))
		return rpi_session_no_memory();
	fill_pids(session);
	err = rpi_place_open(&session->place, worker, session->asked.output_dir,
			     worker->plane.next_run_seq);
	if (err)
		rpi_labels_free(&session->labels);
	return err;
}

static void close_session(struct rpi_session *session, bool keep)
{
	uint32_t i;

	for (i = 0; i < rpi_collector_count; i++)
		if (rpi_collectors[i]->release)
			rpi_collectors[i]->release(session);
	rpi_place_close(&session->place, keep);
	rpi_labels_free(&session->labels);
	rpi_notes_free(&session->notes);
	for (i = 0; i < RPI_PASSES_MAX; i++)
		rpi_reading_free(&session->runs[i].reading);
}

/* All collectors write, whatever becomes of the others; the first error is told. */
static int write_all(struct rpi_session *session)
{
	char text[RPI_ERROR_BYTES];
	int err = 0;
	uint32_t i;

	for (i = 0; i < rpi_collector_count; i++) {
		int own;

		if (!rpi_collectors[i]->on(&session->asked))
			continue;
		own = rpi_collectors[i]->write(session);
		if (own && !err) {
			err = own;
			rpi_format(text, sizeof(text), "%s", rp_last_error());
		}
	}
	if (err)
		rpi_error_set(text);
	return err;
}

/* A program of several chips, whose times are asked for. */
static bool is_distributed(const struct rpi_session *session)
{
	return session->asked.enable_chip_swimlane &&
	       session->worker->plane.chip_count > 1 &&
	       session->offer->program->orchestrate;
}

int rpi_session_run(void *context, const struct rpi_offer *offer, bool *accepted_out)
{
	struct rpi_session session = { .worker = context,
				       .offer = offer,
				       .asked = *offer->capture };
	int err, written = 0;
	bool ran;

	*accepted_out = false;
	session.passes = is_distributed(&session) ? 2 : 1;
	err = open_session(&session);
	if (err)
		return err;
	err = run_all(&session, accepted_out, &ran);
	if (ran)
		written = write_all(&session);
	close_session(&session, ran);
	if (err && session.text[0])
		rpi_error_set(session.text);
	return err ? err : written;
}
