/* SPDX-License-Identifier: MIT */
/* What a worker's list of regions says of an address, and what it makes of them. */
#include "region/shared.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pages.h"
#include "proc.h"
#include "support.h"

static void a_list_covers_what_lay_in_one_region_then(void **state)
{
	struct rpi_shared_map map;
	uint8_t *low, *high;
	uint8_t *small;
	uint8_t *later;
	uint8_t local[8];
	void *ptr;

	(void)state;
	small = bed_shared(100, 0);
	/* Neighbours in the span, most likely: no range may lie across them. */
	assert_int_equal(rp_shared_alloc_pages(2 * MIB, RP_PAGES_NEVER, &ptr), 0);
	low = ptr;
	assert_int_equal(rp_shared_alloc_pages(2 * MIB, RP_PAGES_NEVER, &ptr), 0);
	high = ptr;
	if (high < low) {
		high = low;
		low = ptr;
	}
	assert_int_equal(rpi_shared_snapshot(&map), 0);
	later = bed_shared(2 * MIB, 0);
	{
		const struct {
			const char *name;
			const void *addr;
			size_t bytes;
			bool want;
		} cases[] = {
			{ "all of it", low, 2 * MIB, true },
			{ "its first byte", low, 1, true },
			{ "its last byte", low + 2 * MIB - 1, 1, true },
			{ "nothing of it", low, 0, true },
			{ "one byte more", low, 2 * MIB + 1, false },
			{ "across its end", low + 2 * MIB - 1, 2, false },
			{ "before it", low - 1, 2, false },
			{ "all of the other", high, 2 * MIB, true },
			{ "the end of the other", high + 2 * MIB - 8, 8, true },
			{ "behind the other", high + 2 * MIB, 1, false },
			{ "wraps", low + 8, SIZE_MAX - 4, false },
			{ "most there can be", low, SIZE_MAX, false },
			{ "a small block", small, 100, true },
			{ "made afterwards", later, 1, false },
			{ "the stack", local, sizeof(local), false },
			{ "NULL", NULL, 1, false },
			{ "NULL, nothing", NULL, 0, false },
			{ "the highest", (void *)UINTPTR_MAX, 1, false },
		};

		for (size_t i = 0; i < COUNT(cases); i++)
			if (rpi_shared_map_covers(&map, cases[i].addr, cases[i].bytes) !=
			    cases[i].want)
				fail_msg("%s", cases[i].name);
	}
	rpi_shared_map_release(&map);
	assert_false(rpi_shared_map_covers(&map, low, 1));
	assert_ok(rp_shared_free(small));
	assert_ok(rp_shared_free(low));
	assert_ok(rp_shared_free(high));
	assert_ok(rp_shared_free(later));
}

static void a_freed_region_is_covered_no_more_not_even_when_its_address_is(void **state)
{
	struct rpi_shared_map before, both, after;
	uint8_t *keeps = bed_shared(MIB, 0);
	uint8_t *old = bed_shared(3 * MIB, 0);
	uint8_t *new;

	(void)state;
	assert_int_equal(rpi_shared_snapshot(&before), 0);
	assert_int_equal(rpi_shared_snapshot(&both), 0);
	assert_true(rpi_shared_map_covers(&before, old, 3 * MIB));
	assert_ok(rp_shared_free(old));
	assert_false(rpi_shared_map_covers(&before, old, 1));
	assert_false(rpi_shared_map_covers(&both, old, 0));
	new = bed_shared(3 * MIB, 0);
	assert_ptr_equal(new, old);
	assert_int_equal(rpi_shared_snapshot(&after), 0);
	assert_false(rpi_shared_map_covers(&before, new, 1));
	assert_true(rpi_shared_map_covers(&after, new, 3 * MIB));
	/* One list's end is no other's. */
	rpi_shared_map_release(&both);
	assert_ok(rp_shared_free(new));
	assert_false(rpi_shared_map_covers(&after, new, 1));
	assert_true(rpi_shared_map_covers(&before, keeps, MIB));
	assert_true(rpi_shared_map_covers(&after, keeps, MIB));
	rpi_shared_map_release(&before);
	assert_ok(rp_shared_free(keeps));
	assert_false(rpi_shared_map_covers(&after, keeps, MIB));
	rpi_shared_map_release(&after);
}

static void a_list_of_any_length_finds_each_of_its_regions(void **state)
{
	uint8_t *regions[33];
	void *ptr;

	(void)state;
	for (size_t count = 0; count <= COUNT(regions); count++) {
		struct rpi_shared_map map;

		assert_int_equal(rpi_shared_snapshot(&map), 0);
		assert_true(map.count >= count);
		for (size_t i = 0; i < count; i++) {
			assert_true(rpi_shared_map_covers(&map, regions[i], 4096));
			assert_true(rpi_shared_map_covers(&map, regions[i] + 4095, 1));
			assert_false(rpi_shared_map_covers(&map, regions[i] + 4095, 2));
			assert_true(!i || map.entries[i - 1].high <= map.entries[i].low);
		}
		rpi_shared_map_release(&map);
		if (count == COUNT(regions))
			break;
		assert_int_equal(rp_shared_alloc_pages(4096, RP_PAGES_NEVER, &ptr), 0);
		regions[count] = ptr;
	}
	for (size_t i = 0; i < COUNT(regions); i++)
		assert_ok(rp_shared_free(regions[i]));
}

static void an_empty_list_covers_nothing(void **state)
{
	struct rpi_shared_map map = { 0 };

	(void)state;
	assert_false(rpi_shared_map_covers(&map, &map, 1));
	assert_false(rpi_shared_map_covers(&map, NULL, 0));
	assert_int_equal(rpi_shared_map_populate(&map, SIZE_MAX), 0);
	assert_int_equal(rpi_shared_map_info(&map, NULL, 0), 0);
}

struct asker {
	struct rpi_shared_map *map;
	const uint8_t *stays, *goes;
	_Atomic bool stop, wrong;
};

static void *asks(void *arg)
{
	struct asker *asker = arg;
	bool gone = false;

	while (!atomic_load(&asker->stop)) {
		bool covered = rpi_shared_map_covers(asker->map, asker->goes, 8);

		/* Once gone, it never comes back. */
		if (!rpi_shared_map_covers(asker->map, asker->stays, MIB) ||
		    (gone && covered))
			atomic_store(&asker->wrong, true);
		gone = !covered;
	}
	if (!gone)
		atomic_store(&asker->wrong, true);
	return NULL;
}

static void threads_may_ask_while_others_free(void **state)
{
	struct rpi_shared_map map;
	void *stays = bed_shared(MIB, 0);
	void *goes = bed_shared(MIB, 0);
	struct asker asker = { .map = &map, .stays = stays, .goes = goes };
	pthread_t threads[2];

	(void)state;
	assert_int_equal(rpi_shared_snapshot(&map), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, asks, &asker), 0);
	usleep(1000);
	assert_ok(rp_shared_free(goes));
	for (int i = 0; i < 20; i++)
		assert_ok(rp_shared_free(bed_shared(MIB, 0)));
	/* Another look at least, after the free. */
	usleep(1000);
	atomic_store(&asker.stop, true);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(asker.wrong);
	rpi_shared_map_release(&map);
	assert_ok(rp_shared_free(stays));
}

static struct rpi_shared_map seen;
static uint8_t *listed_small, *listed_large;

static int populates_all(void *arg)
{
	(void)arg;
	PROC_MUST(!rpi_shared_map_populate(&seen, SIZE_MAX));
	PROC_MUST(pages_faults_of_writing(listed_large, 3 * MIB) == 0);
	PROC_MUST(pages_faults_of_writing(listed_small, 1000) == 0);
	PROC_MUST(listed_large[0] == 7 && listed_large[3 * MIB - 1] == 8);
	return 0;
}

static int populates_nothing(void *arg)
{
	(void)arg;
	PROC_MUST(!rpi_shared_map_populate(&seen, 0));
	PROC_MUST(pages_faults_of_writing(listed_large, 3 * MIB) > 0);
	return 0;
}

static void a_worker_that_populates_its_list_has_no_faults(void **state)
{
	void *ptr, *freed;

	(void)state;
	listed_small = bed_shared(1000, 0);
	freed = bed_shared(2 * MIB, 0);
	assert_int_equal(rp_shared_alloc_pages(3 * MIB, RP_PAGES_NEVER, &ptr), 0);
	listed_large = ptr;
	assert_int_equal(pages_faults_of_writing(listed_large, 3 * MIB), 0);
	assert_int_equal(pages_faults_of_writing(listed_small, 1000), 0);
	listed_large[0] = 7;
	listed_large[3 * MIB - 1] = 8;
	assert_int_equal(rpi_shared_snapshot(&seen), 0);
	/* Gone between the list and the fork: passed over. */
	assert_ok(rp_shared_free(freed));
	assert_int_equal(proc_in_host(populates_nothing, NULL), 0);
	assert_int_equal(proc_in_host(populates_all, NULL), 0);
	rpi_shared_map_release(&seen);
	assert_ok(rp_shared_free(listed_small));
	assert_ok(rp_shared_free(listed_large));
}

static void a_report_shows_the_listed_regions_that_live(void **state)
{
	struct rp_region_info infos[16];
	struct rpi_shared_map map;
	void *first, *second, *later;
	size_t count;

	(void)state;
	assert_int_equal(rp_shared_alloc_pages(5000, RP_PAGES_NEVER, &first), 0);
	assert_int_equal(rp_shared_alloc_pages(3 * MIB, RP_PAGES_NEVER, &second), 0);
	assert_int_equal(rpi_shared_snapshot(&map), 0);
	later = bed_shared(MIB, 0);
	count = rpi_shared_map_info(&map, infos, COUNT(infos));
	assert_int_equal(count, map.count);
	for (size_t i = 0; i < count; i++) {
		assert_ptr_not_equal(infos[i].base, later);
		if (infos[i].base == first)
			assert_int_equal(infos[i].bytes, 8192);
		if (infos[i].base == second)
			assert_int_equal(infos[i].populated_bytes, 3 * MIB);
	}
	/* How many there are, whatever there is room for. */
	assert_int_equal(rpi_shared_map_info(&map, NULL, 0), count);
	infos[1].bytes = 123;
	assert_int_equal(rpi_shared_map_info(&map, infos, 1), count);
	assert_int_equal(infos[1].bytes, 123);
	assert_ok(rp_shared_free(second));
	assert_int_equal(rpi_shared_map_info(&map, infos, COUNT(infos)), count - 1);
	rpi_shared_map_release(&map);
	assert_ok(rp_shared_free(first));
	assert_ok(rp_shared_free(later));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_covers_what_lay_in_one_region_then),
		cmocka_unit_test(
			a_freed_region_is_covered_no_more_not_even_when_its_address_is),
		cmocka_unit_test(a_list_of_any_length_finds_each_of_its_regions),
		cmocka_unit_test(an_empty_list_covers_nothing),
		cmocka_unit_test(threads_may_ask_while_others_free),
		cmocka_unit_test(a_worker_that_populates_its_list_has_no_faults),
		cmocka_unit_test(a_report_shows_the_listed_regions_that_live),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("shared_map", tests, NULL, NULL);
}
