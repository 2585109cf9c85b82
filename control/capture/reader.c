/* SPDX-License-Identifier: MIT */
#include "capture/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "process/thread.h"
#include "worker/worker.h"

/* Between two looks: often enough that no ring comes round meanwhile, seldom enough that
 * the run is not disturbed. */
#define LOOK_NS_MIN 20000
#define LOOK_NS_MAX 160000

/* A ring that has so many new records is filling fast. */
#define MANY (RPI_SPAN_RING / 8)

static void keep(struct rpi_reader *reader, uint32_t peer,
		 const struct rpi_trace_copy *copy)
{
	struct rpi_reading *reading = reader->reading;
	struct rpi_seen *seen;

	if (copy->run_seq != reader->run || reading->err)
		return;
	seen = rpi_list_append(&reading->seen, 1, sizeof(*seen));
	if (seen)
		*seen = (struct rpi_seen){ .copy = *copy, .peer = peer };
	else
		reading->err = -ENOMEM;
}

/* Who waits for room goes on. */
static void publish(struct rpi_trace_ring *ring, uint64_t reader)
{
	/* Relaxed: a hint. */
	atomic_store_explicit(&ring->reader, reader, memory_order_relaxed);
}

/* How many new records there were. */
static uint32_t look_at(struct rpi_reader *reader, uint32_t peer, uint32_t which)
{
	struct rpi_trace *trace = reader->worker->plane.tracer.trace;
	struct rpi_trace_ring *ring = &trace->logs[peer].rings[which];
	uint64_t *at = &reader->at[peer][which];
	struct rpi_trace_copy copy;
	uint32_t count = 0;

	/* What comes meanwhile is for the next look. */
	while (count < RPI_SPAN_RING &&
	       rpi_trace_take(ring, at, &copy, &reader->reading->dropped)) {
		keep(reader, peer, &copy);
		count++;
	}
	publish(ring, *at + 1);
	return count;
}

/* The most that any ring had. */
static uint32_t look(struct rpi_reader *reader)
{
	uint32_t most = 0, peer, which;

	for (peer = 0; peer <= reader->worker->plane.peer_count; peer++) {
		for (which = 0; which < RPI_TRACE_RINGS; which++) {
			uint32_t count = look_at(reader, peer, which);

			if (count > most)
				most = count;
		}
	}
	return most;
}

static void *read_on(void *arg)
{
	struct rpi_reader *reader = arg;
	struct timespec moment = { .tv_nsec = LOOK_NS_MIN };

	/* Acquire: what was recorded before the stop is there. */
	while (!atomic_load_explicit(&reader->stop, memory_order_acquire)) {
		if (look(reader) >= MANY)
			moment.tv_nsec = LOOK_NS_MIN;
		else if (moment.tv_nsec < LOOK_NS_MAX)
			moment.tv_nsec *= 2;
		nanosleep(&moment, NULL);
	}
	return NULL;
}

/* Nobody reads any more. */
static void forget(struct rpi_reader *reader)
{
	struct rpi_trace *trace = reader->worker->plane.tracer.trace;
	uint32_t peer, which;

	for (peer = 0; peer <= reader->worker->plane.peer_count; peer++)
		for (which = 0; which < RPI_TRACE_RINGS; which++)
			publish(&trace->logs[peer].rings[which], 0);
}

int rpi_reader_start(struct rpi_reader *reader, struct rp_worker *worker, uint64_t run,
		     struct rpi_reading *reading)
{
	struct rpi_trace *trace = worker->plane.tracer.trace;
	uint32_t peer, which;
	int err;

	memset(reader, 0, sizeof(*reader));
	reader->worker = worker;
	reader->run = run;
	reader->reading = reading;
	for (peer = 0; peer <= worker->plane.peer_count; peer++) {
		for (which = 0; which < RPI_TRACE_RINGS; which++) {
			struct rpi_trace_ring *ring = &trace->logs[peer].rings[which];
			uint64_t *at = &reader->at[peer][which];

			*at = atomic_load_explicit(&ring->head, memory_order_relaxed);
			publish(ring, *at + 1);
		}
	}
	err = rpi_thread_start(&reader->thread, "rp-capture", read_on, reader);
	if (err)
		forget(reader);
	return err;
}

void rpi_reader_stop(struct rpi_reader *reader)
{
	atomic_store_explicit(&reader->stop, 1, memory_order_release);
	pthread_join(reader->thread, NULL);
	while (look(reader) == RPI_SPAN_RING)
		;
	forget(reader);
}

static int compare(const void *left, const void *right)
{
	const struct rpi_seen *a = left, *b = right;

	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	if (a->copy.task_seq != b->copy.task_seq)
		return a->copy.task_seq < b->copy.task_seq ? -1 : 1;
	if (a->copy.begin != b->copy.begin)
		return a->copy.begin < b->copy.begin ? -1 : 1;
	if (a->copy.end != b->copy.end)
		return a->copy.end > b->copy.end ? -1 : 1;
	return 0;
}

void rpi_reading_sort(struct rpi_reading *reading)
{
	if (reading->seen.count)
		qsort(reading->seen.at, reading->seen.count, sizeof(struct rpi_seen),
		      compare);
}

void rpi_reading_free(struct rpi_reading *reading)
{
	free(reading->seen.at);
	memset(reading, 0, sizeof(*reading));
}
