/* SPDX-License-Identifier: MIT */
/* Host ranges that were listed at prepare: named in place, merged, guarded, given up. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "proc.h"
#include "support.h"
#include "worker/worker.h"

#define CHIPS	   2
#define PAGE	   ((size_t)4096)
#define ROOM_BYTES MIB

static struct bed bed;
static uint64_t addresses[CHIPS];
static struct rp_worker_stats last;

/* A worker that was given these ranges. */
static void open_with(const struct rp_host_range *ranges, size_t count)
{
	struct rp_worker_options options;
	uint32_t i;

	bed_options(&options, CHIPS);
	options.device_memory_bytes = 8 * MIB;
	options.inherited = ranges;
	options.inherited_count = count;
	bed_open_with(&bed, &options);
	for (i = 0; i < CHIPS; i++)
		assert_ok(
			rp_worker_device_alloc(bed.worker, i, ROOM_BYTES, &addresses[i]));
	last = bed_stats(&bed);
}

static int open_fails(const struct rp_host_range *ranges, size_t count)
{
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_program *program;
	struct rp_worker *worker;
	int err;

	bed_describe(&desc, "refused", NULL, 0);
	assert_ok(rp_program_create(&desc, &program));
	bed_options(&options, CHIPS);
	options.inherited = ranges;
	options.inherited_count = count;
	err = rp_worker_prepare(&program, 1, &options, &worker);
	rp_program_free(program);
	return err;
}

static int up(const void *from, size_t bytes)
{
	return rp_worker_copy_to(bed.worker, 0, addresses[0], 0, from, 0, bytes);
}

static int down(void *to, size_t bytes)
{
	return rp_worker_copy_from(bed.worker, 0, addresses[0], 0, to, 0, bytes);
}

/* What the copies since the last look have done. */
#define assert_moved(named, staged)                                             \
	do {                                                                    \
		struct rp_worker_stats now = bed_stats(&bed);                   \
		assert_int_equal(now.bytes_named - last.bytes_named, named);    \
		assert_int_equal(now.bytes_staged - last.bytes_staged, staged); \
		last = now;                                                     \
	} while (0)

static uint8_t *map_shared(size_t bytes)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static uint8_t *map_memfd(size_t bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint8_t *at;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	assert_true(at != MAP_FAILED);
	return at;
}

static unsigned warnings;

static void count_warnings(enum rp_log_level level, const char *line, void *user)
{
	(void)line;
	(void)user;
	warnings += level == RP_LOG_WARN;
}

static int set_up(void **state)
{
	warnings = 0;
	rp_log_set(count_warnings, NULL, RP_LOG_WARN);
	return bed_setup(state);
}

static int tear_down(void **state)
{
	rp_log_set(NULL, NULL, RP_LOG_WARN);
	if (bed.worker)
		bed_close(&bed);
	return bed_teardown(state);
}

static void a_listed_range_is_named_in_both_directions(void **state)
{
	uint8_t *(*const kinds[])(size_t) = { map_shared, map_memfd };
	static const struct {
		size_t at, bytes;
	} views[] = { { 0, ROOM_BYTES }, { 0, 1000 },	  { 5, 70001 },
		      { 4095, 4098 },	 { 777, 300000 }, { ROOM_BYTES - 999, 999 } };
	uint8_t *plain = malloc(ROOM_BYTES);
	size_t k, i;

	(void)state;
	for (k = 0; k < COUNT(kinds); k++) {
		struct rp_host_range range = { .base = kinds[k](ROOM_BYTES),
					       .bytes = ROOM_BYTES };
		uint8_t *at = range.base;

		open_with(&range, 1);
		for (i = 0; i < COUNT(views); i++) {
			const size_t n = views[i].bytes;

			/* Written after the fork, seen all the same. */
			device_fill(at + views[i].at, n, i);
			assert_ok(up(at + views[i].at, n));
			assert_moved(n, 0);
			assert_ok(down(plain, n));
			assert_moved(0, n);
			assert_true(device_holds(plain, n, i));
			memset(at + views[i].at, 0, n);
			assert_ok(down(at + views[i].at, n));
			assert_moved(n, 0);
			assert_true(device_holds(at + views[i].at, n, i));
		}
		assert_int_equal(warnings, 0);
		bed_close(&bed);
		munmap(at, ROOM_BYTES);
	}
	free(plain);
}

static void a_fan_out_and_a_stack_name_it_too(void **state)
{
	struct rp_host_range range = { .base = map_shared(ROOM_BYTES),
				       .bytes = ROOM_BYTES };
	struct rp_tensor host, stack;

	(void)state;
	open_with(&range, 1);
	device_fill(range.base, ROOM_BYTES, 5);
	assert_ok(rp_worker_copy_to_all(bed.worker, (uint32_t[]){ 0, 1 }, addresses, 2, 0,
					range.base, ROOM_BYTES));
	assert_moved(ROOM_BYTES, 0);
	host = TENSOR(range.base, RP_UINT8, 2, (int64_t)ROOM_BYTES / 2);
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	assert_moved(ROOM_BYTES, 0);
	memset(range.base, 0, ROOM_BYTES);
	assert_ok(rp_worker_copy_stacked_from(bed.worker, &stack, &host));
	assert_moved(ROOM_BYTES, 0);
	assert_true(device_holds(range.base, ROOM_BYTES, 5));
}

static void what_is_partly_inside_is_staged_whole(void **state)
{
	uint8_t *at = map_shared(64 * PAGE);
	struct rp_host_range range = { at + 16 * PAGE, 16 * PAGE, false };
	static const struct {
		size_t at, bytes;
		bool named;
	} cases[] = {
		{ 16 * PAGE, 16 * PAGE, true },	     { 16 * PAGE - 1, 300, false },
		{ 32 * PAGE - 299, 300, false },     { 32 * PAGE - 300, 300, true },
		{ 16 * PAGE, 16 * PAGE + 1, false }, { 8 * PAGE, 40 * PAGE, false },
		{ 32 * PAGE, 300, false },	     { 15 * PAGE, PAGE, false },
	};
	size_t i;

	(void)state;
	open_with(&range, 1);
	for (i = 0; i < COUNT(cases); i++) {
		const size_t n = cases[i].bytes;

		device_fill(at + cases[i].at, n, i);
		assert_ok(up(at + cases[i].at, n));
		assert_moved(cases[i].named ? n : 0, cases[i].named ? 0 : n);
		memset(at + cases[i].at, 0, n);
		assert_ok(down(at + cases[i].at, n));
		assert_moved(cases[i].named ? n : 0, cases[i].named ? 0 : n);
		assert_true(device_holds(at + cases[i].at, n, i));
	}
}

static void one_storage_is_one_buffer_whatever_views_are_listed(void **state)
{
	uint8_t *at = map_shared(64 * PAGE);
	const struct {
		struct rp_host_range ranges[5];
		size_t count, buffers;
	} cases[] = {
		/* w, its first part and the rest */
		{ { { at, 8 * PAGE, false },
		    { at, 2 * PAGE, false },
		    { at + 2 * PAGE, 6 * PAGE, false } },
		  3,
		  1 },
		/* the same thing twice */
		{ { { at, PAGE, false }, { at, PAGE, false } }, 2, 1 },
		/* a chain, from its end */
		{ { { at + 300, 100, false },
		    { at + 200, 101, false },
		    { at + 100, 101, false },
		    { at, 101, false } },
		  4,
		  1 },
		/* one around two that are apart */
		{ { { at + 100, 50, false },
		    { at + 900, 50, false },
		    { at, 1000, false } },
		  3,
		  1 },
		/* neighbours share no byte */
		{ { { at, PAGE, false }, { at + PAGE, PAGE, false } }, 2, 2 },
		{ { { at, 1, false }, { at + 2, 1, false } }, 2, 2 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		open_with(cases[i].ranges, cases[i].count);
		assert_int_equal(bed.worker->inherited.count, cases[i].buffers);
		bed_close(&bed);
	}
	/* A view across what overlaps is named, across neighbours it is not. */
	open_with((struct rp_host_range[]){ { at, 3 * PAGE, false },
					    { at + 2 * PAGE, 3 * PAGE, false },
					    { at + 5 * PAGE, PAGE, false } },
		  3);
	assert_ok(up(at, 5 * PAGE));
	assert_moved(5 * PAGE, 0);
	assert_ok(up(at + 4 * PAGE, 2 * PAGE));
	assert_moved(0, 2 * PAGE);
}

static void one_storage_has_one_mode(void **state)
{
	uint8_t *at = map_shared(64 * PAGE);
	const struct {
		struct rp_host_range ranges[3];
		size_t count;
		int want;
	} cases[] = {
		{ { { at, PAGE, true }, { at, PAGE, false } }, 2, -EINVAL },
		{ { { at, PAGE, false }, { at, PAGE, true } }, 2, -EINVAL },
		{ { { at, PAGE, true }, { at + PAGE - 1, 1, false } }, 2, -EINVAL },
		{ { { at, 8, true }, { at + 16, 8, true }, { at, 24, false } },
		  3,
		  -EINVAL },
		{ { { at, PAGE, true }, { at, PAGE, true } }, 2, 0 },
		/* Neighbours are two. */
		{ { { at, PAGE, true }, { at + PAGE, PAGE, false } }, 2, 0 },
	};
	struct proc_census before;
	size_t i;

	(void)state;
	proc_census_take(&before);
	for (i = 0; i < COUNT(cases); i++) {
		if (!cases[i].want) {
			open_with(cases[i].ranges, cases[i].count);
			bed_close(&bed);
			continue;
		}
		assert_int_equal(open_fails(cases[i].ranges, cases[i].count), -EINVAL);
		assert_says("rp_worker_prepare", "one mode");
	}
	assert_true(proc_census_same(&before));
}

static void ranges_that_can_not_be_are_refused_before_any_fork(void **state)
{
	uint8_t *at = map_shared(PAGE);
	const struct rp_host_range cases[] = {
		{ NULL, PAGE, false },	 { at, 0, false },
		{ at, SIZE_MAX, false }, { (void *)(UINTPTR_MAX - 100), 200, false },
		{ NULL, 0, true },
	};
	struct rp_host_range two[2] = { { at, PAGE, false } };
	struct proc_census before;
	size_t i;

	(void)state;
	proc_census_take(&before);
	for (i = 0; i < COUNT(cases); i++) {
		assert_int_equal(open_fails(&cases[i], 1), -EINVAL);
		assert_says("rp_worker_prepare", "inherited[0]");
		two[1] = cases[i];
		assert_int_equal(open_fails(two, 2), -EINVAL);
		assert_says("inherited[1]");
	}
	assert_int_equal(open_fails(NULL, 1), -EINVAL);
	assert_true(proc_census_same(&before));
	open_with(NULL, 0);
	assert_ok(up(at, PAGE));
	assert_moved(0, PAGE);
}

static void nothing_is_read_back_into_a_read_only_range(void **state)
{
	uint8_t *at = map_shared(16 * PAGE);
	struct rp_host_range range = { at + 4 * PAGE, 4 * PAGE, true };
	static const struct {
		size_t at, bytes;
		int want;
	} cases[] = {
		{ 4 * PAGE, 4 * PAGE, -EACCES },
		{ 4 * PAGE, 1, -EACCES },
		{ 8 * PAGE - 1, 1, -EACCES },
		{ 5 * PAGE, 100, -EACCES },
		{ 4 * PAGE - 1, 2, -EACCES },
		{ 8 * PAGE - 1, 2, -EACCES },
		{ 0, 16 * PAGE, -EACCES },
		{ 4 * PAGE - 1, 1, 0 },
		{ 8 * PAGE, 1, 0 },
	};
	struct rp_tensor host, stack;
	int pass;
	size_t i;

	(void)state;
	open_with(&range, 1);
	device_fill(at, 16 * PAGE, 1);
	host = TENSOR(at + 4 * PAGE, RP_UINT8, 2, (int64_t)PAGE);
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	assert_moved(2 * PAGE, 0);
	/* As before, so after the list was given up: the mapping is what it is. */
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < COUNT(cases); i++) {
			uint8_t was = at[cases[i].at];

			assert_int_equal(down(at + cases[i].at, cases[i].bytes),
					 cases[i].want);
			if (!cases[i].want) {
				at[cases[i].at] = was;
				continue;
			}
			assert_says("rp_worker_copy_from", "read-only");
			assert_true(device_holds(at, 16 * PAGE, 1));
		}
		assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &stack, &host),
				 -EACCES);
		assert_ok(rp_worker_release_inherited(bed.worker));
	}
	/* The chip lives. */
	assert_ok(device_round_trip(bed.worker, 0, addresses[0], 5000, 2));
}

static void memory_that_is_not_known_to_be_shared_is_named_all_the_same(void **state)
{
	uint8_t *private = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *mixed = map_shared(4 * PAGE);
	uint8_t *plain = malloc(PAGE);
	struct rp_host_range ranges[] = {
		{ private, PAGE, false },
		{ private + 2 * PAGE, PAGE, false },
		{ mixed, 4 * PAGE, false },
	};

	(void)state;
	/* Its second half is private: the whole is not shared. */
	assert_true(mmap(mixed + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	device_fill(private, PAGE, 1);
	open_with(ranges, 3);
	assert_int_equal(warnings, 1);
	assert_false(bed.worker->inherited.buffers[0].confirmed);
	assert_false(bed.worker->inherited.buffers[1].confirmed);
	assert_false(bed.worker->inherited.buffers[2].confirmed);
	/* Named, as was promised that it may be: the chips read what it was then. */
	device_fill(private, PAGE, 2);
	assert_ok(up(private, PAGE));
	assert_moved(PAGE, 0);
	assert_ok(down(plain, PAGE));
	assert_true(device_holds(plain, PAGE, 1));
	/* Two mappings side by side, both shared, are shared. */
	bed_close(&bed);
	warnings = 0;
	assert_true(mmap(mixed + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	open_with(&ranges[2], 1);
	assert_int_equal(warnings, 0);
	assert_true(bed.worker->inherited.buffers[0].confirmed);
	free(plain);
}

static void a_list_that_was_given_up_is_staged(void **state)
{
	struct rp_host_range range = { .base = map_shared(ROOM_BYTES),
				       .bytes = ROOM_BYTES };
	int i;

	(void)state;
	open_with(&range, 1);
	device_fill(range.base, ROOM_BYTES, 1);
	assert_ok(up(range.base, ROOM_BYTES));
	assert_moved(ROOM_BYTES, 0);
	for (i = 0; i < 3; i++) {
		assert_ok(rp_worker_release_inherited(bed.worker));
		assert_ok(up(range.base, ROOM_BYTES));
		memset(range.base, 0, ROOM_BYTES);
		assert_ok(down(range.base, ROOM_BYTES));
		assert_moved(0, 2 * ROOM_BYTES);
		assert_true(device_holds(range.base, ROOM_BYTES, 1));
	}
	assert_int_equal(rp_worker_release_inherited(NULL), -EINVAL);
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	assert_ok(rp_worker_release_inherited(bed.worker));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_listed_range_is_named_in_both_directions),
		TEST(a_fan_out_and_a_stack_name_it_too),
		TEST(what_is_partly_inside_is_staged_whole),
		TEST(one_storage_is_one_buffer_whatever_views_are_listed),
		TEST(one_storage_has_one_mode),
		TEST(ranges_that_can_not_be_are_refused_before_any_fork),
		TEST(nothing_is_read_back_into_a_read_only_range),
		TEST(memory_that_is_not_known_to_be_shared_is_named_all_the_same),
		TEST(a_list_that_was_given_up_is_staged),
	};

	return cmocka_run_group_tests_name("test_inherited", tests, NULL, NULL);
}
