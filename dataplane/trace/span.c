/* SPDX-License-Identifier: MIT */
/*
 * The rings of spans.
 *
 * Never: a lock, an allocation, a log; a system call only for a thread's first span, which
 * asks for its id.
 */
#include "trace/span.h"

#include <sys/syscall.h>
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

void rpi_trace_record(const struct rpi_tracer *tracer, enum rpi_trace_name name,
		     uint64_t begin, uint64_t end, const struct rpi_trace_of *of)
{
	struct rpi_trace_ring *ring = tracer->ring;
	/* Relaxed: a number of one's own, nothing else. */
	uint64_t at = atomic_fetch_add_explicit(&ring->head, 1, memory_order_relaxed);
	struct rpi_trace_record *record = &ring->records[at & (RPI_SPAN_RING - 1)];
	uint64_t seen = get(&record->seq);

	/* T1. A thread that was held up for a lap still writes there, or a later one has
	 * come first: leave the record to it. The reader counts this one as dropped. */
	if (rpi_unlikely(seen & RPI_SPAN_BUSY || seen > at) ||
	    !atomic_compare_exchange_strong_explicit(&record->seq, &seen,
						     at | RPI_SPAN_BUSY,
						     memory_order_acq_rel,
						     memory_order_relaxed))
		return;
	put(&record->begin, begin);
	put(&record->end, end);
	put(&record->run_seq, of->run_seq);
	put(&record->task_seq, of->task_seq);
	put(&record->what, rpi_trace_what(name, of->program, of->entry));
	put(&record->thread, own_thread());
	put(&record->value, of->value);
	atomic_store_explicit(&record->seq, at + 1, memory_order_release); /* T1 */
}

/* 1 it is whole and was copied, 0 not yet, -1 it is gone. */
static int copy_at(const struct rpi_trace_ring *ring, uint64_t at,
		   struct rpi_trace_copy *out)
{
	const struct rpi_trace_record *record = &ring->records[at & (RPI_SPAN_RING - 1)];
	uint64_t seq = atomic_load_explicit(&record->seq, memory_order_acquire); /* T1 */

	if (seq != at + 1)
		return !(seq & RPI_SPAN_BUSY) && seq > at + 1 ? -1 : 0;
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

int rpi_trace_take(const struct rpi_trace_ring *ring, uint64_t *at_io,
		  struct rpi_trace_copy *out, uint64_t *dropped_io)
{
	for (;;) {
		uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
		int ret;

		/* Written by other processes: whatever it says, the walk stays inside
		 * the ring and moves forward. */
		if (head - *at_io > RPI_SPAN_RING && head > *at_io) {
			*dropped_io += head - RPI_SPAN_RING - *at_io;
			*at_io = head - RPI_SPAN_RING;
		}
		if (*at_io >= head)
			return 0;
		ret = copy_at(ring, *at_io, out);
		if (!ret)
			return 0;
		++*at_io;
		if (ret > 0)
			return 1;
		++*dropped_io;
	}
}
