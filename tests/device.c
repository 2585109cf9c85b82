/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/testing.h"
#include "proc.h"
#include "support.h"
#include "worker/worker.h"

int device_setup(void **state, struct bed *bed, uint32_t chip_count, size_t memory_bytes)
{
	struct rp_worker_options options;
	int err = bed_setup(state);

	trap_install();
	bed_options(&options, chip_count);
	options.device_memory_bytes = memory_bytes;
	bed_open_with(bed, &options);
	return err;
}

int device_teardown(void **state, struct bed *bed)
{
	trap_uninstall();
	bed_close(bed);
	return bed_teardown(state);
}

uint64_t device_must_alloc(struct bed *bed, uint32_t chip, size_t bytes)
{
	uint64_t address = 0;

	assert_ok(rp_worker_device_alloc(bed->worker, chip, bytes, &address));
	return address;
}

uint64_t device_seed(uint64_t usual)
{
	const char *given = getenv("RINGPLANE_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : usual;

	print_message("seed %" PRIu64 " (RINGPLANE_TEST_SEED)\n", seed);
	return seed;
}

/* The word that a pattern has at a multiple of 8. */
static uint64_t word_at(size_t at, uint64_t seed)
{
	return (at / 8 + 1 + seed * UINT64_C(0x9e3779b97f4a7c15)) *
	       UINT64_C(0xbf58476d1ce4e5b9);
}

void device_fill(void *at, size_t bytes, uint64_t seed)
{
	uint8_t *to = at;
	size_t i;

	for (i = 0; i < bytes; i += 8) {
		uint64_t word = word_at(i, seed);

		memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

bool device_holds(const void *at, size_t bytes, uint64_t seed)
{
	const uint8_t *from = at;
	size_t i;

	for (i = 0; i < bytes; i += 8) {
		uint64_t word = word_at(i, seed);

		if (!memcmp(from + i, &word, bytes - i < 8 ? bytes - i : 8))
			continue;
		fprintf(stderr, "not what seed %" PRIu64 " wrote, at %zu of %zu bytes\n",
			seed, i, bytes);
		return false;
	}
	return true;
}

uint64_t device_committed(struct rp_worker *worker, uint32_t chip)
{
	uint64_t bytes = 0;

	assert_ok(rp_worker_committed_device_memory(worker, chip, &bytes));
	return bytes - atomic_load(&worker->plane.peers[chip].counts.arena_bytes);
}

int device_round_trip(struct rp_worker *worker, uint32_t chip, uint64_t address,
		      size_t bytes, uint64_t seed)
{
	uint8_t *host = malloc(bytes);
	int err;

	device_fill(host, bytes, seed);
	err = rp_worker_copy_to(worker, chip, address, 0, host, 0, bytes);
	memset(host, 0, bytes);
	if (!err)
		err = rp_worker_copy_from(worker, chip, address, 0, host, 0, bytes);
	if (!err && !device_holds(host, bytes, seed))
		err = -EBADMSG;
	free(host);
	return err;
}

enum trap_kind {
	TRAP_OFF,
	TRAP_FAIL,
	TRAP_KILL,
	TRAP_MEET,
};

/* Shared with the processes. Written while the kind is TRAP_OFF. */
static struct trap {
	_Atomic uint32_t kind;
	_Atomic uint32_t hits;
	_Atomic uint32_t missed;
	char point[32];
	pid_t where;
	pid_t victim;
	unsigned nth;
	unsigned times;
	int err;
} * trap;

static bool all_are_here(void *arg)
{
	return atomic_load(&trap->hits) >= *(const unsigned *)arg ||
	       atomic_load(&trap->kind) != TRAP_MEET;
}

static int step_in(unsigned hit)
{
	switch (atomic_load(&trap->kind)) {
	case TRAP_FAIL:
		return hit >= trap->nth && hit - trap->nth < trap->times ? trap->err : 0;
	case TRAP_KILL:
		if (hit != trap->nth)
			return 0;
		kill(trap->victim, SIGKILL);
		proc_await_gone(trap->victim);
		return 0;
	case TRAP_MEET:
		if (!proc_await(all_are_here, &trap->times))
			atomic_store(&trap->missed, 1);
		return 0;
	default:
		return 0;
	}
}

static int at_point(const char *point)
{
	if (atomic_load(&trap->kind) == TRAP_OFF || strcmp(point, trap->point) ||
	    (trap->where && trap->where != getpid()))
		return 0;
	return step_in(atomic_fetch_add(&trap->hits, 1) + 1);
}

void trap_install(void)
{
	trap = mmap(NULL, sizeof(*trap), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(trap != MAP_FAILED);
	rpi_test_hook = at_point;
}

static void set(const char *point, pid_t where)
{
	trap_off();
	snprintf(trap->point, sizeof(trap->point), "%s", point);
	trap->where = where;
	atomic_store(&trap->hits, 0);
	atomic_store(&trap->missed, 0);
}

void trap_fail(const char *point, pid_t where, unsigned nth, unsigned times, int err)
{
	set(point, where);
	trap->nth = nth;
	trap->times = times;
	trap->err = err;
	atomic_store(&trap->kind, TRAP_FAIL);
}

void trap_kill(const char *point, pid_t where, unsigned nth, pid_t victim)
{
	set(point, where);
	trap->nth = nth;
	trap->victim = victim;
	atomic_store(&trap->kind, TRAP_KILL);
}

void trap_meet(const char *point, unsigned others)
{
	set(point, 0);
	trap->times = others;
	atomic_store(&trap->kind, TRAP_MEET);
}

bool trap_met(void)
{
	return !atomic_load(&trap->missed) && atomic_load(&trap->hits) >= trap->times;
}

void trap_off(void)
{
	atomic_store(&trap->kind, TRAP_OFF);
}

unsigned trap_hits(void)
{
	return atomic_load(&trap->hits);
}

void trap_uninstall(void)
{
	rpi_test_hook = NULL;
	munmap(trap, sizeof(*trap));
	trap = NULL;
}
