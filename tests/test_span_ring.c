/* SPDX-License-Identifier: MIT */
/* The ring of span records: order, overflow, threads, and what only a crash leaves. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "trace/span.h"

struct bed {
	struct rpi_trace *trace;
	struct rpi_tracer tracer;
	struct rpi_trace_ring *ring; /* to be read */
	uint64_t at, dropped;
	_Atomic uint32_t stop;
};

/* Records go to the ring that is shared, as if the other were another thread's. */
static void share(struct bed *bed)
{
	atomic_store(&bed->tracer.log->owner, UINT64_MAX);
	bed->ring = &bed->tracer.log->rings[RPI_TRACE_SHARED];
}

static int setup(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	size_t bytes = sizeof(*bed->trace) + sizeof(struct rpi_trace_log);

	if (!bed)
		return -1;
	bed->trace = aligned_alloc(RPI_SHARE_ALIGN, bytes);
	if (!bed->trace) {
		free(bed);
		return -1;
	}
	memset((void *)bed->trace, 0, bytes);
	bed->tracer.trace = bed->trace;
	bed->tracer.log = &bed->trace->logs[0];
	bed->ring = &bed->tracer.log->rings[RPI_TRACE_OWNED];
	*state = bed;
	return 0;
}

static int teardown(void **state)
{
	struct bed *bed = *state;

	free(bed->trace);
	free(bed);
	return 0;
}

static void record(struct bed *bed, uint64_t number)
{
	const struct rpi_trace_of of = { .run_seq = number, .value = ~number };

	rpi_trace_record(&bed->tracer, RPI_SPAN_RUN, number, 2 * number, &of);
}

static int take(struct bed *bed, uint64_t *number_out)
{
	struct rpi_trace_copy copy;
	int ret = rpi_trace_take(bed->ring, &bed->at, &copy, &bed->dropped);

	if (!ret)
		return 0;
	/* All words are of one record. */
	assert_true(copy.begin == copy.run_seq && copy.end == 2 * copy.run_seq);
	assert_true(copy.value == ~copy.run_seq);
	*number_out = copy.run_seq;
	return 1;
}

static void nobody_attached_is_no_record(void **state)
{
	struct bed *bed = *state;
	const struct rpi_trace_of of = { 0 };
	uint64_t began = rpi_trace_open(&bed->tracer, RPI_TRACE_HOST);

	assert_int_equal(began, 0);
	assert_int_equal(rpi_trace_close(&bed->tracer, RPI_SPAN_RUN, began, &of), 0);
	assert_int_equal(bed->ring->head, 0);
	atomic_store(&bed->trace->wanted, RPI_TRACE_DEVICE);
	assert_int_equal(rpi_trace_open(&bed->tracer, RPI_TRACE_HOST), 0);
	atomic_store(&bed->trace->wanted, RPI_TRACE_HOST);
	began = rpi_trace_open(&bed->tracer, RPI_TRACE_HOST);
	assert_true(!(RPI_TRACE_BUILT & RPI_TRACE_HOST) == !began);
}

static void check_order(struct bed *bed)
{
	uint64_t number;

	for (uint64_t lap = 0; lap < 5; lap++) {
		for (uint64_t i = 0; i < RPI_SPAN_RING; i++)
			record(bed, lap * RPI_SPAN_RING + i);
		for (uint64_t i = 0; i < RPI_SPAN_RING; i++) {
			assert_int_equal(take(bed, &number), 1);
			assert_int_equal(number, lap * RPI_SPAN_RING + i);
		}
		assert_int_equal(take(bed, &number), 0);
	}
	assert_int_equal(bed->dropped, 0);
}

static void records_come_out_in_order_once(void **state)
{
	check_order(*state);
}

static void records_of_a_shared_ring_come_out_in_order_once(void **state)
{
	share(*state);
	check_order(*state);
}

static void check_overflow(struct bed *bed)
{
	uint64_t number, next = 1000;

	for (uint64_t i = 0; i < RPI_SPAN_RING + 1000; i++)
		record(bed, i);
	while (take(bed, &number))
		assert_int_equal(number, next++);
	assert_int_equal(next, RPI_SPAN_RING + 1000);
	assert_int_equal(bed->dropped, 1000);
}

static void overflow_drops_the_oldest_and_counts_them(void **state)
{
	check_overflow(*state);
}

static void overflow_of_a_shared_ring_drops_the_oldest_and_counts_them(void **state)
{
	share(*state);
	check_overflow(*state);
}

static void a_ring_belongs_to_the_first_thread_that_records(void **state)
{
	struct bed *bed = *state;
	uint64_t number;

	record(bed, 7);
	assert_int_not_equal(bed->tracer.log->owner, 0);
	record(bed, 8);
	assert_int_equal(bed->ring->head, 2);
	share(bed);
	record(bed, 9);
	assert_int_equal(bed->tracer.log->rings[RPI_TRACE_OWNED].head, 2);
	assert_int_equal(take(bed, &number), 1);
	assert_int_equal(number, 9);
}

static void a_record_that_a_dead_process_left_half_written_holds_up_one_lap(void **state)
{
	struct bed *bed = *state;
	uint64_t number;

	share(bed);
	record(bed, 0);
	atomic_fetch_add(&bed->ring->head, 1);
	atomic_store(&bed->ring->records[1].seq, 1 | RPI_SPAN_BUSY);
	record(bed, 2);
	assert_int_equal(take(bed, &number), 1);
	assert_int_equal(take(bed, &number), 0);
	/* Its place is passed by: from then on positions are one ahead of numbers. */
	for (uint64_t i = 3; i < RPI_SPAN_RING + 2; i++)
		record(bed, i);
	for (uint64_t i = 3; i < RPI_SPAN_RING + 2; i++) {
		assert_int_equal(take(bed, &number), 1);
		assert_int_equal(number, i);
	}
	assert_int_equal(take(bed, &number), 0);
	assert_int_equal(bed->dropped, 3);
}

static void a_head_of_nonsense_ends_no_reader(void **state)
{
	struct bed *bed = *state;
	uint64_t number;

	record(bed, 0);
	atomic_store(&bed->ring->head, UINT64_MAX);
	assert_int_equal(take(bed, &number), 0);
	atomic_store(&bed->ring->head, 1);
	assert_int_equal(take(bed, &number), 0);
}

#define THREADS	 3
#define EACH	 60000
#define OF_SHIFT 32
#define LAPS	 (THREADS * EACH / RPI_SPAN_RING)

struct writer {
	struct bed *bed;
	uint64_t id;
};

static void *write_many(void *arg)
{
	struct writer *writer = arg;

	for (uint64_t i = 0; i < EACH; i++)
		record(writer->bed, writer->id << OF_SHIFT | i);
	return NULL;
}

/* From one ring or the other. */
static int take_any(struct bed *bed, uint64_t *shared_at_io, uint64_t *number_out)
{
	struct bed shared = *bed;
	int ret = take(bed, number_out);

	if (ret)
		return ret;
	shared.ring = &bed->tracer.log->rings[RPI_TRACE_SHARED];
	shared.at = *shared_at_io;
	shared.dropped = 0;
	ret = take(&shared, number_out);
	*shared_at_io = shared.at;
	bed->dropped += shared.dropped;
	return ret;
}

/* Each is read once or counted as dropped, and each thread's in its order. */
static void several_threads_lose_nothing_uncounted(void **state)
{
	struct bed *bed = *state;
	struct writer writers[THREADS];
	pthread_t threads[THREADS];
	uint64_t next[THREADS] = { 0 };
	uint64_t number, shared_at = 0, taken = 0;

	for (uint64_t i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ bed, i };
		assert_int_equal(
			pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
	}
	for (int joined = 0;;) {
		while (take_any(bed, &shared_at, &number)) {
			uint64_t of = number >> OF_SHIFT;
			uint64_t i = number & UINT32_MAX;

			assert_in_range(of, 0, THREADS - 1);
			assert_in_range(i, next[of], EACH - 1);
			next[of] = i + 1;
			taken++;
		}
		if (joined == THREADS)
			break;
		pthread_join(threads[joined++], NULL);
	}
	/* The newest stand in the ring unread only where a thread gave up its place. What
	 * a thread that was held up writes to, the others pass by, once a lap. */
	assert_int_equal(bed->at, EACH);
	assert_in_range(taken + bed->dropped, THREADS * EACH - RPI_SPAN_RING,
			THREADS * EACH + (THREADS - 1) * (LAPS + 2));
	assert_true(taken > 0);
}

#define RING_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void *read_and_say(void *arg)
{
	struct bed *bed = arg;
	uint64_t number;

	while (!atomic_load(&bed->stop)) {
		while (take(bed, &number))
			;
		atomic_store(&bed->ring->reader, bed->at + 1);
	}
	return NULL;
}

static void who_waits_for_a_capture_loses_nothing(void **state)
{
	struct bed *bed = *state;
	pthread_t reader;

	atomic_store(&bed->ring->reader, 1);
	assert_int_equal(pthread_create(&reader, NULL, read_and_say, bed), 0);
	for (uint64_t i = 1; i <= 8 * RPI_SPAN_RING; i++) {
		rpi_trace_await_room(&bed->tracer, NULL);
		record(bed, i);
	}
	atomic_store(&bed->stop, 1);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(bed->dropped, 0);
}

/* One that has stopped, or is gone, is not waited for for ever; and without one nobody
 * waits at all. */
static void nobody_waits_for_a_reader_that_stands_still(void **state)
{
	struct bed *bed = *state;
	uint64_t before;

	for (uint64_t i = 1; i <= RPI_SPAN_RING; i++)
		record(bed, i);
	before = atomic_load(&bed->ring->head);
	rpi_trace_await_room(&bed->tracer, NULL);
	atomic_store(&bed->ring->reader, 1);
	rpi_trace_await_room(&bed->tracer, NULL);
	assert_int_equal(atomic_load(&bed->ring->head), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(nobody_attached_is_no_record),
		RING_TEST(records_come_out_in_order_once),
		RING_TEST(records_of_a_shared_ring_come_out_in_order_once),
		RING_TEST(overflow_drops_the_oldest_and_counts_them),
		RING_TEST(overflow_of_a_shared_ring_drops_the_oldest_and_counts_them),
		RING_TEST(a_ring_belongs_to_the_first_thread_that_records),
		RING_TEST(
			a_record_that_a_dead_process_left_half_written_holds_up_one_lap),
		RING_TEST(a_head_of_nonsense_ends_no_reader),
		RING_TEST(several_threads_lose_nothing_uncounted),
		RING_TEST(who_waits_for_a_capture_loses_nothing),
		RING_TEST(nobody_waits_for_a_reader_that_stands_still),
	};

	return cmocka_run_group_tests_name("span_ring", tests, NULL, NULL);
}
