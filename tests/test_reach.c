/* SPDX-License-Identifier: MIT */
/* The table of what a worker's processes have of the shared memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "memory/reach.h"

#define LOW   ((uintptr_t)7 * RPI_REACH_GRANULE)
#define BYTES (64 * RPI_REACH_GRANULE)
#define PAGE  RPI_REACH_PAGE
#define G     RPI_REACH_GRANULE

static struct rpi_reach reach;

static int set_up(void **state)
{
	(void)state;
	return rpi_reach_init(&reach, LOW, BYTES);
}

static int tear_down(void **state)
{
	(void)state;
	rpi_reach_fini(&reach);
	return 0;
}

static bool covers(uintptr_t addr, size_t bytes)
{
	return rpi_reach_covers(&reach, (const void *)addr, bytes);
}

static void a_region_is_covered_from_its_first_to_its_last_byte(void **state)
{
	static const struct {
		const char *name;
		uintptr_t low; /* of the region, from the range's start */
		size_t bytes;
	} cases[] = {
		{ "a page at the very start", 0, PAGE },
		{ "a granule", 3 * G, G },
		{ "a granule and a page", 8 * G, G + PAGE },
		{ "many", 16 * G, 9 * G },
		{ "the last page of a granule missing", 30 * G, G - PAGE },
		{ "to the very end", 60 * G, 4 * G },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uintptr_t low = LOW + cases[i].low, high = low + cases[i].bytes;

		assert_false(covers(low, 1));
		rpi_reach_pend(&reach, low, cases[i].bytes);
		assert_false(covers(low, 1));
		assert_false(covers(low, 0));
		rpi_reach_set(&reach, low, cases[i].bytes);
		assert_true(covers(low, cases[i].bytes));
		assert_true(covers(low, 1));
		assert_true(covers(high - 1, 1));
		assert_true(covers(high - 8, 8));
		assert_false(covers(low - 1, 1));
		assert_false(covers(low - 1, 2));
		assert_false(covers(high, 0));
		assert_false(covers(high, 1));
		assert_false(covers(high - 1, 2));
		assert_false(covers(low, cases[i].bytes + 1));
		assert_false(covers(low + 1, SIZE_MAX));
		assert_int_equal(rpi_reach_low(&reach, rpi_reach_word(&reach, high - 1)),
				 low);
		assert_int_equal(rpi_reach_bytes(rpi_reach_word(&reach, low)),
				 cases[i].bytes);
		rpi_reach_leave(&reach, low, cases[i].bytes);
		assert_false(covers(low, 1));
		assert_true(rpi_reach_word(&reach, high - 1) == RPI_REACH_LEFT);
		assert_false(rpi_reach_is_pending(rpi_reach_word(&reach, low)));
		rpi_reach_clear(&reach, low, cases[i].bytes);
		assert_false(covers(low, 0));
	}
}

static void neighbours_are_two_regions(void **state)
{
	(void)state;
	rpi_reach_set(&reach, LOW + 4 * G, 2 * G);
	rpi_reach_set(&reach, LOW + 6 * G, 2 * G);
	assert_true(covers(LOW + 5 * G, G));
	assert_true(covers(LOW + 6 * G, 2 * G));
	/* Each may go without the other. */
	assert_false(covers(LOW + 5 * G, G + 1));
	rpi_reach_clear(&reach, LOW + 4 * G, 2 * G);
	assert_false(covers(LOW + 5 * G, 1));
	assert_true(covers(LOW + 6 * G, 2 * G));
}

static void outside_the_range_nothing_is_covered(void **state)
{
	struct rpi_reach none = { 0 };

	(void)state;
	rpi_reach_set(&reach, LOW, BYTES);
	assert_true(covers(LOW, BYTES));
	assert_false(covers(LOW - 1, 1));
	assert_false(covers(LOW + BYTES, 1));
	assert_false(covers(0, 1));
	assert_false(covers(UINTPTR_MAX, 1));
	assert_false(rpi_reach_covers(&none, &none, 0));
	assert_false(rpi_reach_covers(&none, NULL, 0));
}

static void what_is_reached_is_listed_in_order(void **state)
{
	static const struct {
		size_t granule, bytes;
	} sets[] = { { 40, 3 * G }, { 2, PAGE }, { 10, G + PAGE }, { 63, G } };
	static const size_t order[] = { 2, 10, 40, 63 };
	uintptr_t low;
	size_t offset = 0, bytes, count = 0;

	(void)state;
	assert_false(rpi_reach_next(&reach, &offset, &low, &bytes));
	for (size_t i = 0; i < 4; i++)
		rpi_reach_set(&reach, LOW + sets[i].granule * G, sets[i].bytes);
	rpi_reach_pend(&reach, LOW + 20 * G, 4 * G);
	rpi_reach_leave(&reach, LOW + 30 * G, 4 * G);
	offset = 0;
	while (rpi_reach_next(&reach, &offset, &low, &bytes)) {
		assert_true(count < 4);
		assert_int_equal(low, LOW + order[count++] * G);
		for (size_t i = 0; i < 4; i++)
			if (low == LOW + sets[i].granule * G)
				assert_int_equal(bytes, sets[i].bytes);
	}
	assert_int_equal(count, 4);
}

static _Atomic bool stop;
static _Atomic int wrong;

/* One region stays, one comes and goes and never is more than itself. */
static void *ask(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		if (!covers(LOW + 2 * G, 2 * G) || covers(LOW + 8 * G, 3 * G) ||
		    covers(LOW + 9 * G, 2 * G))
			atomic_store(&wrong, 1);
		(void)covers(LOW + 8 * G, G);
	}
	return NULL;
}

static void any_thread_may_ask_while_one_writes(void **state)
{
	pthread_t threads[2];

	(void)state;
	rpi_reach_set(&reach, LOW + 2 * G, 2 * G);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
	for (int i = 0; i < 20000; i++) {
		rpi_reach_pend(&reach, LOW + 8 * G, 2 * G);
		rpi_reach_set(&reach, LOW + 8 * G, 2 * G);
		rpi_reach_clear(&reach, LOW + 8 * G, 2 * G);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&wrong), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_region_is_covered_from_its_first_to_its_last_byte),
		TEST(neighbours_are_two_regions),
		TEST(outside_the_range_nothing_is_covered),
		TEST(what_is_reached_is_listed_in_order),
		TEST(any_thread_may_ask_while_one_writes),
	};

	return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
