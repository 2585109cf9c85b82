/* SPDX-License-Identifier: MIT */
/* The tasks of a captured run, as far as their processes have recorded them. */
#ifndef RPI_CAPTURE_TASKS_H
#define RPI_CAPTURE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/session.h"

struct rpi_cap_task {
	uint32_t peer;
	uint64_t seq;
	const struct rpi_label *label; /* NULL: the record names none that there is */
	uint64_t begin, end, thread;
	bool whole; /* it came to its end; otherwise these are of what there is of it */
	const struct rpi_seen *seen; /* its records */
	size_t seen_count;
};

/* Where a noted task stands among those of its process. */
struct rpi_cap_place {
	uint32_t peer;
	uint32_t ordinal;
	uint64_t seq;
};

struct rpi_cap_tasks {
	struct rpi_list tasks;	       /* struct rpi_cap_task; by peer and number */
	struct rpi_list places;	       /* struct rpi_cap_place; likewise */
	uint32_t at[RP_MAX_PEERS + 1]; /* the first of each peer in `tasks` */
	/* The noted run and the timed one are two, which had the same tasks as far as the
	 * timed one came. */
	bool matches;
};

/* Whether this is the record of a task from its beginning to its end. */
bool rpi_cap_is_whole(const struct rpi_seen *seen);

/* Those of the timed run. Resets of windows are none. 0, or -ENOMEM with an error line.
 */
int rpi_cap_tasks_collect(struct rpi_session *session, struct rpi_cap_tasks *out);
void rpi_cap_tasks_free(struct rpi_cap_tasks *tasks);

/* The one that was number `seq` of the process in the noted run; NULL. */
const struct rpi_cap_task *rpi_cap_task_find(const struct rpi_cap_tasks *tasks,
					     uint32_t peer, uint64_t seq);

#endif
