/* SPDX-License-Identifier: MIT */
/*
 * A round trip in which each side posts a CQE into the other's ring with
 * IORING_OP_MSG_RING and sleeps in io_uring_enter() for its own. Both rings are
 * made before the fork and start disabled; each side enables the one it owns, as
 * a ring with a single issuer belongs to the task that enables it.
 */
#define _GNU_SOURCE
#include "limit.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "clock.h"

#define RING_ENTRIES 8

struct uring_pair {
	struct io_uring ring[2]; /* by enum bench_side: who owns it */
};

/* The best set-up that this kernel takes. */
static int ring_open(struct io_uring *ring)
{
	static const unsigned int tries[] = {
#if defined(IORING_SETUP_SINGLE_ISSUER) && defined(IORING_SETUP_DEFER_TASKRUN)
		IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER |
			IORING_SETUP_DEFER_TASKRUN,
#endif
		IORING_SETUP_R_DISABLED,
	};
	int err = -EINVAL;

	for (size_t i = 0; err == -EINVAL && i < sizeof(tries) / sizeof(tries[0]); i++)
		err = io_uring_queue_init(RING_ENTRIES, ring, tries[i]);
	return err;
}

static bool has_msg_ring(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool has = probe && io_uring_opcode_supported(probe, IORING_OP_MSG_RING);

	if (probe)
		io_uring_free_probe(probe);
	return has;
}

static void uring_close(struct bench_pingpong *p)
{
	struct uring_pair *pair = p->data;

	io_uring_queue_exit(&pair->ring[BENCH_PARENT]);
	io_uring_queue_exit(&pair->ring[BENCH_PEER]);
	free(pair);
	p->data = NULL;
}

static int uring_open(struct bench_pingpong *p)
{
	struct uring_pair *pair = calloc(1, sizeof(*pair));
	int err;

	if (!pair)
		return rpi_fail(-ENOMEM, "uring: no memory");
	err = ring_open(&pair->ring[BENCH_PARENT]);
	if (err) {
		rpi_fail(BENCH_SKIP, "io_uring_setup: %s", strerror(-err));
		goto free_pair;
	}
	err = ring_open(&pair->ring[BENCH_PEER]);
	if (err) {
		rpi_fail(BENCH_SKIP, "io_uring_setup of a second ring: %s",
			 strerror(-err));
		goto exit_first;
	}
	p->data = pair;
	if (has_msg_ring(&pair->ring[BENCH_PARENT]))
		return 0;
	uring_close(p);
	return rpi_fail(BENCH_SKIP, "this kernel has no IORING_OP_MSG_RING");

exit_first:
	io_uring_queue_exit(&pair->ring[BENCH_PARENT]);
free_pair:
	free(pair);
	return BENCH_SKIP;
}

static int uring_join(struct bench_pingpong *p, enum bench_side side)
{
	struct uring_pair *pair = p->data;
	/* liburing 2.3 declares io_uring_enable_rings() and does not export it. */
	int err = io_uring_register((unsigned int)pair->ring[side].ring_fd,
				    IORING_REGISTER_ENABLE_RINGS, NULL, 0);

	if (err < 0)
		return rpi_fail(err, "io_uring_register: enable: %s", strerror(-err));
	return 0;
}

/* Queue a message to `fd`; it goes out with the next enter. A CQE of our own comes
 * only if it fails, and then has a negative res. */
static int queue_message(struct io_uring *own, int fd, uint64_t seq)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(own);

	if (!sqe)
		return rpi_fail(-EBUSY, "uring: the submission queue is full");
	io_uring_prep_msg_ring(sqe, fd, 0, seq, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	return 0;
}

/* Submit what is queued and sleep for one CQE; it must carry `seq`. */
static int take_message(struct io_uring *own, uint64_t seq, struct bench_peer *peer)
{
	struct io_uring_cqe *cqe;
	uint64_t got;
	int res, err;

	do {
		err = io_uring_submit_and_wait(own, 1);
		if (err < 0 && err != -EINTR)
			return rpi_fail(err, "io_uring_enter: %s", strerror(-err));
		if (err == -EINTR && (err = bench_peer_check(peer)))
			return err;
	} while (io_uring_peek_cqe(own, &cqe));
	got = cqe->user_data;
	res = cqe->res;
	io_uring_cqe_seen(own, cqe);
	if (res < 0)
		return rpi_fail(res, "msg_ring: %s", strerror(-res));
	if (got != seq)
		return rpi_fail(-EIO, "msg_ring: another message came back");
	return 0;
}

static int uring_ping(struct bench_pingpong *p, struct bench_round *round)
{
	struct uring_pair *pair = p->data;
	struct io_uring *own = &pair->ring[BENCH_PARENT];
	uint64_t base = p->seq, before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		int err = queue_message(own, pair->ring[BENCH_PEER].ring_fd, ++p->seq);

		if (!err)
			err = take_message(own, p->seq, &p->peer);
		if (err)
			return err;
		after = bench_ticks();
		round->work += p->seq - base;
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return 0;
}

static int uring_echo(struct bench_pingpong *p, uint64_t ops)
{
	struct uring_pair *pair = p->data;
	struct io_uring *own = &pair->ring[BENCH_PEER];

	for (uint64_t i = 0; i < ops; i++) {
		int err = take_message(own, ++p->seq, NULL);

		if (!err)
			err = queue_message(own, pair->ring[BENCH_PARENT].ring_fd,
					    p->seq);
		if (err)
			return err;
	}
	/* The last answer has no next wait to go out with. */
	return ops && io_uring_submit(own) < 0 ? -EIO : 0;
}

const struct bench_pingpong_kind bench_uring_kind = {
	.name = "uring",
	.open = uring_open,
	.close = uring_close,
	.join = uring_join,
	.ping = uring_ping,
	.echo = uring_echo,
};
