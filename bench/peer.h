/* SPDX-License-Identifier: MIT */
/*
 * A process at the other end of a hand-off: forked once, pinned, asleep between
 * rounds so that it takes nothing from what is measured meanwhile, and gone on
 * every way out of rpbench.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cpu.h"

struct bench_peer_words; /* shared by both */

struct bench_peer {
	const char *name;
	pid_t pid; /* 0: none */
	uint32_t round_seq;
	struct bench_peer_words *words;
	struct bench_peer *next; /* of all that live */
};

/* How a wait spends its time. */
enum bench_spin {
	BENCH_SPIN_PAUSE,
	BENCH_SPIN_BARE,
	BENCH_SPIN_YIELD
};

/* In the peer. Negative errno ends the process, and the parent hears of it. */
struct bench_peer_ops {
	int (*join)(void *data); /* once, after the fork; may be NULL */
	int (*serve)(void *data, uint64_t ops, enum bench_spin spin);
};

/*
 * Fork and wait until the peer has joined. `data` is the peer's copy of it.
 * The struct must stay where it is until bench_peer_stop().
 */
int bench_peer_start(struct bench_peer *peer, const char *name, int cpu,
		     const struct bench_peer_ops *ops, void *data);

/* Have serve() called, and return when the peer is about to. */
int bench_peer_begin(struct bench_peer *peer, uint64_t ops, enum bench_spin spin);
/* Wait until serve() has returned. */
int bench_peer_end(struct bench_peer *peer);

/* Kill and reap; safe on one that never started, and twice. */
void bench_peer_stop(struct bench_peer *peer);
/* The same for all that are left. Also runs at exit(). */
void bench_peers_end(void);

/*
 * 0 while the peer lives, else -EOWNERDEAD with a text. To be called now and then
 * by a wait in the parent; between begin and end a signal every second makes
 * blocking calls return -EINTR for this. NULL, as in the peer itself: 0.
 */
int bench_peer_check(struct bench_peer *peer);

/*
 * Wait for a word to have a value, with an acquire load. The idiom is looked at
 * inside the loop: the branch is always the same and costs less than the load.
 */
static inline int bench_spin_until(const _Atomic uint64_t *word, uint64_t want,
				   enum bench_spin spin, struct bench_peer *peer)
{
	uint32_t looks = 0;

	while (atomic_load_explicit(word, memory_order_acquire) != want) {
		if (spin == BENCH_SPIN_PAUSE)
			rpi_cpu_pause();
		else if (spin == BENCH_SPIN_YIELD)
			sched_yield();
		/* About 10 ms of bare looks, so it costs nothing. */
		if (rpi_unlikely(!(++looks & 0x1fffff))) {
			int err = bench_peer_check(peer);

			if (err)
				return err;
		}
	}
	return 0;
}

#endif
