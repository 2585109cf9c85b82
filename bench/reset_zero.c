/* SPDX-License-Identifier: MIT */
/*
 * A crew of processes, one for each chip count, zeroes windows for all cases of that
 * count. With one process the caller is the other core that writes the window;
 * with more, each writes the next one's. What is timed is the zeroing alone, from the
 * first that begins to the last that ends.
 *
 * Memory order.
 *   E1 meet  member has written or zeroed -> arrived, fetch-add release
 *            arrived load-acquire          -> the others zero or write it
 *   E2 left  process has noted its times   -> left, fetch-sub release
 *            left load-acquire             -> the caller reads them
 */
#define _GNU_SOURCE
#include "reset_zero.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/futex.h"
#include "clock.h"
#include "dispatch_worker.h"
#include "memory/zero.h"
#include "peer.h"
#include "region/region.h"
#include "reset_window.h"
#include "sysfile.h"
#include "topology.h"

#define EMPTY_COUNT   255
#define SPARE_BYTES   ((uint64_t)256 << 20)
#define ALL_LEFT_WAIT UINT64_C(100000000) /* then look whether they live */

struct crew_words {
	/* The caller writes this block before a round. */
	_Alignas(RPI_SHARE_ALIGN) struct reset_zero what;
	uint32_t member_count;

	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t arrived; /* E1; only grows */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t left;    /* E2; futex */

	/* Each process writes its own. */
	struct crew_times {
		_Alignas(RPI_SHARE_ALIGN) uint64_t begin[RESET_ZERO_OPS_MAX];
		uint64_t end[RESET_ZERO_OPS_MAX];
	} times[RESET_CHIPS_MAX];
};

struct crew {
	struct rpi_region words_region, windows;
	struct crew_words *words;
	const void *chunk; /* zeroes to copy from */
	size_t bytes;	   /* of a window of its largest case */
	uint32_t process_count;
	unsigned int users;
	bool started;
	struct crew_member {
		struct crew *crew;
		uint32_t idx;
		uint64_t meetings;
		struct bench_peer peer;
	} members[RESET_CHIPS_MAX + 1]; /* the last: the caller */
};

static struct crew crews[RESET_CHIPS_MAX + 1]; /* by number of processes */

static uint8_t *window_of(const struct crew *crew, uint32_t idx)
{
	return (uint8_t *)crew->windows.base + idx * crew->bytes;
}

/* Until all members are here. */
static int meet(struct crew_member *member, enum bench_spin spin)
{
	struct crew_words *words = member->crew->words;
	uint64_t all = ++member->meetings * words->member_count;
	struct bench_peer *watched =
		member->idx == RESET_CHIPS_MAX ? &member->crew->members[0].peer : NULL;
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

static int zero_once(struct crew_member *member, uint64_t op, enum bench_spin spin)
{
	struct crew *crew = member->crew;
	const struct reset_zero *what = &crew->words->what;
	struct crew_times *times = &crew->words->times[member->idx];
	uint32_t target = what->own ? member->idx
				    : (member->idx + 1) % what->process_count;
	uint8_t *window = window_of(crew, member->idx);
	size_t at = op * RESET_PAGE_BYTES % what->bytes;
	int err;

	if (what->own || what->process_count > 1)
		reset_write(window_of(crew, target), what->bytes, what->sparse);
	err = meet(member, spin);
	if (err)
		return err;
	times->begin[op] = bench_ticks();
	rpi_zero(window, what->bytes, what->engine, crew->chunk);
	times->end[op] = bench_ticks();
	if (reset_look(window, what->bytes, what->sparse, &at))
		return -EILSEQ;
	/* Nobody writes it again before its owner has ended. */
	return meet(member, spin);
}

static int serve(void *data, uint64_t ops, enum bench_spin spin)
{
	struct crew_member *member = data;
	struct crew_words *words = member->crew->words;

	member->meetings = 0;
	for (uint64_t op = 0; op < ops; op++) {
		int err = zero_once(member, op, spin);

		if (err)
			return err;
	}
	if (atomic_fetch_sub_explicit(&words->left, 1, memory_order_acq_rel) ==
	    1) /* E2 */
		rpi_futex_wake_all(&words->left, RPI_FUTEX_SHARED);
	return 0;
}

/* Page tables first: a first touch would cost more than the zeroes. */
static int join(void *data)
{
	struct crew *crew = ((struct crew_member *)data)->crew;
	int err = rpi_region_populate(&crew->words_region, 0, crew->words_region.bytes);

	return err ? err : rpi_region_populate(&crew->windows, 0, crew->windows.bytes);
}

static void stop(struct crew *crew)
{
	for (uint32_t i = 0; i < crew->process_count; i++)
		if (crew->members[i].peer.words)
			bench_peer_stop(&crew->members[i].peer);
	rpi_region_destroy(&crew->words_region);
	rpi_region_destroy(&crew->windows);
	if (crew->chunk)
		munmap((void *)(uintptr_t)crew->chunk, RPI_ZERO_CHUNK_BYTES);
	crew->chunk = NULL;
	crew->words = NULL;
	crew->started = false;
}

static int lay_out(struct crew *crew)
{
	void *chunk;
	int err = rpi_region_create(&crew->words_region, "rpbench-zero",
				    sizeof(*crew->words), RP_PAGES_AUTO);

	if (!err)
		err = rpi_region_create(&crew->windows, "rpbench-windows",
					crew->bytes * crew->process_count, RP_PAGES_AUTO);
	if (err)
		return err;
	crew->words = crew->words_region.base;
	chunk = mmap(NULL, RPI_ZERO_CHUNK_BYTES, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (chunk == MAP_FAILED)
		return rpi_fail(-errno, "mmap: a chunk of zeroes: %s", strerror(errno));
	crew->chunk = chunk;
	return 0;
}

static int start(struct crew *crew, const struct bench_options *options)
{
	static const struct bench_peer_ops ops = { .join = join, .serve = serve };
	int cpus[RESET_CHIPS_MAX];
	int err = lay_out(crew);

	bench_worker_cpus(options, true, cpus, crew->process_count);
	for (uint32_t i = 0; i <= RESET_CHIPS_MAX; i++) {
		crew->members[i].crew = crew;
		crew->members[i].idx = i;
	}
	for (uint32_t i = 0; !err && i < crew->process_count; i++)
		err = bench_peer_start(&crew->members[i].peer, "zero", cpus[i], &ops,
				       &crew->members[i]);
	crew->started = !err;
	if (err)
		stop(crew);
	return err;
}

int reset_zero_setup(struct bench_case *c)
{
	const struct reset_zero *zero = c->arg;
	struct crew *crew = &crews[zero->process_count];
	uint64_t available = bench_memory_available();
	uint64_t wanted = (uint64_t)zero->bytes * zero->process_count * 2;

	if (available < SPARE_BYTES || available - SPARE_BYTES < wanted)
		return rpi_fail(BENCH_SKIP,
				"%" PRIu64 " MiB wanted, %" PRIu64 " MiB are available",
				wanted >> 20, available >> 20);
	crew->process_count = zero->process_count;
	if (zero->bytes > crew->bytes)
		crew->bytes = zero->bytes;
	crew->users++;
	c->data = crew;
	return 0;
}

void reset_zero_teardown(struct bench_case *c)
{
	struct crew *crew = c->data;

	if (--crew->users)
		return;
	stop(crew);
	memset(crew, 0, sizeof(*crew));
}

int reset_zero_enter(struct bench_case *c)
{
	struct crew *crew = c->data;

	return crew->started ? 0 : start(crew, c->options);
}

static enum bench_spin spin_of(const struct bench_case *c, uint32_t members)
{
	return members > (uint32_t)bench_cpu_count() || bench_one_cpu(c->options)
		       ? BENCH_SPIN_YIELD
		       : BENCH_SPIN_PAUSE;
}

/* The caller's part when there is one process only: it writes, the process zeroes. */
static int write_for(struct crew *crew, uint64_t ops, enum bench_spin spin)
{
	struct crew_member *caller = &crew->members[RESET_CHIPS_MAX];
	const struct reset_zero *what = &crew->words->what;
	int err = 0;

	caller->meetings = 0;
	for (uint64_t op = 0; !err && op < ops; op++) {
		reset_write(window_of(crew, 0), what->bytes, what->sparse);
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
			       rpi_now_ns() + ALL_LEFT_WAIT);
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

int reset_zero_round(struct bench_case *c, struct bench_round *round)
{
	const struct reset_zero *zero = c->arg;
	struct crew *crew = c->data;
	struct crew_words *words = crew->words;
	bool writes = zero->process_count == 1 && !zero->own;
	enum bench_spin spin = spin_of(c, zero->process_count + writes);
	int err = 0;

	words->what = *zero;
	words->member_count = zero->process_count + writes;
	atomic_store_explicit(&words->arrived, 0, memory_order_relaxed);
	atomic_store_explicit(&words->left, zero->process_count, memory_order_relaxed);
	for (uint32_t i = 0; !err && i < zero->process_count; i++)
		err = bench_peer_begin(&crew->members[i].peer, round->ops, spin);
	if (!err && writes)
		err = write_for(crew, round->ops, spin);
	if (!err)
		err = await_all(crew);
	if (err)
		return err;
	take_samples(crew, round);
	round->work += round->ops * zero->process_count;
	return 0;
}
