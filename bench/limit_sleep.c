/* SPDX-License-Identifier: MIT */
/*
 * What being asleep costs the one who sleeps: CPU time of a blocking read of an eventfd
 * that another CPU writes a while later, when this one's caches and clocks have had the
 * time to settle down. No wait for anything that takes longer can cost less.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "clock.h"
#include "limit.h"

/* What the other side works before each wake-up: about a token. */
#define WORK_NS 100000u

/* Sleeps behind a sample: reading a thread's CPU time is a system call of its own. */
#define SLEEPS 16

/* Each is a semaphore: a read takes one. */
struct sleeps {
	int go, wake;
};

static int add(int fd, uint64_t count)
{
	return write(fd, &count, sizeof(count)) == (ssize_t)sizeof(count)
		       ? 0
		       : rpi_fail(-errno, "eventfd: %s", strerror(errno));
}

/* `peer` is NULL in the peer. */
static int take(int fd, struct bench_peer *peer)
{
	uint64_t one;
	int err;

	while (read(fd, &one, sizeof(one)) < 0) {
		if (errno != EINTR)
			return rpi_fail(-errno, "eventfd: %s", strerror(errno));
		err = bench_peer_check(peer);
		if (err)
			return err;
	}
	return 0;
}

static void sleep_close(struct bench_pingpong *p)
{
	struct sleeps *fds = p->shared;

	if (fds->go >= 0)
		close(fds->go);
	if (fds->wake >= 0)
		close(fds->wake);
}

static int sleep_open(struct bench_pingpong *p)
{
	struct sleeps *fds = p->shared;
	int err = 0;

	fds->go = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	fds->wake = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (fds->go < 0 || fds->wake < 0) {
		err = rpi_fail(-errno, "eventfd: %s", strerror(errno));
		sleep_close(p);
	}
	return err;
}

static int sleep_ping(struct bench_pingpong *p, struct bench_round *round)
{
	const struct sleeps *fds = p->shared;

	for (uint64_t i = 0; i < round->ops; i++) {
		int64_t before;
		int err = add(fds->go, 1);

		before = bench_cpu_ns();
		for (int sleep = 0; !err && sleep < SLEEPS; sleep++)
			err = take(fds->wake, &p->peer);
		if (err)
			return err;
		bench_samples_add(round->samples,
				  (double)(bench_cpu_ns() - before) / SLEEPS);
		round->work++;
	}
	return 0;
}

static int sleep_echo(struct bench_pingpong *p, uint64_t ops)
{
	const struct sleeps *fds = p->shared;

	for (uint64_t i = 0; i < ops; i++) {
		int err = take(fds->go, NULL);

		for (int sleep = 0; !err && sleep < SLEEPS; sleep++) {
			uint64_t until = rpi_now_ns() + WORK_NS;

			while (rpi_now_ns() < until)
				rpi_cpu_pause();
			err = add(fds->wake, 1);
		}
		if (err)
			return err;
	}
	return 0;
}

const struct bench_pingpong_kind bench_sleep_kind = {
	.name = "sleep",
	.shared_bytes = sizeof(struct sleeps),
	.open = sleep_open,
	.close = sleep_close,
	.ping = sleep_ping,
	.echo = sleep_echo,
};
