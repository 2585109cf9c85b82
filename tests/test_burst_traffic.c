/* SPDX-License-Identifier: MIT */
/* Much through a burst ring: against a model in one process, then between two. */
#include "ring/burst.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "elem.h"
#include "proc.h"

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
		elem_fill(elem_at(&span, m->elem_bytes, i), m->elem_bytes, m->put + i);
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
			elem_number(elem_at(&span, m->elem_bytes, i), m->elem_bytes),
			m->taken + i);
	n = rnd(&m->rng, want + 1);
	assert_int_equal(rpi_burst_consume(r, n), n);
	m->taken += n;
}

static void model_run(struct model *m, unsigned int flags, uint32_t start)
{
	struct rpi_burst *r = elem_ring_new(m->elem_bytes, m->capacity, flags);

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
	const char *text = getenv("RINGPLANE_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 42;
	/* Of all states xorshift may not have, there is only zero. */
	struct model m = { .rng = seed ? seed : 1 };

	(void)state;
	print_message("  seed %" PRIu64 " (RINGPLANE_TEST_SEED)\n", seed);
	for (size_t c = 0; c < COUNT(elem_ring_capacities); c++)
		for (size_t e = 0; e < COUNT(elem_ring_sizes); e++)
			for (size_t s = 0; s < COUNT(elem_ring_starts); s++)
				for (unsigned int flags = 0; flags < 4; flags++) {
					m.elem_bytes = elem_ring_sizes[e];
					m.capacity = elem_ring_capacities[c];
					model_run(&m, flags, elem_ring_starts[s]);
				}
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
		alarm(PROC_WATCHDOG_S);
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

/* A producer died between moving prod.head and storing prod.tail, one of several: the
 * survivor never comes back. */
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
			elem_fill(elem_at(&span, 64, i), 64, put + i);
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
			assert_int_equal(elem_number(elem_at(&span, 64, i), 64),
					 taken + i);
		assert_int_equal(rpi_burst_consume(r, n), n);
		taken += n;
	}
	child_ends_well(pid);
	assert_true(rpi_burst_empty(r));
	munmap(r, bytes);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_mix_of_calls_behaves_like_a_queue),
		cmocka_unit_test(after_a_dead_producer_another_of_several_waits_for_ever),
		cmocka_unit_test(a_child_fills_and_the_parent_reads_in_place),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("burst_traffic", tests, NULL, NULL);
}
