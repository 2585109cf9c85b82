/* SPDX-License-Identifier: MIT */
/*
 * Memory order. Each site below names the edge it is an end of.
 *   E1 meet  member has done its part      -> arrived, fetch-add release
 *            arrived load-acquire          -> the others go on
 *   E2 left  process has noted its times   -> left, fetch-sub release
 *            left load-acquire             -> the caller reads them
 * What a job is reaches the processes by the edge that starts a round (peer.c).
 */
#define _GNU_SOURCE
#include "crew.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/futex.h"
#include "clock.h"
#include "dispatch_worker.h"
#include "peer.h"
#include "region/region.h"
#include "sysfile.h"
#include "topology.h"

#define EMPTY_COUNT 255
#define SPARE_BYTES ((uint64_t)256 << 20)
#define LOOK_NS	    UINT64_C(100000000) /* then see whether they live */
#define CALLER	    CREW_MAX		/* its place among the members */

struct crew_words {
	/* The caller writes this block before a round. */
	_Alignas(RPI_SHARE_ALIGN) struct crew_job job;
	uint32_t member_count;

	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t arrived; /* E1; grows in a round */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t left;    /* E2; futex */

	/* Each process writes its own. */
	struct crew_times {
		_Alignas(RPI_SHARE_ALIGN) uint64_t begin[CREW_OPS_MAX];
		uint64_t end[CREW_OPS_MAX];
	} times[CREW_MAX];
};

struct crew {
	struct rpi_region words_region, areas;
	struct crew_words *words;
	size_t area_bytes; /* of the largest case */
	uint32_t process_count;
	unsigned int users;
	bool started;
	struct crew_member {
		struct crew *crew;
		uint32_t idx;
		uint64_t meetings;
		struct bench_peer peer;
	} members[CREW_MAX + 1];
};

static struct crew crews[CREW_MAX + 1]; /* by number of processes */

/* Until all members are here. */
static int meet(struct crew_member *member, enum bench_spin spin)
{
	struct crew_words *words = member->crew->words;
	uint64_t all = ++member->meetings * words->member_count;
	struct bench_peer *watched =
		member->idx == CALLER ? &member->crew->members[0].peer : NULL;
	uint32_t looks = 0;

	atomic_fetch_add_explicit(&words->arrived, 1, memory_order_acq_rel); /* E1 */
	while (atomic_load_explicit(&words->arrived, memory_order_acquire) < all) {
		if (spin == BENCH_SPIN_YIELD)
			sched_yield();
		else
			rpi_cpu_pause();
		if (rpi_unlikely(!(++looks & 0x3ffff))) {
			int err = bench_peer_check(watched);

			if (err)
				return err;
		}
	}
	return 0;
}

static struct crew_turn turn_of(const struct crew *crew, uint32_t idx, uint64_t op)
{
	uint32_t next = idx + 1 < crew->process_count ? idx + 1 : 0;
	uint8_t *areas = crew->areas.base;

	return (struct crew_turn){ .arg = crew->words->job.arg,
				   .area = areas + idx * crew->area_bytes,
				   .next_area = areas + next * crew->area_bytes,
				   .op = op };
}

static int act_once(struct crew_member *member, uint64_t op, enum bench_spin spin)
{
	const struct crew_job *job = &member->crew->words->job;
	struct crew_times *times = &member->crew->words->times[member->idx];
	const struct crew_turn turn = turn_of(member->crew, member->idx, op);
	int err;

	if (job->ready)
		job->ready(&turn);
	err = meet(member, spin);
	if (err)
		return err;
	times->begin[op] = bench_ticks();
	job->act(&turn);
	times->end[op] = bench_ticks();
	err = job->check ? job->check(&turn) : 0;
	/* Nobody goes on to the next before all have ended this one. */
	return err ? err : meet(member, spin);
}

static int serve(void *data, uint64_t ops, enum bench_spin spin)
{
	struct crew_member *member = data;
	struct crew_words *words = member->crew->words;

	member->meetings = 0;
	for (uint64_t op = 0; op < ops; op++) {
		int err = act_once(member, op, spin);

		if (err)
			return err;
	}
	if (atomic_fetch_sub_explicit(&words->left, 1, memory_order_acq_rel) ==
	    1) /* E2 */
		rpi_futex_wake_all(&words->left, RPI_FUTEX_SHARED);
	return 0;
}

/* Page tables first: a first touch would cost more than what is timed. */
static int join(void *data)
{
	struct crew *crew = ((struct crew_member *)data)->crew;
	int err = rpi_region_populate(&crew->words_region, 0, crew->words_region.bytes);

	return err ? err : rpi_region_populate(&crew->areas, 0, crew->areas.bytes);
}

static void stop(struct crew *crew)
{
	for (uint32_t i = 0; i < crew->process_count; i++)
		if (crew->members[i].peer.words)
			bench_peer_stop(&crew->members[i].peer);
	rpi_region_destroy(&crew->words_region);
	rpi_region_destroy(&crew->areas);
	crew->words = NULL;
	crew->started = false;
}

static int start(struct crew *crew, const struct bench_options *options)
{
	static const struct bench_peer_ops ops = { .join = join, .serve = serve };
	int cpus[CREW_MAX];
	int err = rpi_region_create(&crew->words_region, "rpbench-crew",
				    sizeof(*crew->words), RP_PAGES_AUTO);

	if (!err)
		err = rpi_region_create(&crew->areas, "rpbench-areas",
					crew->area_bytes * crew->process_count,
					RP_PAGES_AUTO);
	crew->words = crew->words_region.base;
	bench_worker_cpus(options, true, cpus, crew->process_count);
	for (uint32_t i = 0; i <= CREW_MAX; i++) {
		crew->members[i].crew = crew;
		crew->members[i].idx = i;
	}
	for (uint32_t i = 0; !err && i < crew->process_count; i++)
		err = bench_peer_start(&crew->members[i].peer, "crew", cpus[i], &ops,
				       &crew->members[i]);
	crew->started = !err;
	if (err)
		stop(crew);
	return err;
}

int crew_get(uint32_t process_count, size_t area_bytes, struct crew **out)
{
	struct crew *crew = &crews[process_count];
	uint64_t available = bench_memory_available();
	uint64_t wanted = (uint64_t)area_bytes * process_count;

	if (available < SPARE_BYTES || available - SPARE_BYTES < wanted)
		return rpi_fail(BENCH_SKIP,
				"%" PRIu64 " MiB wanted, %" PRIu64 " MiB are available",
				wanted >> 20, available >> 20);
	crew->process_count = process_count;
	if (area_bytes > crew->area_bytes)
		crew->area_bytes = area_bytes;
	crew->users++;
	*out = crew;
	return 0;
}

void crew_put(struct crew *crew)
{
	if (--crew->users)
		return;
	stop(crew);
	memset(crew, 0, sizeof(*crew));
}

int crew_enter(struct crew *crew, const struct bench_options *options)
{
	return crew->started ? 0 : start(crew, options);
}

static enum bench_spin spin_of(const struct bench_options *options, uint32_t members)
{
	return members > (uint32_t)bench_cpu_count() || bench_one_cpu(options)
		       ? BENCH_SPIN_YIELD
		       : BENCH_SPIN_PAUSE;
}

/* The caller's part: what another core than the first process's does. */
static int take_part(struct crew *crew, uint64_t ops, enum bench_spin spin)
{
	struct crew_member *caller = &crew->members[CALLER];
	int err = 0;

	caller->meetings = 0;
	for (uint64_t op = 0; !err && op < ops; op++) {
		const struct crew_turn turn = turn_of(crew, 0, op);

		crew->words->job.caller_ready(&turn);
		err = meet(caller, spin);
		if (!err)
			err = meet(caller, spin);
	}
	return err;
}

/* Asleep, because one of the processes may share this CPU. */
static int await_all(struct crew *crew)
{
	struct crew_words *words = crew->words;
	uint32_t left;
	int err = 0;

	/* E2 */
	while (!err &&
	       (left = atomic_load_explicit(&words->left, memory_order_acquire))) {
		rpi_futex_wait(&words->left, left, RPI_FUTEX_SHARED,
			       rpi_now_ns() + LOOK_NS);
		for (uint32_t i = 0; !err && i < crew->process_count; i++)
			err = bench_peer_check(&crew->members[i].peer);
	}
	for (uint32_t i = 0; !err && i < crew->process_count; i++)
		err = bench_peer_end(&crew->members[i].peer);
	return err;
}

/* The median of nothing: what two reads of the clock put into a sample. */
static uint64_t empty_ticks(void)
{
	double ticks[EMPTY_COUNT];

	for (int i = 0; i < EMPTY_COUNT; i++) {
		uint64_t before = bench_ticks();

		ticks[i] = (double)(bench_ticks() - before);
	}
	return (uint64_t)bench_median(ticks, EMPTY_COUNT);
}

static void take_samples(const struct crew *crew, struct bench_round *round)
{
	const struct crew_words *words = crew->words;
	uint64_t empty = empty_ticks();

	for (uint64_t op = 0; op < round->ops; op++) {
		uint64_t begin = words->times[0].begin[op];
		uint64_t end = words->times[0].end[op];

		for (uint32_t i = 1; i < crew->process_count; i++) {
			if (words->times[i].begin[op] < begin)
				begin = words->times[i].begin[op];
			if (words->times[i].end[op] > end)
				end = words->times[i].end[op];
		}
		end -= begin;
		bench_samples_add(round->samples,
				  bench_ticks_ns(end > empty ? end - empty : 0));
	}
}

int crew_round(struct crew *crew, const struct crew_job *job,
	       const struct bench_options *options, struct bench_round *round)
{
	struct crew_words *words = crew->words;
	uint32_t members = crew->process_count + (job->caller_ready ? 1 : 0);
	enum bench_spin spin = spin_of(options, members);
	int err = 0;

	words->job = *job;
	words->member_count = members;
	atomic_store_explicit(&words->arrived, 0, memory_order_relaxed);
	atomic_store_explicit(&words->left, crew->process_count, memory_order_relaxed);
	for (uint32_t i = 0; !err && i < crew->process_count; i++)
		err = bench_peer_begin(&crew->members[i].peer, round->ops, spin);
	if (!err && job->caller_ready)
		err = take_part(crew, round->ops, spin);
	if (!err)
		err = await_all(crew);
	if (err)
		return err;
	take_samples(crew, round);
	round->work += round->ops * crew->process_count;
	return 0;
}
