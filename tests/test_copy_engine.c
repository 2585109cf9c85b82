/* SPDX-License-Identifier: MIT */
/* The copy loops, each engine that the processor has, against memcpy(): every edge of
 * size and alignment, with memory that nobody may touch at both ends. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "memory/copy.h"

#define KIB	     ((size_t)1 << 10)
#define MIB	     ((size_t)1 << 20)
#define PAGE	     (4 * KIB)
#define BLOCK	     (4 * PAGE) /* what the engines copy side by side */
#define LINE	     64

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Of the largest copy here, with room for any alignment. */
#define ROOM_BYTES (MIB + 8 * PAGE)

struct fenced {
	uint8_t *low, *high; /* [low, high); the pages around can't be touched */
};

static struct fenced from, to;
static uint8_t *want; /* what `to` must hold */

static struct fenced fence(void)
{
	uint8_t *map = mmap(NULL, ROOM_BYTES + 2 * PAGE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(map != MAP_FAILED);
	assert_int_equal(mprotect(map + PAGE, ROOM_BYTES, PROT_READ | PROT_WRITE), 0);
	return (struct fenced){ .low = map + PAGE, .high = map + PAGE + ROOM_BYTES };
}

static void unfence(struct fenced *fenced)
{
	munmap(fenced->low - PAGE, ROOM_BYTES + 2 * PAGE);
}

static void fill(uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 1664525u + 1013904223u;
		at[i] = (uint8_t)(seed >> 24);
	}
}

static int set_up(void **state)
{
	(void)state;
	from = fence();
	to = fence();
	want = malloc(ROOM_BYTES);
	if (!want)
		return -1;
	fill(from.low, ROOM_BYTES, 1);
	fill(to.low, ROOM_BYTES, 2);
	memcpy(want, to.low, ROOM_BYTES);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unfence(&from);
	unfence(&to);
	free(want);
	rpi_copy_choose(NULL);
	return 0;
}

/* One copy, and the same by memcpy(); the target's surroundings count too. */
static void check(uint8_t *target, const uint8_t *source, size_t bytes)
{
	size_t at = (size_t)(target - to.low);
	size_t first = at < PAGE ? 0 : at - PAGE;
	size_t last = at + bytes + PAGE < ROOM_BYTES ? at + bytes + PAGE : ROOM_BYTES;

	memcpy(want + at, source, bytes);
	rpi_copy_around(target, source, bytes);
	if (memcmp(to.low + first, want + first, last - first))
		fail_msg("%s: %zu bytes from %p to %p differ from memcpy()",
			 rpi_copy_engine(), bytes, (const void *)source, (void *)target);
}

/* Sizes around every step that an engine takes. */
static const size_t sizes[] = {
	0,
	1,
	15,
	16,
	63,
	64,
	65,
	127,
	128,
	255,
	256,
	1023,
	1024,
	1025,
	1024 + 63,
	1024 + 64,
	1024 + 127,
	2048,
	PAGE - 1,
	PAGE,
	PAGE + 1,
	BLOCK - 1,
	BLOCK,
	BLOCK + 1,
	BLOCK + 63,
	BLOCK + 128,
	BLOCK + PAGE + 129,
	2 * BLOCK,
	2 * BLOCK + 1,
	3 * BLOCK - 1,
};

static const size_t offsets[] = { 0, 1, 7, 8, 15, 16, 31, 32, 33, 48, 63 };

static void use(const char *engine)
{
	if (rpi_copy_choose(engine))
		return;
	print_message("the processor has no %s\n", engine);
	skip();
}

static void check_alignments(const char *engine)
{
	use(engine);
	assert_string_equal(rpi_copy_engine(), engine);
	for (size_t s = 0; s < COUNT(sizes); s++)
		for (size_t a = 0; a < COUNT(offsets); a++)
			for (size_t b = 0; b < COUNT(offsets); b++)
				check(to.low + PAGE + offsets[a],
				      from.low + PAGE + offsets[b], sizes[s]);
}

/* Each copy begins or ends exactly at memory that can't be touched; the size moves the
 * other end through a line, so that each alignment occurs there. */
static void check_guards(const char *engine)
{
	use(engine);
	for (size_t s = 0; s < COUNT(sizes); s++) {
		for (size_t more = 0; more <= LINE; more++) {
			size_t bytes = sizes[s] + more;

			check(to.low, from.low, bytes);
			check(to.high - bytes, from.high - bytes, bytes);
			check(to.low, from.high - bytes, bytes);
			check(to.high - bytes, from.low, bytes);
		}
	}
}

static void check_large(const char *engine)
{
	use(engine);
	check(to.low + 1, from.low + 3, MIB);
	check(to.low + LINE, from.low, MIB + BLOCK + 2 * PAGE - 1);
	check(to.low, from.low, ROOM_BYTES);
	/* What the engine left of the source is what it was. */
	fill(want, ROOM_BYTES, 1);
	assert_memory_equal(from.low, want, ROOM_BYTES);
}

#define ENGINE(name)                                                             \
	static void name##_copies_at_every_alignment(void **state)               \
	{                                                                        \
		(void)state;                                                     \
		check_alignments(#name);                                         \
	}                                                                        \
	static void name##_touches_nothing_before_or_behind(void **state)        \
	{                                                                        \
		(void)state;                                                     \
		check_guards(#name);                                             \
	}                                                                        \
	static void name##_copies_a_mebibyte_and_leaves_its_source(void **state) \
	{                                                                        \
		(void)state;                                                     \
		check_large(#name);                                              \
	}

ENGINE(avx512)
ENGINE(avx2)
ENGINE(sse2)
ENGINE(memcpy)

#define ENGINE_TESTS(name)                                                               \
	cmocka_unit_test_setup_teardown(name##_copies_at_every_alignment, set_up,        \
					tear_down),                                      \
		cmocka_unit_test_setup_teardown(name##_touches_nothing_before_or_behind, \
						set_up, tear_down),                      \
		cmocka_unit_test_setup_teardown(                                         \
			name##_copies_a_mebibyte_and_leaves_its_source, set_up,          \
			tear_down)

static void an_engine_that_is_not_there_is_not_chosen(void **state)
{
	const char *before = rpi_copy_engine();

	(void)state;
	assert_int_equal(rpi_copy_choose("mmx"), 0);
	assert_string_equal(rpi_copy_engine(), before);
}

static void the_best_engine_is_chosen_again(void **state)
{
	const char *best;

	(void)state;
	assert_int_equal(rpi_copy_choose(NULL), 1);
	best = rpi_copy_engine();
	assert_int_equal(rpi_copy_choose("memcpy"), 1);
	assert_int_equal(rpi_copy_choose(NULL), 1);
	assert_string_equal(rpi_copy_engine(), best);
}

/* The rule that says from which size on a transfer goes around the caches. */
static void large_is_in_relation_to_a_core_s_cache(void **state)
{
	static const struct {
		const char *name;
		long cache_bytes;
		size_t want;
	} cases[] = {
		{ "unknown", 0, 4 * MIB },     { "refused", -1, 4 * MIB },
		{ "tiny", 64 << 10, 2 * MIB }, { "half a mebibyte", 512 << 10, 2 * MIB },
		{ "one", 1 << 20, 4 * MIB },   { "two", 2 << 20, 8 * MIB },
		{ "four", 4 << 20, 16 * MIB }, { "more than any", 1L << 40, 16 * MIB },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		if (rpi_copy_around_for(cases[i].cache_bytes) != cases[i].want)
			fail_msg("%s: %zu", cases[i].name,
				 rpi_copy_around_for(cases[i].cache_bytes));
	assert_in_range(rpi_copy_around_bytes(), 2 * MIB, 16 * MIB);
}

static void a_piece_is_copied_either_way(void **state)
{
	const size_t bytes = 3 * BLOCK + 5;

	(void)state;
	fill(from.low, bytes, 3);
	rpi_copy_stage(to.low, from.low, bytes, bytes);
	assert_memory_equal(to.low, from.low, bytes);
	fill(from.low, bytes, 4);
	rpi_copy_stage(to.low, from.low, bytes, rpi_copy_around_bytes());
	assert_memory_equal(to.low, from.low, bytes);
}

/*
 * Streaming stores lie outside every release: without the engine's own fence a reader
 * sees the word and not yet the bytes. That shows in one of some hundred small copies,
 * on two CPUs; the turns end early where there is one, or none to spare.
 */
#define RELAY_TURNS   50000
#define RELAY_BYTES   ((size_t)1024)
#define RELAY_LAST    UINT32_MAX
#define RELAY_SECONDS 2
#define LOOKS	      2000

static _Atomic uint32_t told, taken;
static size_t wrong_count;

static uint32_t await(_Atomic uint32_t *word, uint32_t old)
{
	uint32_t looks = 0, now;

	while ((now = atomic_load_explicit(word, memory_order_acquire)) == old)
		if (++looks % LOOKS == 0)
			sched_yield();
		else
			rpi_cpu_pause();
	return now;
}

static void *take(void *arg)
{
	uint32_t turn = 0;

	(void)arg;
	while ((turn = await(&told, turn)) != RELAY_LAST) {
		/* What was written last is what may be late. */
		for (size_t at = RELAY_BYTES; at-- > 0;)
			wrong_count += to.low[at] != (uint8_t)turn;
		atomic_store_explicit(&taken, turn, memory_order_release);
	}
	return NULL;
}

static void what_was_copied_is_there_for_whoever_is_told(void **state)
{
	const time_t end = time(NULL) + RELAY_SECONDS;
	pthread_t reader;

	(void)state;
	assert_int_equal(pthread_create(&reader, NULL, take, NULL), 0);
	for (uint32_t turn = 1; turn <= RELAY_TURNS; turn++) {
		memset(from.low, (int)(uint8_t)turn, RELAY_BYTES);
		rpi_copy_around(to.low, from.low, RELAY_BYTES);
		atomic_store_explicit(&told, turn, memory_order_release);
		await(&taken, turn - 1);
		if (turn % LOOKS == 0 && time(NULL) >= end)
			break;
	}
	atomic_store_explicit(&told, RELAY_LAST, memory_order_release);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(wrong_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TESTS(avx512),
		ENGINE_TESTS(avx2),
		ENGINE_TESTS(sse2),
		ENGINE_TESTS(memcpy),
		cmocka_unit_test(an_engine_that_is_not_there_is_not_chosen),
		cmocka_unit_test(the_best_engine_is_chosen_again),
		cmocka_unit_test(large_is_in_relation_to_a_core_s_cache),
		cmocka_unit_test_setup_teardown(a_piece_is_copied_either_way, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			what_was_copied_is_there_for_whoever_is_told, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("test_copy_engine", tests, NULL, NULL);
}
