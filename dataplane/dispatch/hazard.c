/* SPDX-License-Identifier: MIT */
/*
 * Invariant: every byte's last writer, and every reader since, is in the list or
 * is followed by an access that is (an entry is dropped only when a newer one
 * covers it and comes after it). The list therefore stays as long as the
 * distinct regions that a run touches, not as its number of tasks.
 *
 * Per task: no system call, no lock; allocates only when a run touches more
 * regions than any run of this frame before.
 */
#include "dispatch/hazard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/overlap.h"

void rpi_hazards_init(struct rpi_hazards *hazards, uint32_t copying_peers)
{
	memset(hazards, 0, sizeof(*hazards));
	hazards->copying_peers = copying_peers;
}

void rpi_hazards_fini(struct rpi_hazards *hazards)
{
	free(hazards->extents);
	free(hazards->accesses);
	memset(hazards, 0, sizeof(*hazards));
}

void rpi_hazards_reset(struct rpi_hazards *hazards)
{
	hazards->count = 0;
}

void rpi_follow_reset(struct rpi_follow *follow)
{
	follow->peers_done = 0;
	follow->peers_loaded = 0;
}

static void follow_seq(uint64_t *set, uint64_t *seqs, uint32_t peer, uint64_t seq)
{
	uint64_t bit = UINT64_C(1) << peer;

	if (!(*set & bit) || seqs[peer] < seq)
		seqs[peer] = seq;
	*set |= bit;
}

void rpi_follow_done(struct rpi_follow *follow, uint32_t peer, uint64_t seq)
{
	follow_seq(&follow->peers_done, follow->done_seq, peer, seq);
}

void rpi_follow_loaded(struct rpi_follow *follow, uint32_t peer, uint64_t seq)
{
	follow_seq(&follow->peers_loaded, follow->loaded_seq, peer, seq);
}

static int grow(struct rpi_hazards *hazards)
{
	uint32_t capacity = hazards->capacity ? hazards->capacity * 2 : 64;
	struct rpi_extent *extents;
	struct rpi_access *accesses;

	extents = realloc(hazards->extents, capacity * sizeof(*extents));
	if (extents)
		hazards->extents = extents;
	accesses = realloc(hazards->accesses, capacity * sizeof(*accesses));
	if (accesses)
		hazards->accesses = accesses;
	if (!extents || !accesses)
		return rpi_fail(-ENOMEM, "rp_run_task: no memory to track %u accesses",
				capacity);
	hazards->capacity = capacity;
	return 0;
}

static void drop(struct rpi_hazards *hazards, uint32_t idx)
{
	hazards->count--;
	hazards->extents[idx] = hazards->extents[hazards->count];
	hazards->accesses[idx] = hazards->accesses[hazards->count];
}

/* A new access against an old one that shares a byte with it. */
static void follow_access(const struct rpi_hazards *hazards, const struct rpi_access *old,
			  bool write, uint32_t peer, struct rpi_follow *follow)
{
	if (old->peer == peer || (!old->write && !write))
		return;
	/* A reader with a copy of its own is done with the memory once it has taken
	 * its inputs; waiting for its end could wait for a peer that waits for us. */
	if (!old->write && old->peer < hazards->copying_peers)
		follow_seq(&follow->peers_loaded, follow->loaded_seq, old->peer,
			   old->seq);
	else
		follow_seq(&follow->peers_done, follow->done_seq, old->peer, old->seq);
}

/* Whether the new access makes the old one's entry needless. A write comes after
 * everything it covers; a read replaces an earlier read of the same process. */
static bool replaces(const struct rpi_access *old, const struct rpi_view *view,
		     bool write, uint32_t peer)
{
	if (!write && (old->write || old->peer != peer))
		return false;
	return rpi_view_covers(view, &old->view);
}

int rpi_hazards_add(struct rpi_hazards *hazards, const struct rpi_view *view, bool write,
		    uint32_t peer, uint64_t seq, struct rpi_follow *follow)
{
	struct rpi_extent extent;
	uint32_t idx = 0;
	int err;

	rpi_view_extent(view, &extent.low, &extent.high);
	while (idx < hazards->count) {
		const struct rpi_access *old = &hazards->accesses[idx];

		if (hazards->extents[idx].low >= extent.high ||
		    hazards->extents[idx].high <= extent.low ||
		    rpi_view_overlap(view, &old->view) == RPI_OVERLAP_NONE) {
			idx++;
			continue;
		}
		follow_access(hazards, old, write, peer, follow);
		/* An old read that waits for "loaded" only must not vanish behind a
		 * write of another process before that write's own end covers it: the
		 * write follows it, and whoever follows the write comes later still. */
		if (replaces(old, view, write, peer))
			drop(hazards, idx);
		else
			idx++;
	}
	if (hazards->count == hazards->capacity) {
		err = grow(hazards);
		if (err)
			return err;
	}
	hazards->extents[hazards->count] = extent;
	hazards->accesses[hazards->count] = (struct rpi_access){
		.view = *view, .seq = seq, .peer = peer, .write = write
	};
	hazards->count++;
	return 0;
}

uint32_t rpi_follow_count(const struct rpi_follow *follow)
{
	return (uint32_t)(__builtin_popcountll(follow->peers_done) +
			  __builtin_popcountll(follow->peers_loaded));
}

static struct rpi_dep *list_set(uint64_t set, const uint64_t *seqs, uint32_t loaded,
				struct rpi_dep *out)
{
	while (set) {
		uint32_t peer = (uint32_t)__builtin_ctzll(set);

		set &= set - 1;
		*out++ = (struct rpi_dep){ .seq = seqs[peer],
					   .peer = peer,
					   .loaded = loaded };
	}
	return out;
}

void rpi_follow_list(const struct rpi_follow *follow, struct rpi_dep *deps_out)
{
	deps_out = list_set(follow->peers_done, follow->done_seq, 0, deps_out);
	list_set(follow->peers_loaded, follow->loaded_seq, 1, deps_out);
}
