/* SPDX-License-Identifier: MIT */
/* What it costs to enter the kernel at all, and to ask for the time. Both are too
 * short to be timed singly: a sample is the mean of a batch. */
#define _GNU_SOURCE
#include "limit.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

int bench_syscall_round(struct bench_case *c, struct bench_round *round)
{
	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t before = bench_ticks(), after;

		for (unsigned int call = 0; call < c->batch; call++)
			round->work += syscall(SYS_getppid) >= 0;
		after = bench_ticks();
		bench_samples_add(round->samples,
				  bench_ticks_ns(after - before) / c->batch);
	}
	return 0;
}

int bench_clock_round(struct bench_case *c, struct bench_round *round)
{
	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t before = bench_ticks(), after, now = 0;

		for (unsigned int call = 0; call < c->batch; call++)
			now += rpi_now_ns();
		after = bench_ticks();
		/* Only that it was asked is work: the time itself never repeats. */
		round->work += now != 0;
		bench_samples_add(round->samples,
				  bench_ticks_ns(after - before) / c->batch);
	}
	return 0;
}
