/* SPDX-License-Identifier: MIT */
/*
 * The rings of spans.
 *
 * Never: a lock, an allocation, a log; a system call only for a thread's first span,
 * which asks for its id, and to wait for a capture.
 */
#include "trace/span.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct rpi_trace rpi_trace_idle;

static _Thread_local __attribute__((tls_model("initial-exec"))) uint64_t thread_id;

/* A forked process begins with its parent's thread-local words. */
void rpi_trace_forget_thread(void)
{
	thread_id = 0;
}

static uint64_t own_thread(void)
{
	if (rpi_unlikely(!thread_id))
		thread_id = (uint64_t)syscall(SYS_gettid);
	return thread_id;
}

static void put(_Atomic uint64_t *word, uint64_t value)
{
	/* Relaxed: `seq` publishes it. T1 */
	atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/* T2. Whether the first ring is this thread's. */
static bool own_ring(struct rpi_trace_log *log, uint64_t self)
{
	uint64_t owner = get(&log->owner);

	if (rpi_likely(owner == self))
		return true;
	/* Relaxed: the word hands over nothing but the right to write. */
	return !owner && atomic_compare_exchange_strong_explicit(
				 &log->owner, &owner, self, memory_order_relaxed,
				 memory_order_relaxed);
}

/* T2. The next place of the thread's own ring. */
static struct rpi_trace_record *take_next(struct rpi_trace_ring *ring, uint64_t *at_out)
{
	uint64_t at = get(&ring->head);
	struct rpi_trace_record *record = &ring->records[at & (RPI_SPAN_RING - 1)];

	put(&record->seq, at | RPI_SPAN_BUSY);
	/* T1: the mark comes before what is filled in. */
	atomic_thread_fence(memory_order_release);
	put(&ring->head, at + 1);
	*at_out = at;
	return record;
}

/* T1. The next free place: the newest that is taken is a hint, the record itself decides.
 * One that another thread still writes to, a lap behind, is passed by. */
static struct rpi_trace_record *claim(struct rpi_trace_ring *ring, uint64_t *at_out)
{
	uint64_t at = get(&ring->head);
	struct rpi_trace_record *record;
	uint64_t seen;

	for (;; at++) {
		record = &ring->records[at & (RPI_SPAN_RING - 1)];
		seen = get(&record->seq);
		if (rpi_unlikely(seen & RPI_SPAN_BUSY || seen > at))
			continue;
		if (rpi_likely(atomic_compare_exchange_strong_explicit(
			    &record->seq, &seen, at | RPI_SPAN_BUSY, memory_order_acq_rel,
			    memory_order_relaxed)))
			break;
	}
	put(&ring->head, at + 1);
	*at_out = at;
	return record;
}

/* The one that a thread writes to. */
static struct rpi_trace_ring *ring_of(const struct rpi_tracer *tracer, bool own)
{
	return &tracer->log->rings[own ? RPI_TRACE_OWNED : RPI_TRACE_SHARED];
}

void rpi_trace_record(const struct rpi_tracer *tracer, enum rpi_trace_name name,
		      uint64_t begin, uint64_t end, const struct rpi_trace_of *of)
{
	uint64_t self = own_thread(), at;
	bool own = own_ring(tracer->log, self);
	struct rpi_trace_ring *ring = ring_of(tracer, own);
	struct rpi_trace_record *record = rpi_likely(own) ? take_next(ring, &at)
							  : claim(ring, &at);

	put(&record->begin, begin);
	put(&record->end, end);
	put(&record->run_seq, of->run_seq);
	put(&record->task_seq, of->task_seq);
	put(&record->what, rpi_trace_what(name, of->program, of->entry));
	put(&record->thread, self);
	put(&record->value, of->value);
	atomic_store_explicit(&record->seq, at + 1, memory_order_release); /* T1 */
	rpi_cpu_prefetch_write(&ring->records[(at + 1) & (RPI_SPAN_RING - 1)]);
}

/* Between two looks, and how many in vain are one too many. */
#define ROOM_LOOK_NS 50000
#define ROOM_LOOKS   4000

static bool is_behind(const struct rpi_trace_ring *ring, uint64_t reader)
{
	/* Relaxed: a hint, like `head`. */
	return reader && get(&ring->head) - (reader - 1) > RPI_SPAN_RING / 2;
}

void rpi_trace_await_room(const struct rpi_tracer *tracer, const struct rpi_trace_of *of)
{
	const struct timespec moment = { .tv_nsec = ROOM_LOOK_NS };
	struct rpi_trace_ring *ring =
		ring_of(tracer, own_ring(tracer->log, own_thread()));
	uint64_t reader = get(&ring->reader), begin;
	uint32_t looks = 0;

	if (rpi_likely(!is_behind(ring, reader)))
		return;
	begin = rpi_clock_ticks();
	while (is_behind(ring, reader) && looks++ < ROOM_LOOKS) {
		const uint64_t before = reader;

		nanosleep(&moment, NULL);
		reader = get(&ring->reader);
		if (reader != before)
			looks = 0;
	}
	if (of)
		rpi_trace_record(tracer, RPI_SPAN_PAUSE, begin, rpi_clock_ticks(), of);
}

/* 1 it is whole and was copied, 0 it is not there yet, -1 it is gone. */
static int copy_at(const struct rpi_trace_ring *ring, uint64_t at,
		   struct rpi_trace_copy *out)
{
	const struct rpi_trace_record *record = &ring->records[at & (RPI_SPAN_RING - 1)];
	uint64_t seq = atomic_load_explicit(&record->seq, memory_order_acquire); /* T1 */

	if (seq != at + 1)
		return (seq & ~RPI_SPAN_BUSY) > at + 1 ? -1 : 0;
	out->begin = get(&record->begin);
	out->end = get(&record->end);
	out->run_seq = get(&record->run_seq);
	out->task_seq = get(&record->task_seq);
	out->what = get(&record->what);
	out->thread = get(&record->thread);
	out->value = get(&record->value);
	/* T1: the look at `seq` comes after the copy. */
	atomic_thread_fence(memory_order_acquire);
	return get(&record->seq) == at + 1 ? 1 : -1;
}

/* Whether the record is still held by a writer of an earlier lap while later ones are
 * there. */
static bool passed_by(const struct rpi_trace_ring *ring, uint64_t at)
{
	uint64_t seq = get(&ring->records[at & (RPI_SPAN_RING - 1)].seq);
	uint64_t next = get(&ring->records[(at + 1) & (RPI_SPAN_RING - 1)].seq);

	return (seq & RPI_SPAN_BUSY) && (seq & ~RPI_SPAN_BUSY) < at && next == at + 2;
}

int rpi_trace_take(const struct rpi_trace_ring *ring, uint64_t *at_io,
		   struct rpi_trace_copy *out, uint64_t *dropped_io)
{
	for (;;) {
		/* A hint, and written by other processes: whatever it says, the walk
		 * stays inside the ring and moves forward. */
		uint64_t head = get(&ring->head);
		int ret;

		if (head > *at_io && head - *at_io > RPI_SPAN_RING) {
			*dropped_io += head - RPI_SPAN_RING - *at_io;
			*at_io = head - RPI_SPAN_RING;
		}
		ret = copy_at(ring, *at_io, out);
		/* Nothing was or will be written where a writer passed by. */
		if (!ret && !passed_by(ring, *at_io))
			return 0;
		++*at_io;
		if (ret > 0)
			return 1;
		++*dropped_io;
	}
}
