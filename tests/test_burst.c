/* SPDX-License-Identifier: MIT */
/* The burst ring, alone in one process, then between two. */
/* memfd_create(). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "ring/burst.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <ringplane/error.h>

/* Ends a hang; nothing here takes a hundredth of it. */
#define WATCHDOG_S     120

#define ELEM_BYTES_MAX 64

static const uint32_t capacities[] = { 1, 2, 3, 8, 1023 };
static const uint32_t elem_sizes[] = { 4, 8, 12, 16, 64 };
static const uint32_t starts[] = { 0, 0x7ffffffe, UINT32_MAX - 2, UINT32_MAX };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Exactly as many bytes as were asked for, so that ASan sees one too many used. */
static struct rpi_burst *ring_new(uint32_t elem_bytes, uint32_t capacity,
				  unsigned int flags)
{
	size_t bytes = rpi_burst_bytes(elem_bytes, capacity);
	void *mem = NULL;

	assert_int_not_equal(bytes, 0);
	assert_int_equal(posix_memalign(&mem, RPI_BURST_ALIGN, bytes), 0);
	/* What lay there before is not zero. */
	memset(mem, 0xa5, bytes);
	assert_int_equal(rpi_burst_init(mem, bytes, elem_bytes, capacity, flags), 0);
	return mem;
}

/* An element of any size made of its number; every byte depends on it. */
static void elem_fill(void *elem, uint32_t elem_bytes, uint32_t number)
{
	uint8_t *bytes = elem;

	memcpy(bytes, &number, sizeof(number));
	for (uint32_t i = sizeof(number); i < elem_bytes; i++)
		bytes[i] = (uint8_t)(number * 31 + i * 7);
}

/* The number of an element, after checking the rest of it. */
static uint32_t elem_number(const void *elem, uint32_t elem_bytes)
{
	uint8_t want[ELEM_BYTES_MAX];
	uint32_t number;

	memcpy(&number, elem, sizeof(number));
	elem_fill(want, elem_bytes, number);
	assert_memory_equal(elem, want, elem_bytes);
	return number;
}

static uint8_t *span_at(const struct rpi_burst_span *span, uint32_t elem_bytes,
			uint32_t i)
{
	if (i < span->first_count)
		return (uint8_t *)span->first + (size_t)i * elem_bytes;
	return (uint8_t *)span->second + (size_t)(i - span->first_count) * elem_bytes;
}

static void init_refuses_what_it_cannot_lay_out(void **state)
{
	static _Alignas(RPI_BURST_ALIGN) uint8_t mem[4096];
	static const struct {
		const char *name;
		size_t offset, mem_bytes;
		uint32_t elem_bytes, capacity;
		unsigned int flags;
	} cases[] = {
		{ "no capacity", 0, 4096, 8, 0, 0 },
		{ "no element", 0, 4096, 0, 4, 0 },
		{ "element of 6 bytes", 0, 4096, 6, 4, 0 },
		{ "misaligned", 64, 4032, 8, 4, 0 },
		{ "unknown flag", 0, 4096, 8, 4, 0x4 },
		{ "no memory", 0, 0, 8, 4, 0 },
		{ "too big a ring", 0, SIZE_MAX, 64, 1u << 28, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		print_message("  %s\n", cases[i].name);
		assert_int_equal(rpi_burst_init(mem + cases[i].offset, cases[i].mem_bytes,
						cases[i].elem_bytes, cases[i].capacity,
						cases[i].flags),
				 -EINVAL);
		assert_memory_equal(rp_last_error(), "burst_init: ", 12);
	}
	assert_int_equal(rpi_burst_init(NULL, 4096, 8, 4, 0), -EINVAL);
	assert_int_equal(rpi_burst_init(mem, rpi_burst_bytes(8, 4) - 1, 8, 4, 0),
			 -EINVAL);
	assert_int_equal(rpi_burst_init(mem, rpi_burst_bytes(8, 4), 8, 4, 0), 0);
}

static void bytes_are_zero_beyond_what_the_indices_can_count(void **state)
{
	static const struct {
		uint32_t elem_bytes, capacity;
		bool fits;
	} cases[] = {
		{ 4, 1, true },
		{ 4, 0, false },
		{ 0, 1, false },
		{ 5, 1, false },
		{ 4, 0x7fffffff, true },
		{ 4, 0x80000000, false },
		{ 4, UINT32_MAX, false },
		{ 8, 0x3fffffff, true },
		{ 8, 0x40000000, false },
		{ 64, 0x07ffffff, true },
		{ 64, 0x08000000, false },
		{ UINT32_MAX - 3, 1, true },
		{ UINT32_MAX - 3, 2, false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(
			rpi_burst_bytes(cases[i].elem_bytes, cases[i].capacity) != 0,
			cases[i].fits);
}

/* Fills the ring one by one, is refused, and empties it, over the wrap too. */
static void holds_exactly(uint32_t elem_bytes, uint32_t capacity, unsigned int flags,
			  uint32_t start)
{
	struct rpi_burst *r = ring_new(elem_bytes, capacity, flags);
	uint32_t elem[ELEM_BYTES_MAX / 4];

	rpi_burst_set_start(r, start);
	assert_int_equal(rpi_burst_capacity(r), capacity);
	for (uint32_t round = 0; round < 3; round++) {
		assert_true(rpi_burst_empty(r));
		assert_int_equal(rpi_burst_pop(r, elem, 1), 0);
		for (uint32_t i = 0; i < capacity; i++) {
			assert_int_equal(rpi_burst_count(r), i);
			assert_int_equal(rpi_burst_free_count(r), capacity - i);
			elem_fill(elem, elem_bytes, round * capacity + i);
			assert_int_equal(rpi_burst_push(r, elem, 1), 1);
			assert_false(rpi_burst_empty(r));
		}
		elem_fill(elem, elem_bytes, 0xdead);
		assert_int_equal(rpi_burst_push(r, elem, 1), 0);
		assert_int_equal(rpi_burst_push_upto(r, elem, 1), 0);
		assert_int_equal(rpi_burst_free_count(r), 0);
		for (uint32_t i = 0; i < capacity; i++) {
			assert_int_equal(rpi_burst_pop(r, elem, 1), 1);
			assert_int_equal(elem_number(elem, elem_bytes),
					 round * capacity + i);
		}
	}
	assert_int_equal(rpi_burst_count(r), 0);
	free(r);
}

static void capacity_n_holds_exactly_n(void **state)
{
	(void)state;
	for (size_t c = 0; c < COUNT(capacities); c++)
		for (size_t e = 0; e < COUNT(elem_sizes); e++)
			for (size_t s = 0; s < COUNT(starts); s++)
				for (unsigned int flags = 0; flags < 4; flags++)
					holds_exactly(elem_sizes[e], capacities[c], flags,
						      starts[s]);
}

static void batch_of_k_with_k_less_one_free_is_refused_whole(void **state)
{
	static const struct {
		uint32_t capacity, filled, k;
	} cases[] = {
		{ 1, 0, 2 }, { 2, 1, 2 }, { 3, 1, 3 },		{ 8, 1, 8 },
		{ 8, 7, 2 }, { 8, 0, 9 }, { 8, 0, UINT32_MAX }, { 1023, 1000, 24 },
	};
	static uint64_t table[1024], out[1024];

	(void)state;
	for (uint32_t i = 0; i < COUNT(table); i++)
		table[i] = i;
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (unsigned int flags = 0; flags < 4; flags++) {
			struct rpi_burst *r = ring_new(8, cases[i].capacity, flags);
			uint32_t free_count = cases[i].capacity - cases[i].filled;
			struct rpi_burst_span span = { table, table, 77 };

			rpi_burst_set_start(r, UINT32_MAX - 1);
			assert_int_equal(rpi_burst_push(r, table, cases[i].filled),
					 cases[i].filled);
			assert_int_equal(rpi_burst_push(r, table, cases[i].k), 0);
			assert_int_equal(rpi_burst_reserve(r, cases[i].k, &span), 0);
			assert_int_equal(span.first_count, 77);
			assert_int_equal(rpi_burst_count(r), cases[i].filled);

			/* The same batch less what does not fit. */
			assert_int_equal(rpi_burst_push(r, table, free_count),
					 free_count);
			assert_int_equal(
				rpi_burst_pop_bulk(r, out, cases[i].capacity + 1), 0);
			assert_int_equal(rpi_burst_pop_bulk(r, out, cases[i].capacity),
					 cases[i].capacity);
			assert_memory_equal(out, table,
					    cases[i].filled * sizeof(table[0]));
			assert_memory_equal(out + cases[i].filled, table,
					    free_count * sizeof(table[0]));
			free(r);
		}
	}
}

static void moves_up_to_what_there_is(void **state)
{
	struct rpi_burst *r = ring_new(4, 3, RPI_BURST_SP);
	uint32_t in[5] = { 1, 2, 3, 4, 5 }, out[5] = { 0 };

	(void)state;
	assert_int_equal(rpi_burst_push_upto(r, in, 2), 2);
	assert_int_equal(rpi_burst_push_upto(r, in + 2, 3), 1);
	assert_int_equal(rpi_burst_push(r, in, 0), 0);
	assert_int_equal(rpi_burst_pop_bulk(r, out, 4), 0);
	assert_int_equal(rpi_burst_pop(r, out, 0), 0);
	assert_int_equal(rpi_burst_pop(r, out, UINT32_MAX), 3);
	assert_memory_equal(out, in, 3 * sizeof(in[0]));
	assert_int_equal(out[3], 0);
	free(r);
}

static void a_span_that_wraps_comes_in_two_pieces(void **state)
{
	/* Capacity 5 stands in 8 slots; the ring begins at slot 6. */
	struct rpi_burst *r = ring_new(12, 5, RPI_BURST_SP | RPI_BURST_SC);
	struct rpi_burst_span in, out;

	(void)state;
	rpi_burst_set_start(r, UINT32_MAX - 1);
	assert_int_equal(rpi_burst_reserve(r, 5, &in), 5);
	assert_int_equal(in.first_count, 2);
	assert_non_null(in.second);
	assert_ptr_equal((uint8_t *)in.first - (uint8_t *)in.second, 6 * 12);
	for (uint32_t i = 0; i < 5; i++)
		elem_fill(span_at(&in, 12, i), 12, i);

	assert_true(rpi_burst_empty(r));
	assert_int_equal(rpi_burst_peek(r, 5, &out), 0);
	assert_int_equal(rpi_burst_publish(r, 5), 5);
	assert_false(rpi_burst_empty(r));

	assert_int_equal(rpi_burst_peek(r, 9, &out), 5);
	assert_int_equal(out.first_count, 2);
	assert_ptr_equal(out.first, in.first);
	assert_ptr_equal(out.second, in.second);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(elem_number(span_at(&out, 12, i), 12), i);
	assert_true(rpi_burst_empty(r));
	/* Until they are consumed, the slots are not free. */
	assert_int_equal(rpi_burst_reserve(r, 1, &in), 0);
	assert_int_equal(rpi_burst_consume(r, 5), 5);
	assert_int_equal(rpi_burst_reserve(r, 5, &in), 5);
	assert_int_equal(in.first_count, 5);
	assert_null(in.second);
	assert_int_equal(rpi_burst_publish(r, 0), 0);
	free(r);
}

static void what_is_not_published_or_consumed_is_given_back(void **state)
{
	struct rpi_burst *r = ring_new(4, 4, RPI_BURST_SP | RPI_BURST_SC);
	struct rpi_burst_span span;
	uint32_t out[4];

	(void)state;
	assert_int_equal(rpi_burst_reserve(r, 4, &span), 4);
	for (uint32_t i = 0; i < 4; i++)
		elem_fill(span_at(&span, 4, i), 4, 10 + i);
	assert_int_equal(rpi_burst_publish(r, 3), 3);
	assert_int_equal(rpi_burst_count(r), 3);
	assert_int_equal(rpi_burst_peek(r, 3, &span), 3);
	assert_int_equal(rpi_burst_consume(r, 1), 1);
	assert_int_equal(rpi_burst_count(r), 2);
	assert_int_equal(rpi_burst_pop(r, out, 4), 2);
	assert_int_equal(out[0], 11);
	assert_int_equal(out[1], 12);
	free(r);
}

static void more_than_was_handed_out_moves_nothing(void **state)
{
	struct rpi_burst *r = ring_new(4, 4, RPI_BURST_SP | RPI_BURST_SC);
	struct rpi_burst_span span;
	uint32_t elem = 5;

	(void)state;
	assert_int_equal(rpi_burst_publish(r, 1), 0);
	assert_int_equal(rpi_burst_consume(r, 1), 0);
	assert_int_equal(rpi_burst_reserve(r, 2, &span), 2);
	assert_int_equal(rpi_burst_publish(r, 3), 0);
	assert_true(rpi_burst_empty(r));
	assert_int_equal(rpi_burst_push(r, &elem, 1), 1);
	assert_int_equal(rpi_burst_peek(r, 1, &span), 1);
	assert_int_equal(rpi_burst_consume(r, 2), 0);
	assert_int_equal(rpi_burst_count(r), 1);
	elem = 0;
	assert_int_equal(rpi_burst_pop(r, &elem, 1), 1);
	assert_int_equal(elem, 5);
	free(r);
}

static void a_shared_side_is_not_used_in_place(void **state)
{
	struct rpi_burst *r = ring_new(4, 4, 0);
	struct rpi_burst_span span;
	uint32_t elem = 5;

	(void)state;
	assert_int_equal(rpi_burst_reserve(r, 1, &span), 0);
	assert_int_equal(rpi_burst_publish(r, 1), 0);
	assert_int_equal(rpi_burst_push(r, &elem, 1), 1);
	assert_int_equal(rpi_burst_peek(r, 1, &span), 0);
	assert_int_equal(rpi_burst_consume(r, 1), 0);
	assert_int_equal(rpi_burst_count(r), 1);
	free(r);
}

/* xorshift64*: the same steps on every machine for one seed. */
static uint32_t rnd(uint64_t *rng, uint32_t below)
{
	*rng ^= *rng >> 12;
	*rng ^= *rng << 25;
	*rng ^= *rng >> 27;
	return (uint32_t)((*rng * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % below;
}

/* The simplest queue there is: numbers `taken` to `put`, less one, are in it. */
struct model {
	uint32_t elem_bytes, capacity;
	uint32_t put, taken;
	uint64_t rng;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void model_push(struct model *m, struct rpi_burst *r, uint32_t n, bool bulk)
{
	uint32_t free_count = m->capacity - (m->put - m->taken);
	uint32_t want = bulk && n > free_count ? 0 : min_u32(n, free_count);
	uint32_t *table = calloc(n + 1, m->elem_bytes);
	uint32_t got;

	assert_non_null(table);
	for (uint32_t i = 0; i < n; i++)
		elem_fill((uint8_t *)table + (size_t)i * m->elem_bytes, m->elem_bytes,
			  m->put + i);
	got = bulk ? rpi_burst_push(r, table, n) : rpi_burst_push_upto(r, table, n);
	free(table);
	assert_int_equal(got, want);
	m->put += got;
}

static void model_pop(struct model *m, struct rpi_burst *r, uint32_t n, bool bulk)
{
	uint32_t count = m->put - m->taken;
	uint32_t want = bulk && n > count ? 0 : min_u32(n, count);
	uint8_t *table = calloc(n + 1, m->elem_bytes);
	uint32_t got;

	assert_non_null(table);
	got = bulk ? rpi_burst_pop_bulk(r, table, n) : rpi_burst_pop(r, table, n);
	assert_int_equal(got, want);
	for (uint32_t i = 0; i < got; i++)
		assert_int_equal(
			elem_number(table + (size_t)i * m->elem_bytes, m->elem_bytes),
			m->taken + i);
	free(table);
	m->taken += got;
}

static void model_publish(struct model *m, struct rpi_burst *r, uint32_t n)
{
	uint32_t free_count = m->capacity - (m->put - m->taken);
	uint32_t want = n > free_count ? 0 : n;
	struct rpi_burst_span span;

	assert_int_equal(rpi_burst_reserve(r, n, &span), want);
	for (uint32_t i = 0; i < want; i++)
		elem_fill(span_at(&span, m->elem_bytes, i), m->elem_bytes, m->put + i);
	n = rnd(&m->rng, want + 1);
	assert_int_equal(rpi_burst_publish(r, n), n);
	m->put += n;
}

static void model_consume(struct model *m, struct rpi_burst *r, uint32_t n)
{
	uint32_t want = min_u32(n, m->put - m->taken);
	struct rpi_burst_span span;

	assert_int_equal(rpi_burst_peek(r, n, &span), want);
	for (uint32_t i = 0; i < want; i++)
		assert_int_equal(
			elem_number(span_at(&span, m->elem_bytes, i), m->elem_bytes),
			m->taken + i);
	n = rnd(&m->rng, want + 1);
	assert_int_equal(rpi_burst_consume(r, n), n);
	m->taken += n;
}

static void model_run(struct model *m, unsigned int flags, uint32_t start)
{
	struct rpi_burst *r = ring_new(m->elem_bytes, m->capacity, flags);

	rpi_burst_set_start(r, start);
	m->put = m->taken = 0;
	for (uint32_t step = 0; step < 300; step++) {
		/* Batches of one too many and of nothing are among them. */
		uint32_t n = rnd(&m->rng, m->capacity + 2);

		switch (rnd(&m->rng, 6)) {
		case 0:
			model_push(m, r, n, true);
			break;
		case 1:
			model_push(m, r, n, false);
			break;
		case 2:
			model_pop(m, r, n, true);
			break;
		case 3:
			model_pop(m, r, n, false);
			break;
		case 4:
			if (flags & RPI_BURST_SP)
				model_publish(m, r, n);
			break;
		case 5:
			if (flags & RPI_BURST_SC)
				model_consume(m, r, n);
			break;
		}
		assert_int_equal(rpi_burst_count(r), m->put - m->taken);
		assert_int_equal(rpi_burst_free_count(r),
				 m->capacity - (m->put - m->taken));
		assert_int_equal(rpi_burst_empty(r), m->put == m->taken);
	}
	model_pop(m, r, m->capacity, false);
	assert_true(rpi_burst_empty(r));
	free(r);
}

static void any_mix_of_calls_behaves_like_a_queue(void **state)
{
	const char *text = getenv("RP_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 42;
	/* Of all states xorshift may not have, there is only zero. */
	struct model m = { .rng = seed ? seed : 1 };

	(void)state;
	print_message("  seed %" PRIu64 " (RP_TEST_SEED)\n", seed);
	for (size_t c = 0; c < COUNT(capacities); c++)
		for (size_t e = 0; e < COUNT(elem_sizes); e++)
			for (size_t s = 0; s < COUNT(starts); s++)
				for (unsigned int flags = 0; flags < 4; flags++) {
					m.elem_bytes = elem_sizes[e];
					m.capacity = capacities[c];
					model_run(&m, flags, starts[s]);
				}
}

/* Whatever a peer stores in its index, the other side stays inside the ring. */
static void a_peers_false_index_never_leads_outside(void **state)
{
	static const uint32_t lies[] = { 1, 5, 9, 0x7fffffff, 0x80000000, UINT32_MAX };
	uint32_t table[64];

	(void)state;
	memset(table, 0, sizeof(table));
	for (size_t i = 0; i < COUNT(lies); i++) {
		struct rpi_burst *r = ring_new(4, 8, RPI_BURST_SP | RPI_BURST_SC);
		struct rpi_burst_indices producer_lies = { .prod_tail = lies[i] };
		struct rpi_burst_indices consumer_lies = { .cons_tail = lies[i] };
		struct rpi_burst_span span;
		uint32_t n;

		/* ASan watches the ring's end, the bounds are asserted. */
		rpi_burst_set_indices(r, &producer_lies);
		assert_true(rpi_burst_count(r) <= 8);
		assert_true(rpi_burst_free_count(r) <= 8);
		assert_true(rpi_burst_pop(r, table, 64) <= 8);
		rpi_burst_set_indices(r, &producer_lies);
		assert_int_equal(rpi_burst_pop_bulk(r, table, 9), 0);
		n = rpi_burst_peek(r, 64, &span);
		assert_true(n <= 8);
		assert_true(n == 0 || span.first_count <= n);

		rpi_burst_set_indices(r, &consumer_lies);
		assert_true(rpi_burst_push_upto(r, table, 64) <= 8);
		rpi_burst_set_indices(r, &consumer_lies);
		assert_int_equal(rpi_burst_push(r, table, 9), 0);
		assert_int_equal(rpi_burst_reserve(r, 9, &span), 0);
		free(r);
	}
}

/* Why a ring whose producer died is thrown away: the state is what a producer
 * leaves that dies between moving prod.head and storing prod.tail. */
static void after_a_dead_producer_the_next_publishes_a_slot_nobody_wrote(void **state)
{
	static const struct rpi_burst_indices crashed = {
		.prod_head = 9, .prod_tail = 8, .cons_head = 8, .cons_tail = 8
	};
	struct rpi_burst *r = ring_new(4, 7, RPI_BURST_SP | RPI_BURST_SC);
	uint32_t old[8] = { 100, 101, 102, 103, 104, 105, 106, 107 };
	uint32_t fresh = 555, out[2] = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(rpi_burst_push(r, &old[i], 1), 1);
		assert_int_equal(rpi_burst_pop(r, out, 1), 1);
	}
	rpi_burst_set_indices(r, &crashed);
	assert_true(rpi_burst_empty(r));

	/* One element goes in, two come out, and the first is of the last round. */
	assert_int_equal(rpi_burst_push(r, &fresh, 1), 1);
	assert_int_equal(rpi_burst_count(r), 2);
	assert_int_equal(rpi_burst_pop(r, out, 2), 2);
	assert_int_equal(out[0], 100);
	assert_int_equal(out[1], 555);
	free(r);
}

static void *shared_new(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);

	assert_ptr_not_equal(mem, MAP_FAILED);
	return mem;
}

/* A child that ends with this test, at the latest. */
static pid_t child_start(void)
{
	pid_t parent = getpid(), pid = fork();

	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(99);
		alarm(WATCHDOG_S);
	}
	return pid;
}

static void child_ends_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

struct crash_page {
	_Atomic uint32_t inside;
	_Atomic uint32_t left;
};

/* The same state with several producers: the survivor never comes back. */
static void after_a_dead_producer_another_of_several_waits_for_ever(void **state)
{
	static const struct rpi_burst_indices crashed = { .prod_head = 1 };
	/* What the dead one would have stored; the survivor has moved the head on. */
	static const struct rpi_burst_indices finished = { .prod_head = 2,
							   .prod_tail = 1 };
	size_t bytes = rpi_burst_bytes(8, 4);
	struct rpi_burst *r = shared_new(bytes);
	struct crash_page *page = shared_new(sizeof(*page));
	pid_t pid;

	(void)state;
	assert_int_equal(rpi_burst_init(r, bytes, 8, 4, 0), 0);
	rpi_burst_set_indices(r, &crashed);
	pid = child_start();
	if (pid == 0) {
		uint64_t elem = 7;

		atomic_store(&page->inside, 1);
		if (rpi_burst_push(r, &elem, 1) != 1)
			_exit(1);
		atomic_store(&page->left, 1);
		_exit(0);
	}
	while (!atomic_load(&page->inside))
		sched_yield();
	/* Long enough to be through ten thousand times. */
	nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
	assert_int_equal(atomic_load(&page->left), 0);
	assert_true(rpi_burst_empty(r));

	/* It waited for that tail and for nothing else. */
	rpi_burst_set_indices(r, &finished);
	child_ends_well(pid);
	assert_int_equal(atomic_load(&page->left), 1);
	assert_int_equal(rpi_burst_count(r), 2);
	munmap(page, sizeof(*page));
	munmap(r, bytes);
}

#define PROCESS_ITEMS 20000u

static int produce_in_place(struct rpi_burst *r)
{
	struct rpi_burst_span span;
	uint64_t rng = 7;

	for (uint32_t put = 0; put < PROCESS_ITEMS;) {
		uint32_t n = min_u32(1 + rnd(&rng, 8), PROCESS_ITEMS - put);

		if (rpi_burst_reserve(r, n, &span) == 0) {
			sched_yield();
			continue;
		}
		for (uint32_t i = 0; i < n; i++)
			elem_fill(span_at(&span, 64, i), 64, put + i);
		if (rpi_burst_publish(r, n) != n)
			return 1;
		put += n;
	}
	return 0;
}

static void a_child_fills_and_the_parent_reads_in_place(void **state)
{
	size_t bytes = rpi_burst_bytes(64, 31);
	struct rpi_burst *r = shared_new(bytes);
	struct rpi_burst_span span;
	uint32_t taken = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(rpi_burst_init(r, bytes, 64, 31, RPI_BURST_SP | RPI_BURST_SC),
			 0);
	rpi_burst_set_start(r, UINT32_MAX - PROCESS_ITEMS / 2);
	pid = child_start();
	if (pid == 0)
		_exit(produce_in_place(r));
	while (taken < PROCESS_ITEMS) {
		uint32_t n = rpi_burst_empty(r) ? 0 : rpi_burst_peek(r, 8, &span);

		if (n == 0) {
			sched_yield();
			continue;
		}
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(elem_number(span_at(&span, 64, i), 64),
					 taken + i);
		assert_int_equal(rpi_burst_consume(r, n), n);
		taken += n;
	}
	child_ends_well(pid);
	assert_true(rpi_burst_empty(r));
	munmap(r, bytes);
}

/* Nothing inside is a pointer: two mappings of one file at two addresses will do. */
static void the_ring_works_at_two_addresses(void **state)
{
	size_t bytes = rpi_burst_bytes(8, 3);
	int fd = memfd_create("test_burst", MFD_CLOEXEC);
	struct rpi_burst *here, *there;
	uint64_t in[3] = { 1, 2, 3 }, out[3];

	(void)state;
	assert_int_not_equal(fd, -1);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	here = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	there = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(here, MAP_FAILED);
	assert_ptr_not_equal(there, MAP_FAILED);
	assert_int_equal(rpi_burst_init(here, bytes, 8, 3, 0), 0);
	assert_int_equal(rpi_burst_push(here, in, 3), 3);
	assert_int_equal(rpi_burst_pop(there, out, 3), 3);
	assert_memory_equal(in, out, sizeof(in));
	assert_true(rpi_burst_empty(here));
	munmap(here, bytes);
	munmap(there, bytes);
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_refuses_what_it_cannot_lay_out),
		cmocka_unit_test(bytes_are_zero_beyond_what_the_indices_can_count),
		cmocka_unit_test(capacity_n_holds_exactly_n),
		cmocka_unit_test(batch_of_k_with_k_less_one_free_is_refused_whole),
		cmocka_unit_test(moves_up_to_what_there_is),
		cmocka_unit_test(a_span_that_wraps_comes_in_two_pieces),
		cmocka_unit_test(what_is_not_published_or_consumed_is_given_back),
		cmocka_unit_test(more_than_was_handed_out_moves_nothing),
		cmocka_unit_test(a_shared_side_is_not_used_in_place),
		cmocka_unit_test(any_mix_of_calls_behaves_like_a_queue),
		cmocka_unit_test(a_peers_false_index_never_leads_outside),
		cmocka_unit_test(
			after_a_dead_producer_the_next_publishes_a_slot_nobody_wrote),
		cmocka_unit_test(after_a_dead_producer_another_of_several_waits_for_ever),
		cmocka_unit_test(a_child_fills_and_the_parent_reads_in_place),
		cmocka_unit_test(the_ring_works_at_two_addresses),
	};

	alarm(WATCHDOG_S);
	return cmocka_run_group_tests_name("burst", tests, NULL, NULL);
}
