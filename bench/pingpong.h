/* SPDX-License-Identifier: MIT */
/*
 * A message to a peer process and one back, n times: the shape of every hand-off
 * limit. One object has one peer, forked at the start and asleep between rounds,
 * so that several objects can be measured in turn with anything else.
 */
#ifndef BENCH_PINGPONG_H
#define BENCH_PINGPONG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "case.h"
#include "options.h"
#include "peer.h"

struct bench_pingpong;

struct bench_pingpong_kind {
	const char *name;
	size_t shared_bytes; /* memory of both, zeroed; 0: none */
	bool spins;	     /* has a spin idiom to choose */
	bool beside;	     /* the peer is on the parent's CPU, and they yield */

	/* Before the fork: 0, BENCH_SKIP or negative errno. After an error nothing
	 * is left, after 0 close() is called once. Both may be NULL. */
	int (*open)(struct bench_pingpong *p);
	void (*close)(struct bench_pingpong *p);
	/* After the fork, in each process. May be NULL. */
	int (*join)(struct bench_pingpong *p, enum bench_side side);
	/* Parent: round->ops exchanges, a sample of each. */
	int (*ping)(struct bench_pingpong *p, struct bench_round *round);
	/* Peer: as many. */
	int (*echo)(struct bench_pingpong *p, uint64_t ops);
};

/* The last trials of one idiom: the median round trip of each, in ns. */
#define BENCH_TRIALS 15

struct bench_pingpong {
	const struct bench_pingpong_kind *kind;
	struct bench_peer peer;
	enum bench_spin spin; /* that ping() and echo() are to use */
	uint64_t seq;	      /* exchanges so far; each process counts its own */
	void *shared;
	void *data; /* of the kind */

	/* Pause and bare, by enum bench_spin. */
	double trials[2][BENCH_TRIALS];
	size_t trial_count;
	uint64_t rounds_by[2]; /* rounds measured with each */
};

/*
 * 0, BENCH_SKIP with the reason in rp_last_error(), or negative errno. Of a kind
 * that spins both idioms, with and without a pause instruction, are tried in turn,
 * here and before each longer round, and the one with the lower median of the
 * last trials is used: a limit has to be as fast as it can be made.
 */
int bench_pingpong_start(struct bench_pingpong **out,
			 const struct bench_pingpong_kind *kind,
			 const struct bench_options *options);

/* One round, timed by the kind. */
int bench_pingpong_round(struct bench_pingpong *p, struct bench_round *round);

/* NULL is fine. */
void bench_pingpong_stop(struct bench_pingpong *p);

/* "pause", "bare" or "yield". */
const char *bench_spin_name(enum bench_spin spin);

#endif
