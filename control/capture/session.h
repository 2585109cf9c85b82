/* SPDX-License-Identifier: MIT */
/*
 * One captured dispatch, from its submit to its files, and what a kind of capture (a
 * collector) has to do.
 *
 * A collector is a table in collectors.c: which flag it is for, what it wants recorded,
 * and the function that writes its files when the run is over. For what it wants of the
 * processes there are the rings of spans (dataplane/trace/span.h): it adds names to
 * trace/names.h under a bit of its own (RPI_TRACE_*, listed in RPI_TRACE_SPANS and in
 * RPI_TRACE_BUILT), the process records while rpi_trace_wants() that bit, and the records
 * stand in the session's reading when `write` is called. Names whose bit nobody but a
 * capture turns on are kept away from those who have attached. The chip runtime has the
 * bits of RPI_TRACE_NOTES at hand as runtime->noted, which begins and ends with the task:
 * a bit that is listed there costs no branch more. What of the configuration a process
 * must see beyond a bit is in its frame (frame->config.capture, but output_dir is a
 * pointer of the caller's process).
 *
 * All calls are made in the thread that dispatches, under admission: no other dispatch is
 * under way, and the worker's tables don't change.
 */
#ifndef RPI_CAPTURE_SESSION_H
#define RPI_CAPTURE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/capture.h>

#include "capture/place.h"
#include "capture/reader.h"
#include "dispatch/capture.h"
#include "trace/label.h"

#define RPI_PASSES_MAX 2

/* A run of the dispatch. */
struct rpi_capture_run {
	uint64_t run;			  /* rp_run_id() */
	uint64_t first_seq[RP_MAX_PEERS]; /* of its tasks, on each process */
	struct rpi_reading reading;	  /* sorted once the run is over */
	/* The clocks: ns of a tick of its records. */
	struct rpi_scale scale;
};

struct rpi_session {
	struct rp_worker *worker;
	const struct rpi_offer *offer;
	struct rp_capture asked;
	struct rpi_place place;
	struct rpi_labels labels;
	/* Tasks as the orchestration enqueued them, in the first or only run. */
	struct rpi_notes notes;
	/* How many runs there are to be, which one is under way or was the last (from 1),
	 * and what is known of each. */
	uint32_t passes, pass;
	struct rpi_capture_run runs[RPI_PASSES_MAX];
	int32_t pids[RP_MAX_PEERS + 1]; /* by peer; the last one is the caller's */
	struct rpi_dump *dump;		/* dump_args.c; NULL */
	/* How the last run ended, and its line. */
	int status;
	char text[RPI_ERROR_BYTES];
};

/* The run that is timed: the last there was; and the one that says what follows what. */
static inline struct rpi_capture_run *rpi_session_timed(struct rpi_session *session)
{
	return &session->runs[session->pass - 1];
}

static inline struct rpi_capture_run *rpi_session_graph(struct rpi_session *session)
{
	return &session->runs[0];
}

struct rpi_collector {
	bool (*on)(const struct rp_capture *asked);

	/* Whether the machine has what it takes: 0, or -EOPNOTSUPP with an error line of
	 * `call`. Before anything is made. NULL: it does. */
	int (*check)(const char *call);

	/* Bits of RPI_TRACE_* to turn on during run number `pass` (from 1) of `passes`.
	 * Of two the first is for graphs, the last for times. */
	uint32_t (*wants)(const struct rp_capture *asked, uint32_t pass, uint32_t passes);

	/* Before each run's first task, after the bits are on. 0, or a negative errno
	 * with an error line: the dispatch is refused. NULL: nothing to do. */
	int (*begin)(struct rpi_session *session);

	/* When a run is over that `begin` was called for, or that was to follow. NULL:
	 * nothing to do. */
	void (*end)(struct rpi_session *session);

	/* When the last run is over, however it ended: write the files. 0, or a negative
	 * errno with an error line. */
	int (*write)(struct rpi_session *session);

	/* Give up what it has of the session. NULL: nothing. */
	void (*release)(struct rpi_session *session);

	/* Names of its files, as for fnmatch(); NULL ends them. What matches may be
	 * removed when a later capture cleans up. */
	const char *const *files;
};

/* collectors.c: all there are. */
extern const struct rpi_collector *const rpi_collectors[];
extern const uint32_t rpi_collector_count;

/* plane->captured; see there. */
int rpi_session_run(void *context, const struct rpi_offer *offer, bool *accepted_out);

/* Whether the machine can capture what rpi_capture_check() has passed: 0, -EOPNOTSUPP. */
int rpi_session_check(const char *call, const struct rp_capture *asked);

/* -ENOMEM, with an error line. */
int rpi_session_no_memory(void);

/* Processes of the worker. */
uint32_t rpi_session_peers(const struct rpi_session *session);

/* "chip", "callback" or "caller", and its number among those. */
const char *rpi_session_kind(const struct rpi_session *session, uint32_t peer,
			     uint32_t *number_out);

#endif
