/* SPDX-License-Identifier: MIT */
/* rp_shared_alloc() and its arenas. */
#include "region/shared.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"
#include "proc.h"
#include "support.h"

static void end_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void *alloc(size_t bytes)
{
	void *ptr = NULL;

	assert_int_equal(rp_shared_alloc(bytes, &ptr), 0);
	assert_non_null(ptr);
	return ptr;
}

static void give(void *ptr)
{
	assert_int_equal(rp_shared_free(ptr), 0);
}

static bool all_are(const uint8_t *at, size_t bytes, uint8_t value)
{
	return !bytes || (at[0] == value && !memcmp(at, at + 1, bytes - 1));
}

static uint64_t seed;

static void a_block_is_zero_aligned_and_writable_to_its_ends(void **state)
{
	static const size_t sizes[] = { 1,	 63,	      127,     128,	   129,
					4095,	 4096,	      4097,    MIB - 1,	   MIB,
					MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1 };
	static const int policies[] = { -1, RP_PAGES_AUTO, RP_PAGES_NEVER };
	void *odd;

	(void)state;
	/* So that no alignment comes by chance. */
	assert_int_equal(rp_shared_alloc_pages(1, RP_PAGES_NEVER, &odd), 0);
	for (size_t i = 0; i < COUNT(sizes) * COUNT(policies); i++) {
		size_t bytes = sizes[i / COUNT(policies)];
		int policy = policies[i % COUNT(policies)];
		uint8_t *at;
		void *ptr;

		assert_int_equal(
			policy < 0 ? rp_shared_alloc(bytes, &ptr)
				   : rp_shared_alloc_pages(
					     bytes, (enum rp_page_policy)policy, &ptr),
			0);
		at = ptr;
		assert_true(all_are(at, bytes, 0));
		assert_int_equal((uintptr_t)at % (bytes < MIB ? 128 : 2 * MIB), 0);
		assert_int_equal(rp_shared_size(at), bytes);
		at[0] = at[bytes - 1] = 0xa5;
		give(at);
		assert_int_equal(rp_shared_size(at), 0);
	}
	give(odd);
}

static void a_call_that_can_not_be_met_writes_nothing(void **state)
{
	void *ptr = &ptr;

	(void)state;
	assert_int_equal(rp_shared_alloc(1, NULL), -EINVAL);
	assert_int_equal(rp_shared_alloc_pages(1, RP_PAGES_AUTO, NULL), -EINVAL);
	assert_int_equal(rp_shared_alloc(0, &ptr), -EINVAL);
	assert_int_equal(rp_shared_alloc(SIZE_MAX, &ptr), -EINVAL);
	assert_int_equal(rp_shared_alloc(SIZE_MAX - 4095, &ptr), -EINVAL);
	assert_int_equal(rp_shared_alloc((size_t)1 << 46, &ptr), -ENOMEM);
	assert_int_equal(rp_shared_alloc_pages(1, (enum rp_page_policy)3, &ptr), -EINVAL);
	assert_int_equal(rp_shared_alloc_pages(1, (enum rp_page_policy) - 1, &ptr),
			 -EINVAL);
	assert_non_null(strstr(rp_last_error(), "expected 0..2"));
	assert_ptr_equal(ptr, &ptr);
}

static void only_the_start_of_a_live_block_can_be_freed(void **state)
{
	uint8_t *small = alloc(1000);
	uint8_t *large = alloc(2 * MIB);
	uint8_t *heap = malloc(16);
	uint8_t local;
	const struct {
		const char *name;
		void *ptr;
	} cases[] = {
		{ "inside a small block", small + 128 },
		{ "not even aligned", small + 1 },
		{ "after a small block", small + 1024 },
		{ "inside a region", large + 4096 },
		{ "last byte of a region", large + 2 * MIB - 1 },
		{ "malloc", heap },
		{ "stack", &local },
		{ "low", (void *)1 },
		{ "high", (void *)UINTPTR_MAX },
	};

	(void)state;
	assert_int_equal(rp_shared_free(NULL), 0);
	assert_int_equal(rp_shared_size(NULL), 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(rp_shared_size(cases[i].ptr), 0);
		if (rp_shared_free(cases[i].ptr) != -EINVAL)
			fail_msg("freed: %s", cases[i].name);
	}
	assert_int_equal(rp_shared_size(small), 1000);
	assert_int_equal(rp_shared_size(large), 2 * MIB);
	give(small);
	give(large);
	assert_int_equal(rp_shared_free(small), -EINVAL);
	assert_int_equal(rp_shared_free(large), -EINVAL);
	free(heap);
}

#define LIVE_MAX 200

struct block {
	uint8_t *at;
	size_t bytes;
	uint8_t tag;
};

static void assert_apart(const struct block *blocks, size_t count, const void *ptr,
			 size_t bytes)
{
	uintptr_t low = (uintptr_t)ptr;

	for (size_t i = 0; i < count; i++) {
		uintptr_t other = (uintptr_t)blocks[i].at;

		if (low < other + blocks[i].bytes && other < low + bytes)
			fail_msg("%p + %zu overlaps %p + %zu", ptr, bytes,
				 (void *)blocks[i].at, blocks[i].bytes);
	}
}

static size_t random_bytes(void)
{
	uint64_t kind = bed_random(&seed) % 100;

	if (kind < 70)
		return 1 + bed_random(&seed) % 4096;
	if (kind < 97)
		return 1 + bed_random(&seed) % (64 << 10);
	return MIB - 64 + bed_random(&seed) % 128;
}

static void random_life_agrees_with_a_model(void **state)
{
	struct block blocks[LIVE_MAX];
	size_t count = 0;
	int fds, shared;

	(void)state;
	give(alloc(1)); /* the arena that stays */
	fds = proc_fd_count(getpid());
	shared = proc_shared_count(getpid());
	for (int step = 0; step < 6000; step++) {
		/* Mostly full, then mostly empty. */
		bool grow = bed_random(&seed) % 100 < (step / 1000 % 2 ? 35 : 65);
		size_t i;

		if (count < LIVE_MAX && (grow || !count)) {
			struct block block = { .bytes = random_bytes(),
					       .tag = (uint8_t)(step % 255 + 1) };

			block.at = alloc(block.bytes);
			assert_apart(blocks, count, block.at, block.bytes);
			assert_true(all_are(block.at, block.bytes, 0));
			memset(block.at, block.tag, block.bytes);
			blocks[count++] = block;
			continue;
		}
		i = bed_random(&seed) % count;
		assert_int_equal(rp_shared_size(blocks[i].at), blocks[i].bytes);
		assert_true(all_are(blocks[i].at, blocks[i].bytes, blocks[i].tag));
		give(blocks[i].at);
		blocks[i] = blocks[--count];
	}
	while (count) {
		count--;
		assert_true(all_are(blocks[count].at, blocks[count].bytes,
				    blocks[count].tag));
		give(blocks[count].at);
	}
	assert_int_equal(proc_fd_count(getpid()), fds);
	assert_int_equal(proc_shared_count(getpid()), shared);
}

static void writing_past_a_block_harms_no_bookkeeping(void **state)
{
	uint8_t *first = alloc(64);
	uint8_t *second = alloc(64);
	uint8_t *third;
	uint8_t *arena = (uint8_t *)((uintptr_t)first & ~(uintptr_t)(2 * MIB - 1));

	(void)state;
	/* All that the region has, before and behind. */
	memset(arena, 0xff, 2 * MIB);
	assert_int_equal(rp_shared_size(first), 64);
	give(first);
	third = alloc(MIB / 2);
	assert_true(all_are(third, MIB / 2, 0));
	assert_true(all_are(second, 64, 0xff));
	give(second);
	give(third);
	assert_int_equal(rp_shared_free(first), -EINVAL);
}

static void *lives(void *failed)
{
	for (size_t i = 0; i < 300; i++) {
		size_t bytes = i % 50 == 49 ? MIB : 1 + i * 37 % 9000;
		uint8_t tag = (uint8_t)((uintptr_t)&bytes >> 12);
		void *ptr;

		if (rp_shared_alloc(bytes, &ptr)) {
			*(_Atomic bool *)failed = true;
			return NULL;
		}
		if (!all_are(ptr, bytes, 0))
			*(_Atomic bool *)failed = true;
		memset(ptr, tag, bytes);
		if (rp_shared_size(ptr) != bytes || !all_are(ptr, bytes, tag) ||
		    rp_shared_free(ptr))
			*(_Atomic bool *)failed = true;
	}
	return NULL;
}

static void threads_allocate_and_free_at_once(void **state)
{
	_Atomic bool failed = false;
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, lives, &failed), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(failed);
}

static void a_hundred_lives_leave_nothing(void **state)
{
	int fds, shared;

	(void)state;
	give(alloc(1));
	fds = proc_fd_count(getpid());
	shared = proc_shared_count(getpid());
	for (int i = 0; i < 100; i++) {
		void *large = alloc(MIB + 1);
		void *small = alloc(100);

		give(small);
		give(large);
	}
	assert_int_equal(proc_fd_count(getpid()), fds);
	assert_int_equal(proc_shared_count(getpid()), shared);
}

/* What parent and children of one test talk through. */
static struct {
	uint8_t *small, *large, *later;
	_Atomic uint32_t *step;
} talk;

static void await_step(uint32_t step)
{
	while (atomic_load(talk.step) != step)
		usleep(100);
}

static int sees_and_answers(void *arg)
{
	(void)arg;
	PROC_MUST(all_are(talk.small, 1000, 1) && all_are(talk.large, 2 * MIB, 2));
	memset(talk.small, 3, 1000);
	memset(talk.large, 4, 2 * MIB);
	return 0;
}

static void a_child_and_its_parent_see_each_others_writes(void **state)
{
	(void)state;
	talk.small = alloc(1000);
	talk.large = alloc(2 * MIB);
	memset(talk.small, 1, 1000);
	memset(talk.large, 2, 2 * MIB);
	assert_int_equal(proc_in_host(sees_and_answers, NULL), 0);
	assert_true(all_are(talk.small, 1000, 3));
	assert_true(all_are(talk.large, 2 * MIB, 4));
	give(talk.small);
	give(talk.large);
}

static int allocates_its_own(void *arg)
{
	void *mine[40];

	(void)arg;
	await_step(1);
	for (size_t i = 0; i < COUNT(mine); i++) {
		size_t bytes = i % 10 ? 100 * (i + 1) : MIB;

		PROC_MUST(!rp_shared_alloc(bytes, &mine[i]));
		PROC_MUST(all_are(mine[i], bytes, 0));
		memset(mine[i], 0xee, bytes);
	}
	for (size_t i = 0; i < COUNT(mine); i++)
		PROC_MUST(!rp_shared_free(mine[i]));
	/* What it inherited it can drop, for itself. */
	PROC_MUST(!rp_shared_free(talk.small));
	PROC_MUST(rp_shared_free(talk.small) == -EINVAL);
	PROC_MUST(!rp_shared_free(talk.large));
	PROC_MUST(!rp_shared_alloc(1000, &mine[0]));
	memset(mine[0], 0xee, 1000);
	return 0;
}

static void what_a_child_allocates_never_lies_in_what_the_parent_has(void **state)
{
	pid_t pid;

	(void)state;
	talk.step = alloc(sizeof(*talk.step));
	talk.small = alloc(1000);
	talk.large = alloc(MIB);
	memset(talk.small, 1, 1000);
	memset(talk.large, 2, MIB);
	pid = proc_fork_host(allocates_its_own, NULL);
	/* Taken here after the fork: the child does not know of it. */
	talk.later = alloc(4000);
	memset(talk.later, 3, 4000);
	atomic_store(talk.step, 1);
	end_child(pid);
	assert_true(all_are(talk.small, 1000, 1));
	assert_true(all_are(talk.large, MIB, 2));
	assert_true(all_are(talk.later, 4000, 3));
	give(talk.later);
	give(talk.small);
	give(talk.large);
	give(talk.step);
}

static int no_descriptor_left(void *arg)
{
	struct rlimit limit = { 64, 64 };
	void *held[40];
	void *ptr = NULL;
	size_t count = 0;
	int last = -1;

	(void)arg;
	PROC_MUST(!setrlimit(RLIMIT_NOFILE, &limit));
	for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO))
		last = fd;
	PROC_MUST(rp_shared_alloc(MIB, &ptr) == -EMFILE && !ptr);
	PROC_MUST(strstr(rp_last_error(), "ulimit -n"));
	/* Small blocks go on as long as an arena has room. */
	while (count < COUNT(held) && !rp_shared_alloc(MIB / 8, &held[count]))
		count++;
	PROC_MUST(count < COUNT(held));
	while (count)
		PROC_MUST(!rp_shared_free(held[--count]));
	close(last);
	PROC_MUST(!rp_shared_alloc(MIB, &ptr));
	PROC_MUST(!rp_shared_free(ptr));
	PROC_MUST(dup(STDERR_FILENO) == last);
	return 0;
}

static void at_the_descriptor_limit_it_fails_and_loses_nothing(void **state)
{
	(void)state;
	give(alloc(1));
	assert_int_equal(proc_in_host(no_descriptor_left, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_is_zero_aligned_and_writable_to_its_ends),
		cmocka_unit_test(a_call_that_can_not_be_met_writes_nothing),
		cmocka_unit_test(only_the_start_of_a_live_block_can_be_freed),
		cmocka_unit_test(random_life_agrees_with_a_model),
		cmocka_unit_test(writing_past_a_block_harms_no_bookkeeping),
		cmocka_unit_test(threads_allocate_and_free_at_once),
		cmocka_unit_test(a_hundred_lives_leave_nothing),
		cmocka_unit_test(a_child_and_its_parent_see_each_others_writes),
		cmocka_unit_test(
			what_a_child_allocates_never_lies_in_what_the_parent_has),
		cmocka_unit_test(at_the_descriptor_limit_it_fails_and_loses_nothing),
	};
	const char *given = getenv("RINGPLANE_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : 42;
	print_message("seed %" PRIu64 " (RINGPLANE_TEST_SEED)\n", seed);
	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
