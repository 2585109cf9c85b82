/* SPDX-License-Identifier: MIT */
/*
 * Spans: where the time of a dispatch goes. Each process has rings of records in a
 * region that was made before the fork; the caller's process reads them all.
 *
 * With nobody attached a span is one load and one branch. Recording never waits, calls
 * the system or allocates: what nobody has read is written over, and the reader counts
 * it. Only between things that are timed, and only for a capture, does anybody wait.
 *
 * Memory order. T1: the writer takes a record by marking `seq` busy, fills it and stores
 * `seq` release; the reader loads `seq` acquire, copies, fences, and looks at `seq`
 * again. Each word of a record is atomic, so a copy that was written over meanwhile is
 * only thrown away. Invariant: a record whose `seq` is whole was written by one thread.
 *
 * T2: the first thread of a process to record takes a ring for itself by compare-and-swap
 * of `owner`, for good, and marks its records with plain stores; the others share a ring
 * and mark them by compare-and-swap, which costs as much as the rest of a record.
 * Invariant: nobody else stores to the owner's ring.
 */
#ifndef RPI_TRACE_SPAN_H
#define RPI_TRACE_SPAN_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "trace/board.h"
#include "trace/latency.h"
#include "trace/names.h"

/* What is built in; 0 removes it altogether. */
#ifndef SIMPLER_HOST_STRACE
#define SIMPLER_HOST_STRACE 1
#endif
#ifndef SIMPLER_DFX
#define SIMPLER_DFX 1
#endif

/* Bits of `wanted`. */
#define RPI_TRACE_HOST	  1u
#define RPI_TRACE_DEVICE  2u
#define RPI_TRACE_KERNELS 4u
#define RPI_TRACE_LATENCY 8u /* the histogram; see latency.h */
#define RPI_TRACE_EDGES	  16u
/* Wanted by captures alone. */
#define RPI_TRACE_NAMES	 32u /* of kernels */
#define RPI_TRACE_LIFE	 64u
#define RPI_TRACE_GRAPH	 128u
#define RPI_TRACE_SCOPES 256u
#define RPI_TRACE_NOTES \
	(RPI_TRACE_NAMES | RPI_TRACE_LIFE | RPI_TRACE_GRAPH | RPI_TRACE_SCOPES)
#define RPI_TRACE_PMU  512u
#define RPI_TRACE_ARGS 1024u /* in pipes, not in rings; see pipe.h */
/* What is done around entries. */
#define RPI_TRACE_ENTRY (RPI_TRACE_PMU | RPI_TRACE_ARGS)
/* No spans: the worker's options want captures, so look at each dispatch. */
#define RPI_TRACE_CAPTURE 0x80000000u
#define RPI_TRACE_SPANS                                                            \
	(RPI_TRACE_HOST | RPI_TRACE_DEVICE | RPI_TRACE_KERNELS | RPI_TRACE_EDGES | \
	 RPI_TRACE_NOTES | RPI_TRACE_ENTRY)

#define RPI_TRACE_BUILT                                                          \
	((SIMPLER_HOST_STRACE ? RPI_TRACE_HOST | RPI_TRACE_EDGES : 0u) |         \
	 (SIMPLER_DFX ? RPI_TRACE_DEVICE | RPI_TRACE_KERNELS | RPI_TRACE_NOTES | \
				RPI_TRACE_ENTRY                                  \
		      : 0u) |                                                    \
	 RPI_TRACE_LATENCY | RPI_TRACE_CAPTURE)

/* Records of one process's ring; a power of two. */
#define RPI_SPAN_RING 8192u

/* What `seq` says while a record is being written: the position with this bit. */
#define RPI_SPAN_BUSY (UINT64_C(1) << 63)

/* One line. `begin` and `end` are ticks of the clock of base/clock.h. */
struct rpi_trace_record {
	_Atomic uint64_t seq; /* T1; position + 1 once it is whole */
	_Atomic uint64_t begin;
	_Atomic uint64_t end;
	_Atomic uint64_t run_seq;
	_Atomic uint64_t task_seq; /* 0: not of a task */
	_Atomic uint64_t what;	   /* rpi_trace_what() */
	_Atomic uint64_t thread;   /* its id in the system */
	_Atomic uint64_t value;	   /* a kernel's number; an edge's rpi_trace_edge() */
};

static_assert(sizeof(struct rpi_trace_record) == RPI_CACHE_LINE, "one line a span");

struct rpi_trace_ring {
	/* The next position to try; in the ring of several threads a hint that may stand
	 * a little behind. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t head;
	/* How far a capture has read, and one more; 0: there is none. Written by the
	 * caller's process, for those of its writers that would rather wait than lose
	 * records: rpi_trace_await_room(). */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t reader;
	_Alignas(RPI_SHARE_ALIGN) struct rpi_trace_record records[RPI_SPAN_RING];
};

/* The rings of a process: that of the thread which records the most, and the rest's. */
enum rpi_trace_which {
	RPI_TRACE_OWNED,
	RPI_TRACE_SHARED,
	RPI_TRACE_RINGS,
};

/* Written by the threads of one process, read by the caller's. */
struct rpi_trace_log {
	/* T2; the id of the thread whose ring the first one is, 0: nobody's yet. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t owner;
	struct rpi_trace_ring rings[RPI_TRACE_RINGS];
};

/* The region: this, then the logs of each peer and of the caller's process, then the
 * pipes of the peers. */
struct rpi_trace {
	struct rpi_board board;
	/* Changed by attach and detach only; read for each span. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t wanted;
	struct rpi_latency latency;
	_Alignas(RPI_SHARE_ALIGN) struct rpi_trace_log logs[];
};

/* One that nobody attaches to, for what is used without a worker. Has no logs. */
extern struct rpi_trace rpi_trace_idle;

struct rpi_pipe;

/* A process's way to it. */
struct rpi_tracer {
	struct rpi_trace *trace;
	struct rpi_trace_log *log;
	struct rpi_pipe *pipe; /* NULL: of the caller's process */
};

/* What a span is about. */
struct rpi_trace_of {
	uint64_t run_seq;
	uint64_t task_seq;
	uint64_t value;
	uint16_t program; /* indices, as in a task */
	uint16_t entry;
};

/* An index that is not known, or that there is none of. */
#define RPI_SPAN_UNKNOWN UINT16_MAX

static inline uint64_t rpi_trace_what(enum rpi_trace_name name, uint16_t program,
				      uint16_t entry)
{
	return (uint64_t)name | (uint64_t)program << 16 | (uint64_t)entry << 32;
}

static inline uint64_t rpi_trace_edge(uint32_t peer, uint64_t seq)
{
	return (uint64_t)peer << 56 | (seq & ((UINT64_C(1) << 56) - 1));
}

/* A new process has other threads: forget the id that it was forked with. */
void rpi_trace_forget_thread(void);

/* Store one record. */
__attribute__((noinline)) void rpi_trace_record(const struct rpi_tracer *tracer,
						enum rpi_trace_name name, uint64_t begin,
						uint64_t end,
						const struct rpi_trace_of *of);

/*
 * Where a capture reads this thread's ring, wait until it has caught up, but not when it
 * seems to have stopped. For where nothing is being timed: between kernels, and tasks.
 * The pause is recorded, if `of` is not NULL.
 */
void rpi_trace_await_room(const struct rpi_tracer *tracer, const struct rpi_trace_of *of);

/* Turn some bits off and some on. */
static inline void rpi_trace_want(struct rpi_trace *trace, uint32_t on, uint32_t off)
{
	/* Relaxed: takes effect with one of the next spans. */
	atomic_fetch_and_explicit(&trace->wanted, ~off, memory_order_relaxed);
	atomic_fetch_or_explicit(&trace->wanted, on, memory_order_relaxed);
}

/*
 * Which of these domains somebody wants spans of. Like what builds on it, inlined before
 * anything else is: then a build without them drops the code that they guard, functions
 * that are called from nowhere else too.
 */
static RPI_ALWAYS_INLINE uint32_t rpi_trace_wanted(const struct rpi_tracer *tracer,
						   uint32_t domains)
{
	if (!(domains & RPI_TRACE_BUILT))
		return 0;
	/* Relaxed: see rpi_trace_want(). */
	return atomic_load_explicit(&tracer->trace->wanted, memory_order_relaxed) &
	       domains & RPI_TRACE_BUILT;
}

/* Whether there is one. */
static RPI_ALWAYS_INLINE bool rpi_trace_wants(const struct rpi_tracer *tracer,
					      uint32_t domains)
{
	return rpi_unlikely(rpi_trace_wanted(tracer, domains) != 0);
}

/* The beginning of a span: 0 when nobody wants it, and then the rest of it is a branch
 * on that. */
static RPI_ALWAYS_INLINE uint64_t rpi_trace_open(const struct rpi_tracer *tracer,
						 uint32_t domains)
{
	return rpi_trace_wants(tracer, domains) ? rpi_clock_ticks() : 0;
}

/* The end of a span that began at `begin`, and the beginning of what comes after. */
static RPI_ALWAYS_INLINE uint64_t rpi_trace_close(const struct rpi_tracer *tracer,
						  enum rpi_trace_name name,
						  uint64_t begin,
						  const struct rpi_trace_of *of)
{
	uint64_t end;

	if (rpi_likely(!begin))
		return 0;
	end = rpi_clock_ticks();
	rpi_trace_record(tracer, name, begin, end, of);
	return end;
}

/* A copy of what the reader found at a position. */
struct rpi_trace_copy {
	uint64_t begin, end, run_seq, task_seq, what, thread, value;
};

/*
 * The reader: take the record at *at_io and move on. 1 one was taken; 0 there is none
 * yet. Positions that were written over, and those that writers passed by because a
 * thread that was held up still had the record, are added to *dropped_io.
 */
int rpi_trace_take(const struct rpi_trace_ring *ring, uint64_t *at_io,
		   struct rpi_trace_copy *out, uint64_t *dropped_io);

#endif
