/* SPDX-License-Identifier: MIT */
/*
 * The template of the ring stress: producers put numbered items into a ring,
 * consumers take them out and check the payload, that each is taken exactly once
 * and in order per producer, and at the end that nothing is left. A variant says
 * how items go in and out; ring_stress.c has them, and is the one user.
 */
#ifndef RING_STRESS_H
#define RING_STRESS_H

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/slot.h"

#define ITEM_BYTES_MAX 64
#define BATCH_MAX      8

/* What one producer or consumer has in private. */
struct side {
	void *mem; /* the ring, shared */
	struct rpi_slot_tx tx;
	struct rpi_slot_rx rx;
};

struct variant {
	const char *name;
	uint32_t item_bytes;
	uint32_t producers, consumers;

	/* Lay the ring out in mem, empty, its counters just below their wrap;
	 * returns the bytes of mem that it takes, also when mem is NULL. */
	size_t (*ring_init)(void *mem);
	/* NULL, or what a side needs before its first call. */
	void (*side_init)(struct side *side);
	/* Put n items or none; returns how many. */
	uint32_t (*put)(struct side *side, const void *items, uint32_t n);
	/* Take up to n items; returns how many. */
	uint32_t (*take)(struct side *side, void *items_out, uint32_t n);
	/* Nothing is in it; asked when all sides have ended. */
	bool (*is_empty)(void *mem);
};

#define SIDES_MAX 8
#define ITEMS_MAX (UINT32_C(1) << 24) /* an item has 24 bits for its number */

enum mood {
	MOSTLY_FULL,
	MOSTLY_EMPTY
};

/* One pass; shared by all sides, which are threads or processes. */
struct run {
	const struct variant *variant;
	void *ring;
	enum mood mood;
	uint64_t seed;
	uint32_t items; /* of each producer */

	_Atomic uint32_t taken_count;
	_Atomic uint32_t full_count;  /* puts that were refused */
	_Atomic uint32_t empty_count; /* takes that found nothing */
	_Atomic uint32_t failed;      /* set after the text, by the first to fail */
	_Atomic uint32_t failing;
	char failure[256];

	_Atomic uint8_t taken[]; /* producers x items: how often */
};

struct actor {
	struct run *run;
	uint32_t index; /* among the producers, or the consumers */
	bool producer;
};

__attribute__((format(printf, 2, 3))) static void fail(struct run *run, const char *fmt,
						       ...)
{
	va_list args;

	/* Only the first one writes. */
	if (atomic_exchange_explicit(&run->failing, 1, memory_order_relaxed))
		return;
	va_start(args, fmt);
	vsnprintf(run->failure, sizeof(run->failure), fmt, args);
	va_end(args);
	/* Release: the text, to whoever sees the word. */
	atomic_store_explicit(&run->failed, 1, memory_order_release);
}

static bool stopped(struct run *run)
{
	/* Acquire: pairs with fail(). */
	return atomic_load_explicit(&run->failed, memory_order_acquire);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static uint32_t rnd(uint64_t *rng, uint32_t below)
{
	*rng += UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(mix(*rng) >> 33) % below;
}

/* An item: producer, number and a hash of both in the first word, more hashes in
 * the others. */
static void item_fill(uint64_t *item, uint32_t item_bytes, uint32_t producer,
		      uint32_t number)
{
	uint64_t id = (uint64_t)producer << 24 | number;

	item[0] = id << 32 | (uint32_t)mix(id);
	for (uint32_t i = 1; i < item_bytes / sizeof(uint64_t); i++)
		item[i] = mix(item[0] + i);
}

/* Slow sides give the processor away, often; it is also what lets two cores do. */
static void dawdle(const struct actor *a, uint64_t *rng)
{
	bool slow = a->producer == (a->run->mood == MOSTLY_EMPTY);

	for (uint32_t n = slow ? rnd(rng, 4) : 0; n > 0; n--)
		sched_yield();
}

static void produce(const struct actor *a, struct side *side, uint64_t *rng)
{
	struct run *run = a->run;
	const struct variant *v = run->variant;
	uint64_t batch[BATCH_MAX * ITEM_BYTES_MAX / sizeof(uint64_t)];
	uint32_t words = v->item_bytes / sizeof(uint64_t);

	/* Mostly empty: not before a consumer has met it empty. */
	while (run->mood == MOSTLY_EMPTY && !stopped(run) &&
	       atomic_load_explicit(&run->empty_count, memory_order_relaxed) == 0)
		sched_yield();

	for (uint32_t number = 0; number < run->items;) {
		uint32_t n = 1 + rnd(rng, BATCH_MAX);

		if (n > run->items - number)
			n = run->items - number;
		for (uint32_t i = 0; i < n; i++)
			item_fill(batch + i * words, v->item_bytes, a->index, number + i);
		while (v->put(side, batch, n) == 0) {
			if (stopped(run))
				return;
			atomic_fetch_add_explicit(&run->full_count, 1,
						  memory_order_relaxed);
			sched_yield();
		}
		number += n;
		dawdle(a, rng);
	}
}

/* False after a failure. next[p] is the least number still allowed of p. */
static bool item_check(struct run *run, const uint64_t *item, uint32_t *next)
{
	const struct variant *v = run->variant;
	uint64_t want[ITEM_BYTES_MAX / sizeof(uint64_t)];
	uint64_t id = item[0] >> 32;
	uint32_t producer = (uint32_t)(id >> 24);
	uint32_t number = (uint32_t)id & (ITEMS_MAX - 1);

	if (producer >= v->producers || number >= run->items) {
		fail(run, "an item that nobody sent: 0x%" PRIx64, item[0]);
		return false;
	}
	item_fill(want, v->item_bytes, producer, number);
	if (memcmp(item, want, v->item_bytes) != 0) {
		fail(run, "item %" PRIu32 " of producer %" PRIu32 " is damaged", number,
		     producer);
		return false;
	}
	/* One consumer sees every number, several see them rising. */
	if (v->consumers == 1 ? number != next[producer] : number < next[producer]) {
		fail(run,
		     "item %" PRIu32 " of producer %" PRIu32 " came, expected %" PRIu32,
		     number, producer, next[producer]);
		return false;
	}
	next[producer] = number + 1;
	/* Relaxed: a count, looked at when all sides have ended. */
	if (atomic_fetch_add_explicit(&run->taken[producer * run->items + number], 1,
				      memory_order_relaxed) != 0) {
		fail(run, "item %" PRIu32 " of producer %" PRIu32 " came twice", number,
		     producer);
		return false;
	}
	return true;
}

static void consume(const struct actor *a, struct side *side, uint64_t *rng)
{
	struct run *run = a->run;
	const struct variant *v = run->variant;
	uint64_t batch[BATCH_MAX * ITEM_BYTES_MAX / sizeof(uint64_t)];
	uint32_t words = v->item_bytes / sizeof(uint64_t);
	uint32_t next[SIDES_MAX] = { 0 };

	/* Mostly full: not before a producer has met it full. */
	while (run->mood == MOSTLY_FULL && !stopped(run) &&
	       atomic_load_explicit(&run->full_count, memory_order_relaxed) == 0)
		sched_yield();

	while (!stopped(run) &&
	       atomic_load_explicit(&run->taken_count, memory_order_relaxed) <
		       v->producers * run->items) {
		uint32_t n = v->take(side, batch, 1 + rnd(rng, BATCH_MAX));

		if (n == 0) {
			atomic_fetch_add_explicit(&run->empty_count, 1,
						  memory_order_relaxed);
			sched_yield();
			continue;
		}
		atomic_fetch_add_explicit(&run->taken_count, n, memory_order_relaxed);
		for (uint32_t i = 0; i < n; i++)
			if (!item_check(run, batch + i * words, next))
				return;
		dawdle(a, rng);
	}
}

static void *actor_main(void *arg)
{
	const struct actor *a = arg;
	struct side side = { .mem = a->run->ring };
	uint64_t rng = a->run->seed ^ mix(a->index * 2 + a->producer + 1);

	if (a->run->variant->side_init)
		a->run->variant->side_init(&side);
	if (a->producer)
		produce(a, &side, &rng);
	else
		consume(a, &side, &rng);
	return NULL;
}

static void actors_as_threads(struct actor *actors, uint32_t n)
{
	pthread_t threads[2 * SIDES_MAX];

	for (uint32_t i = 0; i < n; i++) {
		if (pthread_create(&threads[i], NULL, actor_main, &actors[i]) != 0) {
			perror("ring_stress: pthread_create");
			exit(2);
		}
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void actors_as_processes(struct actor *actors, uint32_t n)
{
	pid_t pids[2 * SIDES_MAX], parent = getpid();

	for (uint32_t i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] == -1) {
			perror("ring_stress: fork");
			exit(2);
		}
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(99);
			actor_main(&actors[i]);
			_exit(0);
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		int status;

		if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
			fail(actors[i].run, "actor %" PRIu32 " ended with status 0x%x", i,
			     (unsigned int)status);
	}
}

/* When all sides have ended: each item once, nothing in the ring. */
static void run_check_end(struct run *run)
{
	const struct variant *v = run->variant;

	for (uint32_t i = 0; i < v->producers * run->items; i++) {
		/* Relaxed: the sides were joined. */
		uint8_t times =
			atomic_load_explicit(&run->taken[i], memory_order_relaxed);

		if (times != 1)
			fail(run,
			     "item %" PRIu32 " of producer %" PRIu32 " came %u times",
			     i % run->items, i / run->items, times);
	}
	if (!v->is_empty(run->ring))
		fail(run, "something is left in the ring");
}

static void *shared_new(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);

	if (mem == MAP_FAILED) {
		perror("ring_stress: mmap");
		exit(2);
	}
	return mem;
}

static bool run_once(const struct variant *v, enum mood mood, uint64_t seed,
		     uint32_t items, bool processes)
{
	size_t run_bytes = sizeof(struct run) + (size_t)v->producers * items;
	size_t ring_bytes = v->ring_init(NULL);
	struct run *run = shared_new(run_bytes);
	struct actor actors[2 * SIDES_MAX];
	uint32_t n = 0;
	bool ok;

	run->variant = v;
	run->ring = shared_new(ring_bytes);
	run->mood = mood;
	run->seed = seed;
	run->items = items;
	v->ring_init(run->ring);
	for (uint32_t i = 0; i < v->consumers; i++)
		actors[n++] = (struct actor){ run, i, false };
	for (uint32_t i = 0; i < v->producers; i++)
		actors[n++] = (struct actor){ run, i, true };
	if (processes)
		actors_as_processes(actors, n);
	else
		actors_as_threads(actors, n);
	if (!stopped(run))
		run_check_end(run);
	ok = !stopped(run);
	printf("%-12s %-12s seed %" PRIu64 ": %" PRIu32 " items, full %" PRIu32
	       " times, empty %" PRIu32 ": %s%s\n",
	       v->name, mood == MOSTLY_FULL ? "mostly full" : "mostly empty", seed,
	       v->producers * items, run->full_count, run->empty_count,
	       ok ? "ok" : "FAILED: ", ok ? "" : run->failure);
	fflush(stdout);
	munmap(run->ring, ring_bytes);
	munmap(run, run_bytes);
	return ok;
}

#endif
