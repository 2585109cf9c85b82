/* SPDX-License-Identifier: MIT */
/*
 * Who used which bytes before, in the order that users come: for graphs of who follows
 * whom and why. Not for the hot path: looks at every use that is not covered by a later
 * write.
 */
#ifndef RPI_MEMORY_HISTORY_H
#define RPI_MEMORY_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "memory/view.h"

struct rpi_past {
	struct rpi_view view;
	uint64_t space; /* views of different ones share nothing */
	uint64_t user;
	uint32_t arg;
	bool write;
};

/* Why a user comes after an earlier one. */
enum rpi_reason {
	RPI_REASON_NONE = 0,
	RPI_REASON_RAW = 1,   /* reads what that one wrote */
	RPI_REASON_WAR = 2,   /* writes what that one read */
	RPI_REASON_WAW = 3,   /* writes what that one wrote */
	RPI_REASON_ORDER = 4, /* was told to */
};

typedef void (*rpi_past_fn)(void *context, const struct rpi_past *earlier,
			    const struct rpi_past *now, enum rpi_reason reason);

/* Zeroed is empty. */
struct rpi_history {
	struct rpi_list uses; /* struct rpi_past */
};

/* Tell of each earlier use by others that `now` must come after. All uses of one user
 * are asked about first, then added. */
void rpi_history_find(const struct rpi_history *history, const struct rpi_past *now,
		      rpi_past_fn tell, void *context);

/* 0, or -ENOMEM. */
int rpi_history_add(struct rpi_history *history, const struct rpi_past *now);

/* The bytes have become somebody else's: what was done with them is of no concern. */
void rpi_history_forget(struct rpi_history *history, const struct rpi_past *now);

void rpi_history_free(struct rpi_history *history);

#endif
