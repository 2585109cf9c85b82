/* SPDX-License-Identifier: MIT */
/*
 * One cache line to the other core and one back: what any hand-off must cost.
 * Inside a round: no system call, no allocation.
 *
 * Where a line has its home in the shared cache decides up to a third of what it
 * costs, and that home is a matter of its physical address, that is, of luck. So
 * the exchange moves on to another place, every PLACE_OPS exchanges, and the median
 * is that of a usual line instead of whatever this process happened to get.
 *
 * Memory order. Each site below names the edge it is an end of.
 *   E1 ping  parent writes the payload -> ping_seq store-release
 *            ping_seq load-acquire     -> peer reads the payload
 *   E2 pong  peer writes the payload   -> pong_seq store-release
 *            pong_seq load-acquire     -> parent reads the payload
 * Invariant: pong_seq <= ping_seq <= pong_seq + 1; one writer per word.
 */
#include "limit.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "clock.h"

#define PAYLOAD_WORDS 8

/* Odd, so that what alternates between rounds meets every place. */
#define PLACES	    31
#define PLACE_BYTES 4096
#define PLACE_OPS   2048

/* A payload lies on a line of its own, apart from its flag's pair of lines. */
struct line_words {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t ping_seq; /* E1 */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t pong_seq; /* E2 */
	_Alignas(RPI_SHARE_ALIGN) uint64_t ping_payload[PAYLOAD_WORDS];
	_Alignas(RPI_SHARE_ALIGN) uint64_t pong_payload[PAYLOAD_WORDS];
	unsigned char pad[PLACE_BYTES - 4 * RPI_SHARE_ALIGN];
};

static_assert(offsetof(struct line_words, pong_seq) == RPI_SHARE_ALIGN,
	      "each writer owns whole lines");
static_assert(sizeof(uint64_t[PAYLOAD_WORDS]) == RPI_CACHE_LINE,
	      "the payload is one line");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2,
	      "only lock-free atomics work across processes");

static_assert(sizeof(struct line_words) == PLACE_BYTES, "each place has its own page");

/* Both sides count alike, so both know where exchange `seq` takes place. */
static inline struct line_words *place(const struct bench_pingpong *p, uint64_t seq)
{
	return (struct line_words *)p->shared + seq / PLACE_OPS % PLACES;
}

static int line_ping(struct bench_pingpong *p, struct bench_round *round)
{
	enum bench_spin spin = p->spin;
	uint64_t base = p->seq, seq = base, before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		struct line_words *words = place(p, ++seq);
		int err;

		atomic_store_explicit(&words->ping_seq, seq,
				      memory_order_release);		       /* E1 */
		err = bench_spin_until(&words->pong_seq, seq, spin, &p->peer); /* E2 */
		if (err)
			return err;
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	p->seq = seq;
	round->work += seq - base;
	return 0;
}

static int line_echo(struct bench_pingpong *p, uint64_t ops)
{
	enum bench_spin spin = p->spin;
	uint64_t seq = p->seq;

	for (uint64_t i = 0; i < ops; i++) {
		struct line_words *words = place(p, ++seq);

		bench_spin_until(&words->ping_seq, seq, spin, NULL); /* E1 */
		atomic_store_explicit(&words->pong_seq, seq,
				      memory_order_release); /* E2 */
	}
	p->seq = seq;
	return 0;
}

static int payload_ping(struct bench_pingpong *p, struct bench_round *round)
{
	enum bench_spin spin = p->spin;
	uint64_t base = p->seq, seq = base, got[PAYLOAD_WORDS];
	uint64_t before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		struct line_words *words = place(p, ++seq);
		int err;

		for (size_t w = 0; w < PAYLOAD_WORDS; w++)
			words->ping_payload[w] = round->seed + seq + w;
		atomic_store_explicit(&words->ping_seq, seq,
				      memory_order_release);		       /* E1 */
		err = bench_spin_until(&words->pong_seq, seq, spin, &p->peer); /* E2 */
		if (err)
			return err;
		memcpy(got, words->pong_payload, sizeof(got));
		/* Looked at before the clock is read: taking it in is part of the
		 * hand-off. */
		if (rpi_unlikely(got[0] != round->seed + seq ||
				 got[7] != round->seed + seq + 7)) {
			rpi_fail(-EIO, "payload: another one came back");
			round->failures++;
		}
		after = bench_ticks();
		round->work += got[i % PAYLOAD_WORDS] - base;
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	p->seq = seq;
	return 0;
}

static int payload_echo(struct bench_pingpong *p, uint64_t ops)
{
	enum bench_spin spin = p->spin;
	uint64_t seq = p->seq;

	for (uint64_t i = 0; i < ops; i++) {
		struct line_words *words = place(p, ++seq);

		bench_spin_until(&words->ping_seq, seq, spin, NULL); /* E1 */
		memcpy(words->pong_payload, words->ping_payload,
		       sizeof(words->pong_payload));
		atomic_store_explicit(&words->pong_seq, seq,
				      memory_order_release); /* E2 */
	}
	p->seq = seq;
	return 0;
}

const struct bench_pingpong_kind bench_line_kind = {
	.name = "line",
	.shared_bytes = PLACES * sizeof(struct line_words),
	.spins = true,
	.ping = line_ping,
	.echo = line_echo,
};

const struct bench_pingpong_kind bench_yield_kind = {
	.name = "yield",
	.shared_bytes = PLACES * sizeof(struct line_words),
	.spins = true,
	.beside = true,
	.ping = line_ping,
	.echo = line_echo,
};

const struct bench_pingpong_kind bench_payload_kind = {
	.name = "payload",
	.shared_bytes = PLACES * sizeof(struct line_words),
	.spins = true,
	.ping = payload_ping,
	.echo = payload_echo,
};
