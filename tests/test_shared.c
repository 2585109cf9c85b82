/* SPDX-License-Identifier: MIT */
/* rp_shared_alloc(), its arenas, and what a worker's list says of an address. */
#include "region/shared.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ringplane/error.h>

/* Ends a hang; nothing here takes a hundredth of it. */
#define WATCHDOG_S 120

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define MIB	   ((size_t)1 << 20)

/* In a child: name the line and end it there. */
#define EXPECT(cond)                                                              \
	do {                                                                      \
		if (!(cond)) {                                                    \
			fprintf(stderr, "child, line %d: %s\n", __LINE__, #cond); \
			_exit(1);                                                 \
		}                                                                 \
	} while (0)

static pid_t start_child(void (*fn)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		alarm(WATCHDOG_S);
		fn();
		_exit(0);
	}
	return pid;
}

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

static int fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = -1; /* the one of dir */

	assert_non_null(dir);
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static int shared_count(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	char perms[8];
	int count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += sscanf(line, "%*x-%*x %7s", perms) == 1 && perms[3] == 's';
	fclose(file);
	return count;
}

static uint64_t seed;

/* splitmix64 */
static uint64_t next_random(void)
{
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

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
	uint64_t kind = next_random() % 100;

	if (kind < 70)
		return 1 + next_random() % 4096;
	if (kind < 97)
		return 1 + next_random() % (64 << 10);
	return MIB - 64 + next_random() % 128;
}

static void random_life_agrees_with_a_model(void **state)
{
	struct block blocks[LIVE_MAX];
	size_t count = 0;
	int fds, shared;

	(void)state;
	give(alloc(1)); /* the arena that stays */
	fds = fd_count();
	shared = shared_count();
	for (int step = 0; step < 6000; step++) {
		/* Mostly full, then mostly empty. */
		bool grow = next_random() % 100 < (step / 1000 % 2 ? 35 : 65);
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
		i = next_random() % count;
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
	assert_int_equal(fd_count(), fds);
	assert_int_equal(shared_count(), shared);
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
	fds = fd_count();
	shared = shared_count();
	for (int i = 0; i < 100; i++) {
		void *large = alloc(MIB + 1);
		void *small = alloc(100);

		give(small);
		give(large);
	}
	assert_int_equal(fd_count(), fds);
	assert_int_equal(shared_count(), shared);
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

static void sees_and_answers(void)
{
	EXPECT(all_are(talk.small, 1000, 1) && all_are(talk.large, 2 * MIB, 2));
	memset(talk.small, 3, 1000);
	memset(talk.large, 4, 2 * MIB);
}

static void a_child_and_its_parent_see_each_others_writes(void **state)
{
	(void)state;
	talk.small = alloc(1000);
	talk.large = alloc(2 * MIB);
	memset(talk.small, 1, 1000);
	memset(talk.large, 2, 2 * MIB);
	end_child(start_child(sees_and_answers));
	assert_true(all_are(talk.small, 1000, 3));
	assert_true(all_are(talk.large, 2 * MIB, 4));
	give(talk.small);
	give(talk.large);
}

static void allocates_its_own(void)
{
	void *mine[40];

	await_step(1);
	for (size_t i = 0; i < COUNT(mine); i++) {
		size_t bytes = i % 10 ? 100 * (i + 1) : MIB;

		EXPECT(!rp_shared_alloc(bytes, &mine[i]));
		EXPECT(all_are(mine[i], bytes, 0));
		memset(mine[i], 0xee, bytes);
	}
	for (size_t i = 0; i < COUNT(mine); i++)
		EXPECT(!rp_shared_free(mine[i]));
	/* What it inherited it can drop, for itself. */
	EXPECT(!rp_shared_free(talk.small));
	EXPECT(rp_shared_free(talk.small) == -EINVAL);
	EXPECT(!rp_shared_free(talk.large));
	EXPECT(!rp_shared_alloc(1000, &mine[0]));
	memset(mine[0], 0xee, 1000);
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
	pid = start_child(allocates_its_own);
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

static void no_descriptor_left(void)
{
	struct rlimit limit = { 64, 64 };
	void *held[40];
	void *ptr = NULL;
	size_t count = 0;
	int last = -1;

	EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
	for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO))
		last = fd;
	EXPECT(rp_shared_alloc(MIB, &ptr) == -EMFILE && !ptr);
	EXPECT(strstr(rp_last_error(), "ulimit -n"));
	/* Small blocks go on as long as an arena has room. */
	while (count < COUNT(held) && !rp_shared_alloc(MIB / 8, &held[count]))
		count++;
	EXPECT(count < COUNT(held));
	while (count)
		EXPECT(!rp_shared_free(held[--count]));
	close(last);
	EXPECT(!rp_shared_alloc(MIB, &ptr));
	EXPECT(!rp_shared_free(ptr));
	EXPECT(dup(STDERR_FILENO) == last);
}

static void at_the_descriptor_limit_it_fails_and_loses_nothing(void **state)
{
	(void)state;
	give(alloc(1));
	end_child(start_child(no_descriptor_left));
}

static void a_list_covers_what_lay_in_one_region_then(void **state)
{
	struct rpi_shared_map map;
	uint8_t *low, *high;
	uint8_t *small;
	uint8_t *later;
	uint8_t local[8];
	void *ptr;

	(void)state;
	small = alloc(100);
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
	later = alloc(2 * MIB);
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
	give(small);
	give(low);
	give(high);
	give(later);
}

static void a_freed_region_is_covered_no_more_not_even_when_its_address_is(void **state)
{
	struct rpi_shared_map before, both, after;
	uint8_t *keeps = alloc(MIB);
	uint8_t *old = alloc(3 * MIB);
	uint8_t *new;

	(void)state;
	assert_int_equal(rpi_shared_snapshot(&before), 0);
	assert_int_equal(rpi_shared_snapshot(&both), 0);
	assert_true(rpi_shared_map_covers(&before, old, 3 * MIB));
	give(old);
	assert_false(rpi_shared_map_covers(&before, old, 1));
	assert_false(rpi_shared_map_covers(&both, old, 0));
	new = alloc(3 * MIB);
	assert_ptr_equal(new, old);
	assert_int_equal(rpi_shared_snapshot(&after), 0);
	assert_false(rpi_shared_map_covers(&before, new, 1));
	assert_true(rpi_shared_map_covers(&after, new, 3 * MIB));
	/* One list's end is no other's. */
	rpi_shared_map_release(&both);
	give(new);
	assert_false(rpi_shared_map_covers(&after, new, 1));
	assert_true(rpi_shared_map_covers(&before, keeps, MIB));
	assert_true(rpi_shared_map_covers(&after, keeps, MIB));
	rpi_shared_map_release(&before);
	give(keeps);
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
		assert_true(rpi_shared_map_info(&map, NULL, 0) >= count);
		for (size_t i = 0; i < count; i++) {
			assert_true(rpi_shared_map_covers(&map, regions[i], 4096));
			assert_true(rpi_shared_map_covers(&map, regions[i] + 4095, 1));
			assert_false(rpi_shared_map_covers(&map, regions[i] + 4095, 2));
		}
		rpi_shared_map_release(&map);
		if (count == COUNT(regions))
			break;
		assert_int_equal(rp_shared_alloc_pages(4096, RP_PAGES_NEVER, &ptr), 0);
		regions[count] = ptr;
	}
	for (size_t i = 0; i < COUNT(regions); i++)
		give(regions[i]);
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
	void *stays = alloc(MIB);
	void *goes = alloc(MIB);
	struct asker asker = { .map = &map, .stays = stays, .goes = goes };
	pthread_t threads[2];

	(void)state;
	assert_int_equal(rpi_shared_snapshot(&map), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, asks, &asker), 0);
	usleep(1000);
	give(goes);
	for (int i = 0; i < 20; i++)
		give(alloc(MIB));
	/* Another look at least, after the free. */
	usleep(1000);
	atomic_store(&asker.stop, true);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(asker.wrong);
	rpi_shared_map_release(&map);
	give(stays);
}

/* Accesses that no sanitizer follows: its shadow has page faults of its own. */
__attribute__((no_sanitize_address, no_sanitize_thread, noinline)) static void
write_every_page(uint8_t *at, size_t bytes)
{
	for (size_t offset = 0; offset < bytes; offset += 4096)
		((volatile uint8_t *)at)[offset] = ((volatile uint8_t *)at)[offset];
}

static long faults_of_writing(uint8_t *at, size_t bytes)
{
	struct rusage before, after;

	write_every_page(at, 1);
	getrusage(RUSAGE_SELF, &after);
	getrusage(RUSAGE_SELF, &before);
	write_every_page(at, bytes);
	getrusage(RUSAGE_SELF, &after);
	return after.ru_minflt - before.ru_minflt;
}

static struct rpi_shared_map seen;

static void populates_all(void)
{
	EXPECT(!rpi_shared_map_populate(&seen, SIZE_MAX));
	EXPECT(faults_of_writing(talk.large, 3 * MIB) == 0);
	EXPECT(faults_of_writing(talk.small, 1000) == 0);
	EXPECT(talk.large[0] == 7 && talk.large[3 * MIB - 1] == 8);
}

static void populates_nothing(void)
{
	EXPECT(!rpi_shared_map_populate(&seen, 0));
	EXPECT(faults_of_writing(talk.large, 3 * MIB) > 0);
}

static void a_worker_that_populates_its_list_has_no_faults(void **state)
{
	void *ptr, *freed;

	(void)state;
	talk.small = alloc(1000);
	freed = alloc(2 * MIB);
	assert_int_equal(rp_shared_alloc_pages(3 * MIB, RP_PAGES_NEVER, &ptr), 0);
	talk.large = ptr;
	assert_int_equal(faults_of_writing(talk.large, 3 * MIB), 0);
	assert_int_equal(faults_of_writing(talk.small, 1000), 0);
	talk.large[0] = 7;
	talk.large[3 * MIB - 1] = 8;
	assert_int_equal(rpi_shared_snapshot(&seen), 0);
	/* Gone between the list and the fork: passed over. */
	give(freed);
	end_child(start_child(populates_nothing));
	end_child(start_child(populates_all));
	rpi_shared_map_release(&seen);
	give(talk.small);
	give(talk.large);
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
	later = alloc(MIB);
	count = rpi_shared_map_info(&map, infos, COUNT(infos));
	assert_true(count >= 2);
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
	give(second);
	assert_int_equal(rpi_shared_map_info(&map, infos, COUNT(infos)), count - 1);
	rpi_shared_map_release(&map);
	give(first);
	give(later);
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
		cmocka_unit_test(a_list_covers_what_lay_in_one_region_then),
		cmocka_unit_test(
			a_freed_region_is_covered_no_more_not_even_when_its_address_is),
		cmocka_unit_test(a_list_of_any_length_finds_each_of_its_regions),
		cmocka_unit_test(an_empty_list_covers_nothing),
		cmocka_unit_test(threads_may_ask_while_others_free),
		cmocka_unit_test(a_worker_that_populates_its_list_has_no_faults),
		cmocka_unit_test(a_report_shows_the_listed_regions_that_live),
	};
	const char *given = getenv("RINGPLANE_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : 42;
	print_message("seed %" PRIu64 " (RINGPLANE_TEST_SEED)\n", seed);
	alarm(WATCHDOG_S);
	return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
