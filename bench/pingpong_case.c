/* SPDX-License-Identifier: MIT */
/* A ping-pong of any kind as a case of a plan. */
#include <inttypes.h>

#include "base/error.h"
#include "limit.h"

int bench_pingpong_case_setup(struct bench_case *c)
{
	struct bench_pingpong *p;
	int err = bench_pingpong_start(&p, c->arg, c->options);

	if (err)
		return err;
	c->data = p;
	return 0;
}

int bench_pingpong_case_round(struct bench_case *c, struct bench_round *round)
{
	return bench_pingpong_round(c->data, round);
}

/* Which idiom it was that the figures come from. */
static void remark_spin(struct bench_case *c, const struct bench_pingpong *p)
{
	uint64_t bare = p->rounds_by[BENCH_SPIN_BARE];
	uint64_t paused = p->rounds_by[BENCH_SPIN_PAUSE];

	if (bare && paused)
		rpi_format(c->remark, sizeof(c->remark),
			   "spin=pause in %" PRIu64 " rounds, bare in %" PRIu64, paused,
			   bare);
	else
		rpi_format(c->remark, sizeof(c->remark), "spin=%s",
			   bench_spin_name(p->spin));
}

void bench_pingpong_case_teardown(struct bench_case *c)
{
	const struct bench_pingpong *p = c->data;

	if (p->kind->spins)
		remark_spin(c, p);
	bench_pingpong_stop(c->data);
	c->data = NULL;
}
