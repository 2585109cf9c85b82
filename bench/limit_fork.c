/* SPDX-License-Identifier: MIT */
/* A bare child: forked, gone at once, reaped. The least that a process can cost. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "clock.h"
#include "limit.h"
#include "topology.h"

int bench_fork_enter(struct bench_case *c)
{
	(void)c;
	/* The child may run beside its parent, as it would for anybody else. */
	return bench_cpu_allow(NULL, 0);
}

void bench_fork_leave(struct bench_case *c)
{
	bench_cpu_pin(c->options->cpu[BENCH_PARENT]);
}

int bench_fork_round(struct bench_case *c, struct bench_round *round)
{
	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t before = bench_ticks();
		pid_t got, pid = fork();
		int status;

		if (!pid)
			_exit(0);
		if (pid < 0)
			return rpi_fail(-errno, "%s: fork: %s", c->name, strerror(errno));
		do {
			got = waitpid(pid, &status, 0);
		} while (got < 0 && errno == EINTR);
		bench_samples_add(round->samples, bench_ticks_ns(bench_ticks() - before));
		round->work += got == pid;
	}
	return 0;
}
