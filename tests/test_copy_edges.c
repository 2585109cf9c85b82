/* SPDX-License-Identifier: MIT */
/* Copies at every edge at which they change their way: what rides in the command, one
 * piece, several, more than there are places for, and what goes around the caches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <ringplane/ringplane.h>

#include "memory/copy.h"
#include "noop.h"
#include "staging/command.h"

#define CHIPS	   2
#define KIB	   ((size_t)1 << 10)
#define MIB	   ((size_t)1 << 20)
#define MARGIN	   64
#define WATCHDOG_S 300
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

static struct rp_program *program;
static struct rp_worker *worker;
static size_t room; /* of each buffer */
static uint64_t device[CHIPS];
static uint8_t *from, *to; /* private: staged */
static uint8_t *shared[2]; /* seen by the chips: named */
static uint8_t *expected;

static void fill(uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 1664525u + 1013904223u;
		at[i] = (uint8_t)(seed >> 24);
	}
}

static void make_buffers(void)
{
	void *at;

	room = rpi_copy_around_bytes() + 6 * MIB;
	from = malloc(room);
	to = malloc(room);
	expected = malloc(room);
	assert_true(from && to && expected);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rp_shared_alloc(room, &at), 0);
		shared[i] = at;
	}
	fill(from, room, 1);
	memcpy(shared[0], from, room);
}

static int open_worker(void **state)
{
	static const struct rp_entry entry = { "empty", noop_entry };
	struct rp_worker_options options;
	struct rp_program_desc desc;

	(void)state;
	alarm(WATCHDOG_S);
	make_buffers();
	rp_program_desc_init(&desc);
	desc.name = "copy";
	desc.entries = &entry;
	desc.entry_count = 1;
	assert_int_equal(rp_program_create(&desc, &program), 0);
	rp_worker_options_init(&options);
	options.chip_count = CHIPS;
	options.device_memory_bytes = 2 * room;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), 0);
	for (uint32_t chip = 0; chip < CHIPS; chip++)
		assert_int_equal(
			rp_worker_device_alloc(worker, chip, room, &device[chip]), 0);
	return 0;
}

static int close_worker(void **state)
{
	(void)state;
	rp_worker_free(worker);
	rp_program_free(program);
	rp_shared_free(shared[0]);
	rp_shared_free(shared[1]);
	free(from);
	free(to);
	free(expected);
	alarm(0);
	return 0;
}

/* Up from one buffer and down into the other, with nothing around it touched, at odd
 * addresses on both sides. */
static void round_trip(const uint8_t *source, uint8_t *target, size_t bytes, size_t shift)
{
	assert_true(bytes + 2 * MARGIN < room);
	memset(target, 0xee, bytes + 2 * MARGIN);
	memset(expected, 0xee, bytes + 2 * MARGIN);
	memcpy(expected + MARGIN, source + shift, bytes);
	assert_int_equal(
		rp_worker_copy_to(worker, 1, device[1], shift, source, shift, bytes), 0);
	assert_int_equal(
		rp_worker_copy_from(worker, 1, device[1], shift, target, MARGIN, bytes),
		0);
	if (memcmp(target, expected, bytes + 2 * MARGIN))
		fail_msg("%zu bytes from byte %zu on did not come back as they went",
			 bytes, shift);
}

static size_t edge(size_t i)
{
	static const size_t edges[] = {
		1,	   RPI_COMMAND_INLINE, 8 * KIB,	  16 * KIB, 32 * KIB, 64 * KIB,
		128 * KIB, 256 * KIB,	       320 * KIB, MIB,	    4 * MIB,  5 * MIB,
	};

	if (i < COUNT(edges))
		return edges[i];
	i -= COUNT(edges);
	return i < 2 ? rpi_copy_around_bytes() + i * 5 * MIB : 0;
}

static void check_edges(const uint8_t *source, uint8_t *target)
{
	for (size_t i = 0; edge(i); i++) {
		round_trip(source, target, edge(i), 0);
		round_trip(source, target, edge(i), 3);
		round_trip(source, target, edge(i) + 1, 1);
		if (edge(i) > 1)
			round_trip(source, target, edge(i) - 1, 2);
	}
}

static void check_paths(uint64_t staged_before, uint64_t named_before, bool staged)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	assert_int_equal(rp_worker_get_stats(worker, &stats), 0);
	assert_int_equal(stats.bytes_staged > staged_before, staged);
	assert_int_equal(stats.bytes_named > named_before, !staged);
}

static void staged_copies_are_right_at_every_edge(void **state)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	(void)state;
	assert_int_equal(rp_worker_get_stats(worker, &stats), 0);
	check_edges(from, to);
	check_paths(stats.bytes_staged, stats.bytes_named, true);
}

static void named_copies_are_right_at_every_edge(void **state)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	(void)state;
	assert_int_equal(rp_worker_get_stats(worker, &stats), 0);
	check_edges(shared[0], shared[1]);
	check_paths(stats.bytes_staged, stats.bytes_named, false);
}

static void a_fan_out_brings_the_same_to_every_chip(void **state)
{
	static const uint32_t chips[CHIPS] = { 1, 0 };
	const uint64_t addresses[CHIPS] = { device[1], device[0] };

	(void)state;
	for (size_t i = 0; edge(i); i++) {
		size_t bytes = edge(i);

		/* So that what the size before left does not count. */
		fill(from, bytes, (uint32_t)i + 2);
		assert_int_equal(rp_worker_copy_to_all(worker, chips, addresses, CHIPS, 7,
						       from, bytes),
				 0);
		for (uint32_t chip = 0; chip < CHIPS; chip++) {
			memset(to, 0xee, bytes);
			assert_int_equal(rp_worker_copy_from(worker, chip, device[chip],
							     7, to, 0, bytes),
					 0);
			if (memcmp(to, from, bytes))
				fail_msg("chip %u: %zu bytes differ", chip, bytes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(staged_copies_are_right_at_every_edge),
		cmocka_unit_test(named_copies_are_right_at_every_edge),
		cmocka_unit_test(a_fan_out_brings_the_same_to_every_chip),
	};

	return cmocka_run_group_tests_name("copy_edges", tests, open_worker,
					   close_worker);
}
