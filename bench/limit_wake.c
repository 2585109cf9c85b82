/* SPDX-License-Identifier: MIT */
/*
 * Round trips in which both sides block: by pipe, eventfd and futex. A blocking
 * call in the parent is interrupted once a second while a round runs; only then
 * does it look whether its peer still lives.
 */
#define _GNU_SOURCE
#include "limit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "clock.h"

/* A message goes in at `in` and comes out at `out`; of an eventfd they are one. */
struct way {
	int in, out;
};

struct ways {
	struct way to_peer, to_parent;
};

static int fail_errno(const char *call)
{
	return rpi_fail(-errno, "%s: %s", call, strerror(errno));
}

static int send_word(const struct way *way, uint64_t word)
{
	ssize_t n;

	while ((n = write(way->in, &word, sizeof(word))) < 0 && errno == EINTR)
		;
	return n == (ssize_t)sizeof(word) ? 0 : fail_errno("write");
}

/* `peer` is NULL in the peer. */
static int receive_word(const struct way *way, uint64_t *word_out,
			struct bench_peer *peer)
{
	for (;;) {
		ssize_t n = read(way->out, word_out, sizeof(*word_out));
		int err;

		if (n == (ssize_t)sizeof(*word_out))
			return 0;
		if (n >= 0 || errno != EINTR)
			return n < 0 ? fail_errno("read")
				     : rpi_fail(-EPIPE, "read: %zd bytes, expected 8", n);
		err = bench_peer_check(peer);
		if (err)
			return err;
	}
}

/* An eventfd adds up what is written: 1 is a message there, never 0. */
static uint64_t message(const struct bench_pingpong *p, uint64_t seq)
{
	return p->kind == &bench_eventfd_kind ? 1 : seq;
}

static int ways_ping(struct bench_pingpong *p, struct bench_round *round)
{
	const struct ways *ways = p->data;
	uint64_t base = p->seq, before = bench_ticks(), after, got = 0;

	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t word = message(p, ++p->seq);
		int err = send_word(&ways->to_peer, word);

		if (!err)
			err = receive_word(&ways->to_parent, &got, &p->peer);
		if (err)
			return err;
		after = bench_ticks();
		if (got != word) {
			rpi_fail(-EIO, "%s: another word came back", p->kind->name);
			round->failures++;
		}
		round->work += p->seq - base + (got == word);
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return 0;
}

static int ways_echo(struct bench_pingpong *p, uint64_t ops)
{
	const struct ways *ways = p->data;
	uint64_t word;

	for (uint64_t i = 0; i < ops; i++) {
		int err = receive_word(&ways->to_peer, &word, NULL);

		if (!err)
			err = send_word(&ways->to_parent, word);
		if (err)
			return err;
	}
	return 0;
}

static void way_close(struct way *way)
{
	if (way->in >= 0)
		close(way->in);
	if (way->out >= 0 && way->out != way->in)
		close(way->out);
}

static void ways_close(struct bench_pingpong *p)
{
	struct ways *ways = p->data;

	way_close(&ways->to_peer);
	way_close(&ways->to_parent);
	free(ways);
	p->data = NULL;
}

static int pipe_way(struct way *way)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return fail_errno("pipe2");
	way->out = ends[0];
	way->in = ends[1];
	return 0;
}

static int eventfd_way(struct way *way)
{
	way->in = way->out = eventfd(0, EFD_CLOEXEC);
	return way->in < 0 ? fail_errno("eventfd") : 0;
}

static int ways_open(struct bench_pingpong *p, int (*way_open)(struct way *way))
{
	struct ways *ways = malloc(sizeof(*ways));
	int err;

	if (!ways)
		return rpi_fail(-ENOMEM, "%s: no memory", p->kind->name);
	*ways = (struct ways){ { -1, -1 }, { -1, -1 } };
	p->data = ways;
	err = way_open(&ways->to_peer);
	if (!err)
		err = way_open(&ways->to_parent);
	if (err)
		ways_close(p);
	return err;
}

static int pipe_open(struct bench_pingpong *p)
{
	return ways_open(p, pipe_way);
}

static int eventfd_open(struct bench_pingpong *p)
{
	return ways_open(p, eventfd_way);
}

/*
 * Futex. The word is the message: whoever waits sleeps while it has not changed.
 *   E1 word  a side's work so far -> its word store-release, then FUTEX_WAKE
 *            word load-acquire    -> the other side goes on
 */
struct futex_words {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t ping_seq;
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t pong_seq;
};

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void futex_put(_Atomic uint32_t *word, uint32_t seq)
{
	atomic_store_explicit(word, seq, memory_order_release); /* E1 */
	futex(word, FUTEX_WAKE, 1);
}

static int futex_get(_Atomic uint32_t *word, uint32_t seq, struct bench_peer *peer)
{
	/* E1 */
	while (atomic_load_explicit(word, memory_order_acquire) != seq) {
		int err = 0;

		if (!futex(word, FUTEX_WAIT, seq - 1) || errno == EAGAIN)
			continue;
		if (errno != EINTR)
			return fail_errno("futex");
		err = bench_peer_check(peer);
		if (err)
			return err;
	}
	return 0;
}

static int futex_ping(struct bench_pingpong *p, struct bench_round *round)
{
	struct futex_words *words = p->shared;
	uint64_t base = p->seq, before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		uint32_t seq = (uint32_t)++p->seq;
		int err;

		futex_put(&words->ping_seq, seq);
		err = futex_get(&words->pong_seq, seq, &p->peer);
		if (err)
			return err;
		after = bench_ticks();
		round->work += p->seq - base;
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return 0;
}

static int futex_echo(struct bench_pingpong *p, uint64_t ops)
{
	struct futex_words *words = p->shared;

	for (uint64_t i = 0; i < ops; i++) {
		uint32_t seq = (uint32_t)++p->seq;
		int err = futex_get(&words->ping_seq, seq, NULL);

		if (err)
			return err;
		futex_put(&words->pong_seq, seq);
	}
	return 0;
}

const struct bench_pingpong_kind bench_pipe_kind = {
	.name = "pipe",
	.open = pipe_open,
	.close = ways_close,
	.ping = ways_ping,
	.echo = ways_echo,
};

const struct bench_pingpong_kind bench_eventfd_kind = {
	.name = "eventfd",
	.open = eventfd_open,
	.close = ways_close,
	.ping = ways_ping,
	.echo = ways_echo,
};

const struct bench_pingpong_kind bench_futex_kind = {
	.name = "futex",
	.shared_bytes = sizeof(struct futex_words),
	.ping = futex_ping,
	.echo = futex_echo,
};
