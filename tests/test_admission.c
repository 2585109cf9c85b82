/* SPDX-License-Identifier: MIT */
/* One at a time, in order of arrival, and nobody is left in the queue. */
#include "dispatch/admission.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "completion/fence.h"
#include "ring/burst.h"
#include "support.h"

#define QUEUED 24

struct queue {
	struct rpi_admission admission;
	uint32_t order[QUEUED];
	uint32_t order_count; /* inside admission only */
};

struct visitor {
	struct queue *queue;
	uint32_t number;
};

static void *visit_once(void *arg)
{
	struct visitor *visitor = arg;
	struct queue *queue = visitor->queue;

	rpi_admission_enter(&queue->admission);
	queue->order[queue->order_count++] = visitor->number;
	rpi_admission_leave(&queue->admission);
	return NULL;
}

static void threads_are_admitted_in_order_of_arrival(void **state)
{
	struct queue queue;
	struct visitor visitors[QUEUED];
	pthread_t threads[QUEUED];

	(void)state;
	memset(&queue, 0, sizeof(queue));
	assert_ok(rpi_admission_init(&queue.admission));
	for (int round = 0; round < 5; round++) {
		queue.order_count = 0;
		rpi_admission_enter(&queue.admission);
		for (uint32_t i = 0; i < QUEUED; i++) {
			visitors[i] = (struct visitor){ .queue = &queue, .number = i };
			assert_int_equal(pthread_create(&threads[i], NULL, visit_once,
							&visitors[i]),
					 0);
			while (rpi_burst_count(queue.admission.queue) != i + 1)
				sched_yield();
		}
		assert_int_equal(queue.order_count, 0);
		rpi_admission_leave(&queue.admission);
		for (uint32_t i = 0; i < QUEUED; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(queue.order_count, QUEUED);
		for (uint32_t i = 0; i < QUEUED; i++)
			assert_int_equal(queue.order[i], i);
	}
	rpi_admission_fini(&queue.admission);
}

static void alone_it_is_free_again_each_time(void **state)
{
	struct rpi_admission admission;

	(void)state;
	assert_ok(rpi_admission_init(&admission));
	for (int i = 0; i < 1000; i++) {
		rpi_admission_enter(&admission);
		assert_int_equal(atomic_load(&admission.taken), 1);
		rpi_admission_leave(&admission);
		assert_int_equal(atomic_load(&admission.taken), 0);
	}
	rpi_admission_fini(&admission);
}

struct crowd {
	struct rpi_admission admission;
	uint64_t inside; /* plain: admission alone guards these */
	uint64_t visits;
	uint64_t mistakes;
	int turns;
	bool linger;
};

static void *visit_often(void *arg)
{
	struct crowd *crowd = arg;

	for (int i = 0; i < crowd->turns; i++) {
		rpi_admission_enter(&crowd->admission);
		if (crowd->inside++)
			crowd->mistakes++;
		crowd->visits++;
		if (crowd->linger && i % 16 == 0)
			sched_yield();
		crowd->inside--;
		rpi_admission_leave(&crowd->admission);
		if (!crowd->linger)
			sched_yield();
	}
	return NULL;
}

/* TSan's runtime lets those who look at a word hold up the one who is to store it: rings
 * that many producers wait in then stand still. */
#define CROWD_MAX (RPI_FENCE_TSAN ? 2 : 32)

static void many_threads_exclude_each_other_and_none_is_lost(void **state)
{
	static const struct {
		int threads, turns;
		bool linger;
	} cases[] = {
		{ 2, 20000, false }, /* mostly free */
		{ 2, 5000, true },   { 8, 3000, false },
		{ 8, 1000, true }, /* mostly queued */
		{ 32, 200, true },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(cases) && cases[k].threads <= CROWD_MAX; k++) {
		struct crowd crowd = { .turns = cases[k].turns,
				       .linger = cases[k].linger };
		pthread_t threads[32];

		assert_ok(rpi_admission_init(&crowd.admission));
		for (int i = 0; i < cases[k].threads; i++)
			assert_int_equal(
				pthread_create(&threads[i], NULL, visit_often, &crowd),
				0);
		for (int i = 0; i < cases[k].threads; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(crowd.mistakes, 0);
		assert_int_equal(crowd.visits,
				 (uint64_t)cases[k].threads * (uint64_t)cases[k].turns);
		assert_int_equal(atomic_load(&crowd.admission.taken), 0);
		assert_true(rpi_burst_empty(crowd.admission.queue));
		rpi_admission_fini(&crowd.admission);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(alone_it_is_free_again_each_time,
						bed_setup, bed_teardown),
		cmocka_unit_test_setup_teardown(threads_are_admitted_in_order_of_arrival,
						bed_setup, bed_teardown),
		cmocka_unit_test_setup_teardown(
			many_threads_exclude_each_other_and_none_is_lost, bed_setup,
			bed_teardown),
	};

	return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
