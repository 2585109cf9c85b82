/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "pingpong.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

#define TRIAL_OPS 1000

/* A round shorter than this is not worth another trial. */
#define TRIAL_MIN_OPS 5000

static int peer_join(void *data)
{
	struct bench_pingpong *p = data;

	/* A first touch costs each process a fault; it should not be timed. */
	for (size_t at = 0; at < p->kind->shared_bytes; at += RPI_CACHE_LINE)
		(void)*((volatile unsigned char *)p->shared + at);
	return p->kind->join ? p->kind->join(p, BENCH_PEER) : 0;
}

static int peer_serve(void *data, uint64_t ops, enum bench_spin spin)
{
	struct bench_pingpong *p = data;

	p->spin = spin;
	return p->kind->echo(p, ops);
}

static const struct bench_peer_ops pingpong_ops = { .join = peer_join,
						    .serve = peer_serve };

/* One round as it is, with the idiom that is set. */
static int plain_round(struct bench_pingpong *p, struct bench_round *round)
{
	int err = bench_peer_begin(&p->peer, round->ops, p->spin);

	if (!err)
		err = p->kind->ping(p, round);
	if (!err)
		return bench_peer_end(&p->peer);
	/* Somewhere in the middle: the two counts no longer agree. */
	bench_peer_stop(&p->peer);
	return err;
}

static int trial(struct bench_pingpong *p, enum bench_spin spin)
{
	double ns[TRIAL_OPS];
	struct bench_samples samples = { .ns = ns, .capacity = TRIAL_OPS };
	struct bench_round round = { .ops = TRIAL_OPS, .samples = &samples };
	int err;

	p->spin = spin;
	err = plain_round(p, &round);
	if (!err)
		p->trials[spin][p->trial_count % BENCH_TRIALS] =
			bench_median(ns, samples.count);
	return err;
}

static double trials_median(const struct bench_pingpong *p, enum bench_spin spin)
{
	size_t n = p->trial_count < BENCH_TRIALS ? p->trial_count : BENCH_TRIALS;
	double sorted[BENCH_TRIALS];

	memcpy(sorted, p->trials[spin], sizeof(sorted));
	return bench_median(sorted, n);
}

static int choose_spin(struct bench_pingpong *p)
{
	int err = trial(p, BENCH_SPIN_PAUSE);

	if (!err)
		err = trial(p, BENCH_SPIN_BARE);
	if (err)
		return err;
	p->trial_count++;
	p->spin = trials_median(p, BENCH_SPIN_BARE) < trials_median(p, BENCH_SPIN_PAUSE)
			  ? BENCH_SPIN_BARE
			  : BENCH_SPIN_PAUSE;
	return 0;
}

static bool has_choice(const struct bench_pingpong *p)
{
	return p->kind->spins && p->spin != BENCH_SPIN_YIELD;
}

static int map_shared(struct bench_pingpong *p)
{
	if (!p->kind->shared_bytes)
		return 0;
	p->shared = mmap(NULL, p->kind->shared_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p->shared != MAP_FAILED)
		return 0;
	p->shared = NULL;
	return rpi_fail(-errno, "mmap: %zu bytes of %s: %s", p->kind->shared_bytes,
			p->kind->name, strerror(errno));
}

static void unmap_shared(struct bench_pingpong *p)
{
	if (p->shared)
		munmap(p->shared, p->kind->shared_bytes);
}

int bench_pingpong_start(struct bench_pingpong **out,
			 const struct bench_pingpong_kind *kind,
			 const struct bench_options *options)
{
	struct bench_pingpong *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return rpi_fail(-ENOMEM, "%s: no memory", kind->name);
	p->kind = kind;
	p->spin = kind->beside || bench_one_cpu(options) ? BENCH_SPIN_YIELD
							 : BENCH_SPIN_PAUSE;
	err = map_shared(p);
	if (err)
		goto free_object;
	err = kind->open ? kind->open(p) : 0;
	if (err)
		goto unmap;
	err = bench_peer_start(&p->peer, kind->name,
			       options->cpu[kind->beside ? BENCH_PARENT : BENCH_PEER],
			       &pingpong_ops, p);
	if (err)
		goto close_kind;
	err = kind->join ? kind->join(p, BENCH_PARENT) : 0;
	for (size_t i = 0; !err && has_choice(p) && i < BENCH_TRIALS; i++)
		err = choose_spin(p);
	if (err)
		goto stop_peer;
	*out = p;
	return 0;

stop_peer:
	bench_peer_stop(&p->peer);
close_kind:
	if (kind->close)
		kind->close(p);
unmap:
	unmap_shared(p);
free_object:
	free(p);
	return err;
}

int bench_pingpong_round(struct bench_pingpong *p, struct bench_round *round)
{
	int err = 0;

	if (has_choice(p) && round->ops >= TRIAL_MIN_OPS)
		err = choose_spin(p);
	if (!err)
		err = plain_round(p, round);
	if (!err && has_choice(p))
		p->rounds_by[p->spin] += round->ops >= TRIAL_MIN_OPS;
	return err;
}

void bench_pingpong_stop(struct bench_pingpong *p)
{
	if (!p)
		return;
	bench_peer_stop(&p->peer);
	if (p->kind->close)
		p->kind->close(p);
	unmap_shared(p);
	free(p);
}

const char *bench_spin_name(enum bench_spin spin)
{
	switch (spin) {
	case BENCH_SPIN_PAUSE:
		return "pause";
	case BENCH_SPIN_BARE:
		return "bare";
	case BENCH_SPIN_YIELD:
		break;
	}
	return "yield";
}
