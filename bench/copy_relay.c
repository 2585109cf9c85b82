/* SPDX-License-Identifier: MIT */
/*
 * What a small copy must cost at least, between two bare processes that spin. Staged:
 * one memcpy() into shared memory on one core, whose result is copied again on the
 * other core, and one round trip. Inherited: one memcpy() on the peer's core and one
 * round trip.
 *
 * Memory order. Each site below names the edge it is an end of.
 *   E1 ping  parent fills the chunk -> ping_seq store-release
 *            ping_seq load-acquire  -> peer reads the chunk
 *   E2 pong  peer fills the chunk   -> pong_seq store-release
 *            pong_seq load-acquire  -> parent reads the chunk
 * Invariant: pong_seq <= ping_seq <= pong_seq + 1; one writer per word.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "clock.h"
#include "copy_bed.h"
#include "limit.h"

/* As in limit_line.c: the median is that of a usual line. */
#define PLACES	    31
#define PLACE_BYTES 4096
#define PLACE_OPS   2048

/* Word and sequence lie in one line. */
struct relay_words {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t ping_seq; /* E1 */
	uint64_t ping_word;
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t pong_seq; /* E2 */
	uint64_t pong_word;
	unsigned char pad[PLACE_BYTES - RPI_SHARE_ALIGN - 16];
};

static_assert(sizeof(struct relay_words) == PLACE_BYTES, "each place has its own page");

struct relay {
	struct bench_pingpong_kind kind; /* first: p->kind is one of these */
	const struct copy_variant *variant;
	struct bench_pingpong *pingpong;
	uint8_t *own; /* private memory: after the fork, each process's own */
};

static struct relay *relay_of(const struct bench_pingpong *p)
{
	return (struct relay *)(uintptr_t)p->kind;
}

static struct relay_words *place(const struct bench_pingpong *p, uint64_t seq)
{
	return (struct relay_words *)p->shared + seq / PLACE_OPS % PLACES;
}

/* Behind the places: the chunk, or the host memory that both see. */
static uint8_t *chunk(const struct bench_pingpong *p)
{
	return (uint8_t *)p->shared + PLACES * PLACE_BYTES;
}

static int relay_join(struct bench_pingpong *p, enum bench_side side)
{
	struct relay *relay = relay_of(p);

	(void)side;
	relay->own = aligned_alloc(4096, (relay->variant->bytes + 4095) & ~(size_t)4095);
	if (!relay->own)
		return rpi_fail(-ENOMEM, "relay: no memory");
	memset(relay->own, 0x5a, relay->variant->bytes);
	return 0;
}

static void relay_close(struct bench_pingpong *p)
{
	free(relay_of(p)->own);
	relay_of(p)->own = NULL;
}

static int relay_ping(struct bench_pingpong *p, struct bench_round *round)
{
	const struct relay *relay = relay_of(p);
	const size_t bytes = relay->variant->bytes;
	const bool up = relay->variant->way == COPY_H2D;
	const bool staged = relay->variant->path == COPY_STAGED;
	/* Where the caller's bytes are. */
	uint8_t *host = staged ? relay->own : chunk(p);
	uint64_t seq = p->seq, before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		struct relay_words *words = place(p, ++seq);
		uint64_t token = round->seed + i, got;
		int err;

		if (up)
			memcpy(host, &token, sizeof(token));
		if (up && staged)
			memcpy(chunk(p), host, bytes);
		words->ping_word = token;
		atomic_store_explicit(&words->ping_seq, seq,
				      memory_order_release);			  /* E1 */
		err = bench_spin_until(&words->pong_seq, seq, p->spin, &p->peer); /* E2 */
		if (err)
			return err;
		if (!up && staged)
			memcpy(host, chunk(p), bytes);
		got = words->pong_word;
		if (!up)
			memcpy(&got, host, sizeof(got));
		if (rpi_unlikely(got != token)) {
			rpi_fail(-EIO, "relay: another word came back");
			round->failures++;
		}
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	p->seq = seq;
	round->work += round->ops;
	return 0;
}

static int relay_echo(struct bench_pingpong *p, uint64_t ops)
{
	const struct relay *relay = relay_of(p);
	const size_t bytes = relay->variant->bytes;
	uint64_t seq = p->seq;

	for (uint64_t i = 0; i < ops; i++) {
		struct relay_words *words = place(p, ++seq);

		bench_spin_until(&words->ping_seq, seq, p->spin, NULL); /* E1 */
		if (relay->variant->way == COPY_H2D) {
			memcpy(relay->own, chunk(p), bytes);
			memcpy(&words->pong_word, relay->own, sizeof(words->pong_word));
		} else {
			memcpy(relay->own, &words->ping_word, sizeof(words->ping_word));
			memcpy(chunk(p), relay->own, bytes);
		}
		atomic_store_explicit(&words->pong_seq, seq,
				      memory_order_release); /* E2 */
	}
	p->seq = seq;
	return 0;
}

int copy_relay_setup(struct bench_case *c)
{
	const struct copy_variant *variant = c->arg;
	struct relay *relay = calloc(1, sizeof(*relay));
	int err;

	if (!relay)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	relay->variant = variant;
	relay->kind = (struct bench_pingpong_kind){
		.name = c->name,
		.shared_bytes = PLACES * PLACE_BYTES + variant->bytes,
		/* Which idiom waits is nothing beside the copies. */
		.spins = false,
		.join = relay_join,
		.close = relay_close,
		.ping = relay_ping,
		.echo = relay_echo,
	};
	err = bench_pingpong_start(&relay->pingpong, &relay->kind, c->options);
	if (err) {
		free(relay);
		return err;
	}
	c->data = relay;
	return 0;
}

int copy_relay_round(struct bench_case *c, struct bench_round *round)
{
	const struct relay *relay = c->data;

	return bench_pingpong_round(relay->pingpong, round);
}

void copy_relay_teardown(struct bench_case *c)
{
	struct relay *relay = c->data;

	bench_pingpong_stop(relay->pingpong);
	free(relay);
	c->data = NULL;
}
