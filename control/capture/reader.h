/* SPDX-License-Identifier: MIT */
/*
 * A second reader of the rings of spans, beside whoever has attached: for the time of one
 * run it takes all that is recorded about that run, in a thread of its own, so that the
 * rings need not hold it all.
 */
#ifndef RPI_CAPTURE_READER_H
#define RPI_CAPTURE_READER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <ringplane/worker.h>

#include "base/list.h"
#include "trace/span.h"

/* A record, as its process wrote it: to be bounded before it is used as an index. */
struct rpi_seen {
	struct rpi_trace_copy copy;
	uint32_t peer; /* who wrote it; the number of peers: the caller's process */
};

static inline uint32_t rpi_seen_name(const struct rpi_seen *seen)
{
	return seen->copy.what & UINT16_MAX;
}

struct rpi_reading {
	struct rpi_list seen; /* struct rpi_seen; see rpi_reading_sort() */
	uint64_t dropped;     /* overwritten before they were read, also of other runs */
	int err;	      /* -ENOMEM: what came after is missing */
};

struct rpi_reader {
	struct rp_worker *worker;
	uint64_t run; /* rp_run_id() */
	struct rpi_reading *reading;
	uint64_t at[RP_MAX_PEERS + 1][RPI_TRACE_RINGS];
	pthread_t thread;
	_Atomic uint32_t stop;
};

/* From here on. 0, or why there is no thread, with an error line. */
int rpi_reader_start(struct rpi_reader *reader, struct rp_worker *worker, uint64_t run,
		     struct rpi_reading *reading);

/* The run is over: take the rest. */
void rpi_reader_stop(struct rpi_reader *reader);

/* By process, then task, then beginning; what begins at once, the longer first. */
void rpi_reading_sort(struct rpi_reading *reading);

/* Of a sorted one: where the records of the next task begin, behind those at `at`. */
static inline uint32_t rpi_reading_next(const struct rpi_reading *reading, uint32_t at)
{
	const struct rpi_seen *seen = reading->seen.at;
	const struct rpi_seen *first = &seen[at];

	while (at < reading->seen.count && seen[at].peer == first->peer &&
	       seen[at].copy.task_seq == first->copy.task_seq)
		at++;
	return at;
}

void rpi_reading_free(struct rpi_reading *reading);

#endif
