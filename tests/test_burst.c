/* SPDX-License-Identifier: MIT */
/* The burst ring, one step at a time. */
#include "ring/burst.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "elem.h"
#include "proc.h"

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
	struct rpi_burst *r = elem_ring_new(elem_bytes, capacity, flags);
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
	for (size_t c = 0; c < COUNT(elem_ring_capacities); c++)
		for (size_t e = 0; e < COUNT(elem_ring_sizes); e++)
			for (size_t s = 0; s < COUNT(elem_ring_starts); s++)
				for (unsigned int flags = 0; flags < 4; flags++)
					holds_exactly(elem_ring_sizes[e],
						      elem_ring_capacities[c], flags,
						      elem_ring_starts[s]);
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
			struct rpi_burst *r = elem_ring_new(8, cases[i].capacity, flags);
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
	struct rpi_burst *r = elem_ring_new(4, 3, RPI_BURST_SP);
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
	struct rpi_burst *r = elem_ring_new(12, 5, RPI_BURST_SP | RPI_BURST_SC);
	struct rpi_burst_span in, out;

	(void)state;
	rpi_burst_set_start(r, UINT32_MAX - 1);
	assert_int_equal(rpi_burst_reserve(r, 5, &in), 5);
	assert_int_equal(in.first_count, 2);
	assert_non_null(in.second);
	assert_ptr_equal((uint8_t *)in.first - (uint8_t *)in.second, 6 * 12);
	for (uint32_t i = 0; i < 5; i++)
		elem_fill(elem_at(&in, 12, i), 12, i);

	assert_true(rpi_burst_empty(r));
	assert_int_equal(rpi_burst_peek(r, 5, &out), 0);
	assert_int_equal(rpi_burst_publish(r, 5), 5);
	assert_false(rpi_burst_empty(r));

	assert_int_equal(rpi_burst_peek(r, 9, &out), 5);
	assert_int_equal(out.first_count, 2);
	assert_ptr_equal(out.first, in.first);
	assert_ptr_equal(out.second, in.second);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(elem_number(elem_at(&out, 12, i), 12), i);
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
	struct rpi_burst *r = elem_ring_new(4, 4, RPI_BURST_SP | RPI_BURST_SC);
	struct rpi_burst_span span;
	uint32_t out[4];

	(void)state;
	assert_int_equal(rpi_burst_reserve(r, 4, &span), 4);
	for (uint32_t i = 0; i < 4; i++)
		elem_fill(elem_at(&span, 4, i), 4, 10 + i);
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
	struct rpi_burst *r = elem_ring_new(4, 4, RPI_BURST_SP | RPI_BURST_SC);
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
	struct rpi_burst *r = elem_ring_new(4, 4, 0);
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

/* Whatever a peer stores in its index, the other side stays inside the ring. */
static void a_peers_false_index_never_leads_outside(void **state)
{
	static const uint32_t lies[] = { 1, 5, 9, 0x7fffffff, 0x80000000, UINT32_MAX };
	uint32_t table[64];

	(void)state;
	memset(table, 0, sizeof(table));
	for (size_t i = 0; i < COUNT(lies); i++) {
		struct rpi_burst *r = elem_ring_new(4, 8, RPI_BURST_SP | RPI_BURST_SC);
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
	struct rpi_burst *r = elem_ring_new(4, 7, RPI_BURST_SP | RPI_BURST_SC);
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
		cmocka_unit_test(a_peers_false_index_never_leads_outside),
		cmocka_unit_test(
			after_a_dead_producer_the_next_publishes_a_slot_nobody_wrote),
		cmocka_unit_test(the_ring_works_at_two_addresses),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("burst", tests, NULL, NULL);
}
