/* SPDX-License-Identifier: MIT */
/*
 * The whole sleep and wake protocol between two processes, over and over:
 *   waker    publish; fence; read the flag; wake if it is set
 *   sleeper  set the flag; fence; look again; sleep
 * with delays of random length before each step. A sleep is limited to some
 * seconds: one that runs out while work is there is a lost wake-up.
 *
 * park_stress [-n hand-offs] [-s seed] [-t sleep limit, ms] [-b]
 * -b leaves the fences out: then wake-ups must get lost, or this test could not
 * fail. Only a hint on a machine that keeps the order by luck.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/error.h>

#include "completion/fence.h"
#include "completion/park.h"

/* All written by both sides; each block on lines of its own. */
struct side {
	struct rpi_park_block block;
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t work_seq; /* B2 */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t asleep;   /* B1 */
	_Alignas(RPI_SHARE_ALIGN) uint64_t sleep_count;
	uint64_t wake_count;
	uint64_t close_count; /* work that came while the flag was being set */
	uint64_t lost_count;
	uint64_t failed_count;
};

struct shared {
	struct side side[2];
	_Atomic uint32_t ready_count;
};

struct run {
	enum rpi_park_engine engine;
	bool waker_ring;
	bool broken;
	uint64_t handoff_count;
	uint64_t seed;
	uint64_t limit_ns;
};

struct player {
	const struct run *run;
	struct side *mine, *theirs;
	struct rpi_park *my_park, *their_park;
	struct rpi_waker waker;
	uint64_t random;
};

static uint64_t random_next(struct player *p)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return p->random;
}

/* Mostly nothing or a few cycles; now and then long enough for the other side to
 * be deep in its sleep. */
static void random_delay(struct player *p)
{
	uint64_t draw = random_next(p);
	unsigned turns = (unsigned)(draw >> 8) % (draw % 64 ? 24 : 20000);

	while (turns--)
		atomic_signal_fence(memory_order_seq_cst);
}

static void give(struct player *p, uint64_t seq)
{
	struct side *to = p->theirs;

	atomic_store_explicit(&to->work_seq, seq, memory_order_release);
	/* B2. */
	if (p->run->broken)
		atomic_signal_fence(memory_order_seq_cst);
	else
		rpi_fence();
	if (!atomic_load_explicit(&to->asleep, memory_order_relaxed))
		return;
	/* Of several wakers one would take the flag. */
	if (!atomic_exchange_explicit(&to->asleep, 0, memory_order_relaxed))
		return;
	p->mine->wake_count++;
	if (rpi_park_wake(p->their_park, &p->waker))
		p->mine->failed_count++;
}

static bool has_work(const struct player *p, uint64_t seq)
{
	return atomic_load_explicit(&p->mine->work_seq, memory_order_acquire) >= seq;
}

/*
 * Look for a while before going to sleep. Half the time it is long enough for a
 * peer that has to be woken, so that both are awake afterwards; else it is about
 * as long as an awake peer needs, so that the flag is set just as work arrives,
 * and that moment is what this test is about.
 */
static bool look_for_a_while(struct player *p, uint64_t seq)
{
	uint64_t draw = random_next(p);
	unsigned looks = (unsigned)(draw >> 8) % (draw % 2 ? 40000 : 600);

	while (looks--)
		if (has_work(p, seq))
			return true;
	return false;
}

static void take(struct player *p, uint64_t seq)
{
	struct side *me = p->mine;
	int ret;

	while (!look_for_a_while(p, seq)) {
		atomic_store_explicit(&me->asleep, 1, memory_order_relaxed);
		/* B1. */
		if (p->run->broken)
			atomic_signal_fence(memory_order_seq_cst);
		else
			rpi_fence();
		if (has_work(p, seq)) {
			/* A waker has the flag: its wake-up is on the way, or here. */
			if (!atomic_exchange_explicit(&me->asleep, 0,
						      memory_order_relaxed))
				rpi_park_drain(p->my_park);
			me->close_count++;
			return;
		}
		me->sleep_count++;
		ret = rpi_park_sleep(p->my_park, rpi_now_ns() + p->run->limit_ns);
		atomic_store_explicit(&me->asleep, 0, memory_order_relaxed);
		if (ret == -ETIMEDOUT && has_work(p, seq))
			me->lost_count++;
		else if (ret && ret != -ETIMEDOUT)
			me->failed_count++;
	}
}

static void play(struct player *p, unsigned me)
{
	for (uint64_t seq = 1; seq <= p->run->handoff_count; seq++) {
		for (unsigned turn = 0; turn < 2; turn++) {
			random_delay(p);
			if (turn == me)
				give(p, seq);
			else
				take(p, seq);
		}
	}
}

/* Each side on a CPU of its own where there are two; on one the steps of both
 * sides never meet. */
static void pin_side(unsigned me)
{
	unsigned seen = 0;
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return;
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || seen++ != me)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
}

static int play_side(const struct run *run, struct shared *shared,
		     struct rpi_park park[2], unsigned me)
{
	struct player player = {
		.run = run,
		.mine = &shared->side[me],
		.theirs = &shared->side[!me],
		.my_park = &park[me],
		.their_park = &park[!me],
		.random = (run->seed + me) * UINT64_C(0x9e3779b97f4a7c15) | 1,
	};
	int ret = rpi_park_own(&park[me]);

	rpi_park_disown(&park[!me]);
	if (!ret)
		ret = rpi_waker_init(&player.waker, run->engine, run->waker_ring);
	if (ret) {
		fprintf(stderr, "side %u: %s\n", me, strerror(-ret));
		return ret;
	}
	pin_side(me);
	atomic_fetch_add(&shared->ready_count, 1);
	while (atomic_load(&shared->ready_count) < 2)
		usleep(100);
	play(&player, me);
	if (rpi_park_overflows(&park[me]))
		player.mine->failed_count++;
	rpi_waker_destroy(&player.waker);
	return 0;
}

/* 0 good, 1 bad, 77 not possible here. */
static int run_one(const struct run *run)
{
	struct rpi_park park[2] = { 0 };
	struct shared *shared;
	uint64_t lost, failed, begin_ns = rpi_now_ns();
	cpu_set_t before;
	pid_t child;
	int status = 0, ret = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	for (unsigned i = 0; i < 2 && !ret; i++)
		ret = rpi_park_create(&park[i], run->engine, &shared->side[i].block);
	if (ret) {
		printf("skipped, missing: %s\n", rp_last_error());
		return 77;
	}
	fflush(stdout);
	child = fork();
	if (child < 0)
		return 1;
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(play_side(run, shared, park, 1) ? 1 : 0);
	}
	sched_getaffinity(0, sizeof(before), &before);
	ret = play_side(run, shared, park, 0);
	sched_setaffinity(0, sizeof(before), &before);
	if (ret)
		kill(child, SIGKILL);
	waitpid(child, &status, 0);
	lost = shared->side[0].lost_count + shared->side[1].lost_count;
	failed = shared->side[0].failed_count + shared->side[1].failed_count;
	printf("%-8s %-9s %-5s hand-offs %" PRIu64 " sleeps %" PRIu64 " close %" PRIu64
	       " wakes %" PRIu64 " lost %" PRIu64 " failed %" PRIu64 " (%.1f s)\n",
	       rpi_park_engine_name(&park[0]), run->waker_ring ? "ring" : "direct",
	       run->broken ? "none" : "fence", 2 * run->handoff_count,
	       shared->side[0].sleep_count + shared->side[1].sleep_count,
	       shared->side[0].close_count + shared->side[1].close_count,
	       shared->side[0].wake_count + shared->side[1].wake_count, lost, failed,
	       (double)(rpi_now_ns() - begin_ns) / 1e9);
	for (unsigned i = 0; i < 2; i++)
		rpi_park_destroy(&park[i]);
	munmap(shared, sizeof(*shared));
	return ret || status || lost || failed;
}

int main(int argc, char **argv)
{
	static const struct {
		enum rpi_park_engine engine;
		bool waker_ring;
	} variants[] = {
		{ RPI_PARK_FUTEX, false },
		{ RPI_PARK_URING, false },
		{ RPI_PARK_URING, true },
	};
	struct run run = { .handoff_count = 20000, .limit_ns = UINT64_C(5000000000) };
	int option, bad = 0;

	run.seed = rpi_now_ns();
	while ((option = getopt(argc, argv, "n:s:t:b")) != -1) {
		switch (option) {
		case 'n':
			run.handoff_count = strtoull(optarg, NULL, 0);
			break;
		case 's':
			run.seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			run.limit_ns = strtoull(optarg, NULL, 0) * 1000000;
			break;
		case 'b':
			run.broken = true;
			break;
		default:
			fprintf(stderr,
				"usage: %s [-n hand-offs] [-s seed] [-t ms] [-b]\n",
				argv[0]);
			return 2;
		}
	}
	printf("seed %" PRIu64 "\n", run.seed);
	for (unsigned i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		run.engine = variants[i].engine;
		run.waker_ring = variants[i].waker_ring;
		bad += run_one(&run) == 1;
	}
	return bad ? 1 : 0;
}
