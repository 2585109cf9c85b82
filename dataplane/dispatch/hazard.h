/* SPDX-License-Identifier: MIT */
/*
 * What the tasks of one run read and write, so that each new task learns which
 * tasks of other processes it must follow. Lives in the parent, one per frame,
 * used by the submitting thread alone. Tasks of one process need no edge: they
 * run in order.
 */
#ifndef RPI_DISPATCH_HAZARD_H
#define RPI_DISPATCH_HAZARD_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/program.h>

#include "dispatch/wire.h"
#include "memory/view.h"

/* The bytes between the first and the last of a view; scanned for every new
 * access, so kept apart from the rest. */
struct rpi_extent {
	uintptr_t low, high; /* [low, high) */
};

struct rpi_access {
	struct rpi_view view;
	uint64_t seq;
	uint32_t peer;
	bool write;
};

struct rpi_hazards {
	struct rpi_extent *extents;
	struct rpi_access *accesses; /* same index */
	uint32_t count;
	uint32_t capacity;
	/* Peers below this take a copy of what they read before they work; the others
	 * (callbacks, and everybody with unified memory) hold it until they end. */
	uint32_t copying_peers;
};

/* Newest task per peer that a task must follow; 0: none. */
struct rpi_follow {
	uint64_t peers_done;   /* bit set: done_seq is meaningful */
	uint64_t peers_loaded; /* likewise loaded_seq */
	uint64_t done_seq[RP_MAX_PEERS];
	uint64_t loaded_seq[RP_MAX_PEERS];
};

void rpi_hazards_init(struct rpi_hazards *hazards, uint32_t copying_peers);
void rpi_hazards_fini(struct rpi_hazards *hazards);

/* Forget the run before; keeps its memory, so that a steady state allocates
 * nothing. */
void rpi_hazards_reset(struct rpi_hazards *hazards);

/*
 * Note that task `seq` of `peer` accesses `view`, and add to `follow` whom it
 * must follow. Returns 0 or -ENOMEM.
 */
int rpi_hazards_add(struct rpi_hazards *hazards, const struct rpi_view *view, bool write,
		    uint32_t peer, uint64_t seq, struct rpi_follow *follow);

void rpi_follow_reset(struct rpi_follow *follow);

/* The task must follow the end of task `seq` of `peer`. */
void rpi_follow_done(struct rpi_follow *follow, uint32_t peer, uint64_t seq);

/* Or that it has taken its inputs. */
void rpi_follow_loaded(struct rpi_follow *follow, uint32_t peer, uint64_t seq);

static inline bool rpi_follow_none(const struct rpi_follow *follow)
{
	return !(follow->peers_done | follow->peers_loaded);
}

/* How many dependencies `follow` makes, and their list. */
uint32_t rpi_follow_count(const struct rpi_follow *follow);
void rpi_follow_list(const struct rpi_follow *follow, struct rpi_dep *deps_out);

#endif
