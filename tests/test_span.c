/* SPDX-License-Identifier: MIT */
/* The span of addresses that regions lie in. */
#include "region/span.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "pages.h"
#include "proc.h"
#include "region/region.h"

static bool readable(const void *addr)
{
	int pipe_fds[2];
	bool yes;

	assert_int_equal(pipe(pipe_fds), 0);
	yes = write(pipe_fds[1], addr, 1) == 1;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return yes;
}

static void the_span_gives_the_lowest_room_and_joins_what_comes_back(void **state)
{
	void *at[4], *again, *whole;

	(void)state;
	for (size_t i = 0; i < COUNT(at); i++) {
		assert_int_equal(rpi_span_take(MIB, MIB, &at[i]), 0);
		assert_int_equal((uintptr_t)at[i] % MIB, 0);
		assert_false(readable(at[i]));
	}
	for (size_t i = 1; i < COUNT(at); i++)
		assert_ptr_equal(at[i], (uint8_t *)at[i - 1] + MIB);
	/* Between, before, after, and both sides at once. */
	rpi_span_give(at[1], MIB);
	assert_int_equal(rpi_span_take(MIB, MIB, &again), 0);
	assert_ptr_equal(again, at[1]);
	rpi_span_give(at[1], MIB);
	rpi_span_give(at[3], MIB);
	rpi_span_give(at[0], MIB);
	rpi_span_give(at[2], MIB);
	assert_int_equal(rpi_span_take(4 * MIB, MIB, &whole), 0);
	assert_ptr_equal(whole, at[0]);
	rpi_span_give(whole, 4 * MIB);
}

static void the_span_aligns_and_keeps_the_rest(void **state)
{
	static const size_t aligns[] = { 4096, 2 * MIB, GIB / 4 };
	void *odd, *at[COUNT(aligns)], *rest;

	(void)state;
	assert_int_equal(rpi_span_take(4096, 4096, &odd), 0);
	for (size_t i = 0; i < COUNT(aligns); i++) {
		assert_int_equal(rpi_span_take(8192, aligns[i], &at[i]), 0);
		assert_int_equal((uintptr_t)at[i] % aligns[i], 0);
	}
	/* What alignment skipped is not lost. */
	assert_int_equal(rpi_span_take(4096, 4096, &rest), 0);
	assert_true((uintptr_t)rest < (uintptr_t)at[COUNT(aligns) - 1]);
	rpi_span_give(rest, 4096);
	for (size_t i = 0; i < COUNT(aligns); i++)
		rpi_span_give(at[i], 8192);
	rpi_span_give(odd, 4096);
	assert_int_equal(rpi_span_take(4096, 4096, &rest), 0);
	assert_ptr_equal(rest, odd);
	rpi_span_give(rest, 4096);
}

static void what_was_given_back_is_gone(void **state)
{
	struct rpi_region region;
	void *base;

	(void)state;
	assert_int_equal(rpi_region_create(&region, "t", 8192, RP_PAGES_AUTO), 0);
	base = region.base;
	assert_true(readable(base));
	rpi_region_destroy(&region);
	assert_false(readable(base));
}

static void more_than_the_span_is_refused(void **state)
{
	void *at = &at;

	(void)state;
	assert_int_equal(rpi_span_take((size_t)1 << 45, 4096, &at), -ENOMEM);
	assert_ptr_equal(at, &at);
	assert_int_equal(rpi_span_take(SIZE_MAX & ~(size_t)4095, 4096, &at), -ENOMEM);
}

struct neighbour {
	uintptr_t low;
	size_t bytes;
	atomic_bool over;
	atomic_bool inside;
};

/* A thread of the application that maps memory where the kernel likes. */
static void *map_and_unmap(void *arg)
{
	struct neighbour *neighbour = arg;

	while (!atomic_load(&neighbour->over)) {
		uint8_t *at = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED)
			continue;
		if ((uintptr_t)at - neighbour->low < neighbour->bytes)
			neighbour->inside =
				true; /* not unmapped: it may be a region now */
		else
			munmap(at, 2 * MIB);
	}
	return NULL;
}

/* Where huge pages are refused, that happens on the way to every large region. */
static void nobody_elses_mapping_gets_into_the_span(void **state)
{
	struct neighbour neighbour = { 0 };
	struct rpi_region region;
	pthread_t thread;

	(void)state;
	assert_int_equal(rpi_span_bounds(&neighbour.low, &neighbour.bytes), 0);
	assert_int_equal(pthread_create(&thread, NULL, map_and_unmap, &neighbour), 0);
	for (int i = 0; i < 3000 && !neighbour.inside; i++) {
		assert_int_equal(
			rpi_region_create_lazy(&region, "t", 4 * MIB, RP_PAGES_AUTO), 0);
		rpi_region_destroy(&region);
	}
	atomic_store(&neighbour.over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(neighbour.inside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_span_gives_the_lowest_room_and_joins_what_comes_back),
		cmocka_unit_test(the_span_aligns_and_keeps_the_rest),
		cmocka_unit_test(what_was_given_back_is_gone),
		cmocka_unit_test(more_than_the_span_is_refused),
		cmocka_unit_test(nobody_elses_mapping_gets_into_the_span),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("span", tests, NULL, NULL);
}
