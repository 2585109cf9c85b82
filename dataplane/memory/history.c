/* SPDX-License-Identifier: MIT */
#include "memory/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/overlap.h"

static bool meet(const struct rpi_past *a, const struct rpi_past *b)
{
	return a->space == b->space &&
	       rpi_view_overlap(&a->view, &b->view) != RPI_OVERLAP_NONE;
}

static enum rpi_reason reason_of(const struct rpi_past *earlier,
				 const struct rpi_past *now)
{
	if (!earlier->write)
		return now->write ? RPI_REASON_WAR : RPI_REASON_NONE;
	return now->write ? RPI_REASON_WAW : RPI_REASON_RAW;
}

void rpi_history_find(const struct rpi_history *history, const struct rpi_past *now,
		      rpi_past_fn tell, void *context)
{
	const struct rpi_past *uses = history->uses.at;
	uint32_t i;

	for (i = 0; i < history->uses.count; i++) {
		enum rpi_reason reason = reason_of(&uses[i], now);

		if (reason != RPI_REASON_NONE && uses[i].user != now->user &&
		    meet(&uses[i], now))
			tell(context, &uses[i], now, reason);
	}
}

/* Take out those that a predicate says so of. */
static void sift(struct rpi_history *history, const struct rpi_past *now,
		 bool (*gone)(const struct rpi_past *use, const struct rpi_past *now))
{
	struct rpi_past *uses = history->uses.at;
	uint32_t kept = 0, i;

	for (i = 0; i < history->uses.count; i++)
		if (!gone(&uses[i], now))
			uses[kept++] = uses[i];
	history->uses.count = kept;
}

/* Whoever comes after the use comes after this write too. */
static bool covered(const struct rpi_past *use, const struct rpi_past *now)
{
	return use->space == now->space && rpi_view_covers(&now->view, &use->view);
}

int rpi_history_add(struct rpi_history *history, const struct rpi_past *now)
{
	struct rpi_past *kept;

	if (now->write)
		sift(history, now, covered);
	kept = rpi_list_append(&history->uses, 1, sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	*kept = *now;
	return 0;
}

void rpi_history_forget(struct rpi_history *history, const struct rpi_past *now)
{
	sift(history, now, meet);
}

void rpi_history_free(struct rpi_history *history)
{
	free(history->uses.at);
	memset(history, 0, sizeof(*history));
}
