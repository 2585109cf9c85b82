/* SPDX-License-Identifier: MIT */
/*
 * The chip runtime: kernels submitted by one thread, the submitter, run by that thread
 * or by a crew of others in the same process. Knows nothing of chips and dispatches: it
 * is opened, a run begins, kernels are submitted, the run ends.
 *
 * Without a crew a kernel runs inside its submit. The order of submission is an order
 * that every dependency allows, so none is looked for; a kernel that waits for its
 * `ready` is put aside, and until it has ended the others take the way that they take
 * with a crew: slot, overlap map, edges, ready queue.
 */
#ifndef RPI_RUNTIME_RUNTIME_H
#define RPI_RUNTIME_RUNTIME_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "memory/view.h"
#include "runtime/arena.h"
#include "runtime/mark.h"
#include "runtime/note.h"
#include "runtime/ready.h"
#include "runtime/turn.h"
#include "trace/span.h"

#define RPI_COMPUTE_THREADS_MAX 256u
#define RPI_KERNEL_ARGS_MAX	(RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS)

struct rpi_runtime;

struct rpi_runtime_config {
	uint32_t compute_threads;
	uint32_t arena_cache; /* 0: 1 */
	enum rp_page_policy pages;
	struct rpi_sizing env; /* what the environment asks for */
	bool patient;	       /* idle threads spin a little before they sleep */
	const cpu_set_t *cpus; /* where compute threads may run; NULL: as the opener */
	/* Whether the run is to end early; asked while the submitter waits. NULL: no. */
	bool (*cancelled)(void *context);
	/* How long no kernel may end, while there are some, until the run fails; 0: for
	 * ever. */
	uint64_t stall_ns;
	/* A kernel runs without end: the process can't be used any more. May return.
	 * Called by the watch; NULL: no. */
	void (*abandon)(void *context, const char *text);
	void *context;
	struct rpi_tracer tracer; /* trace NULL: nobody will attach */
};

/* One thread that runs kernels; the submitter is one too. */
struct rpi_hand {
	struct rpi_runtime *runtime;
	struct rpi_flight *own; /* kernels that it made ready and kept */
	uint32_t misses;	/* kernels in a row that were not to start yet */
	uint32_t bided;		/* of them, at the last sleep */
	uint64_t bide_since_ns; /* when it had spun enough for them; 0: it has not */
	pthread_t thread;
	_Atomic int32_t tid;  /* of a thread of the crew; 0: it has not started yet */
	struct rpi_turn turn; /* W1 */
	/* Of the kernels it ran in this run while somebody wanted to know, in ticks; 0:
	 * none. Its own until its kernels have ended. */
	uint64_t first_begin, last_end;
	/* 1: it sleeps or is about to. Whoever makes it 0 by exchange accounts for it
	 * in `sleepers`. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t asleep;
};

/* What came of looking for a kernel to run. */
enum rpi_work {
	RPI_WORK_NONE = 0, /* nobody may start */
	RPI_WORK_MISS = 1, /* one waits for something, and went to the end of the queue */
	RPI_WORK_RAN = 2,
};

struct rpi_scope {
	enum rp_scope_kind kind;
	struct rpi_ring *ring;
	uint32_t ring_idx;
	uint64_t first_seq; /* RPI_UNPINNED: it has no kernel yet */
	uint64_t heap;	    /* likewise, no output */
};

/* The first thing that went wrong in a run. */
enum rpi_fault_state {
	RPI_FAULT_NONE = 0,
	RPI_FAULT_CLAIMED = 1, /* its finder writes code and text */
	RPI_FAULT_SET = 2,     /* release: they are there */
};

struct rpi_fault {
	_Atomic uint32_t state;
	int code;
	char text[RPI_ERROR_BYTES];
};

/* What a kernel being submitted asks for. */
struct rpi_ask {
	uint64_t fresh_bytes; /* of outputs to allocate, each rounded up */
	uint32_t tensor_count;
	uint32_t fresh_count;
	uint32_t written_count;		      /* of the others that it writes */
	bool in_heap;			      /* some lie in a heap */
	uint16_t tensor[RP_MAX_TASK_TENSORS]; /* argument numbers */
	uint16_t written[RP_MAX_TASK_TENSORS];
	struct rpi_view view[RPI_KERNEL_ARGS_MAX]; /* by argument number */
};

struct rpi_runtime {
	/* RPI_TRACE_* of RPI_TRACE_NOTES that are wanted of this run's kernels. Changes
	 * only while no kernel is in flight: read by the crew too (K1, K3). */
	uint32_t noted;
	/* The submitter's own. */
	struct rpi_runtime_config config;
	struct rpi_arena *arena; /* NULL: no run, or none that has submitted yet */
	uint32_t depth;		 /* open scopes past the outermost */
	uint64_t stamp;		 /* one per submit into a slot */
	uint64_t kernel_count;	 /* submitted in this run */
	uint64_t kernels;	 /* ever */
	uint64_t outstanding;	 /* put into slots and not run; kept without a crew */
	struct rpi_scope scopes[RP_MAX_SCOPES + 1];
	uint64_t heads[RP_RING_COUNT];		/* of the arena that was used last */
	const struct rp_run_config *run_config; /* NULL: the run has none */
	bool running;				/* a run has begun */
	bool watched;
	pthread_t watch;
	struct rpi_arena_cache cache;
	struct rpi_hand hand;
	struct rpi_ask ask;
	struct rpi_trace_of of; /* what the spans of this run are about */
	struct rpi_kernel_notes notes;
	struct rpi_mark marks[RP_MAX_SCOPES + 1]; /* by depth, where scopes are noted */
	uint64_t marked;			  /* scopes of this run, likewise */

	/* Shared with the crew. */
	_Alignas(RPI_SHARE_ALIGN) struct rpi_fault fault;
	/* The slot whose end the submitter sleeps for; see await.c. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic(struct rpi_flight *) awaited;
	_Atomic uint32_t awaited_bell;
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t sleepers; /* of the crew; crew.c */
	_Atomic uint32_t crew_bell;
	_Atomic uint32_t stop;
	/* For the watch: `kernels`, and whether the submitter waits. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t submitted;
	_Atomic uint32_t awaiting;
	_Atomic uint32_t watch_stop;
	struct rpi_ready ready;
	struct rpi_hand *crew; /* [config.compute_threads] */
};

/* Which of these bits of RPI_TRACE_NOTES are wanted. A build without them drops what it
 * guards. */
static RPI_ALWAYS_INLINE uint32_t rpi_runtime_noted(const struct rpi_runtime *runtime,
						    uint32_t bits)
{
	return bits & RPI_TRACE_BUILT ? runtime->noted & bits : 0;
}

/* 0, or -ENOMEM, -EAGAIN with an error line. */
int rpi_runtime_open(const struct rpi_runtime_config *config,
		     struct rpi_runtime **runtime_out);
/* No run may be going on. */
void rpi_runtime_close(struct rpi_runtime *runtime);

/* Make the arena ahead that a run with this config (NULL: none) uses. */
int rpi_runtime_prewarm(struct rpi_runtime *runtime, const struct rp_run_config *config);

/* Begin a run; `config` stays until it has ended. Costs next to nothing until it
 * submits. */
void rpi_runtime_begin(struct rpi_runtime *runtime, const struct rp_run_config *config);

/*
 * End it: close open scopes, wait for its kernels. `status` is what the orchestration
 * returned; if it failed, what has not started doesn't. Returns the run's outcome: the
 * runtime's own fault if that came first, with its line in *text_out; NULL otherwise.
 */
int rpi_runtime_end(struct rpi_runtime *runtime, int status, const char **text_out);

/* With a hurdle, the kernel waits for it when its dependencies are met. NULL: none. */
int rpi_runtime_submit_behind(struct rpi_runtime *runtime, const struct rp_kernel *kernel,
			      const struct rpi_hurdle *hurdle, rp_kernel_id *id_out);

static inline int rpi_runtime_submit(struct rpi_runtime *runtime,
				     const struct rp_kernel *kernel, rp_kernel_id *id_out)
{
	return rpi_runtime_submit_behind(runtime, kernel, NULL, id_out);
}

int rpi_runtime_scope_begin(struct rpi_runtime *runtime, enum rp_scope_kind kind);
int rpi_runtime_scope_end(struct rpi_runtime *runtime);
int rpi_runtime_drain(struct rpi_runtime *runtime);
int rpi_runtime_ring_state(struct rpi_runtime *runtime, uint32_t ring,
			   struct rp_ring_state *state_out);

/* sched.c: the span from the first kernel's begin to the last one's end, once all have
 * ended; nothing when nobody wants it. */
void rpi_sched_close(struct rpi_runtime *runtime);

/* --- Between the files of runtime/ --------------------------------------- */

/* sched.c: a kernel was submitted, could start, began at those ticks, ran, and has ended
 * just now. The first two hold where `noted` says that they are wanted. */
__attribute__((cold)) void rpi_sched_note(struct rpi_hand *hand, uint64_t index,
					  uint64_t submitted, uint64_t ready,
					  uint64_t began);

/* fault.c: becomes the run's fault, unless there is one. Returns `code`. */
int rpi_fault_set(struct rpi_fault *fault, int code, const char *text);
/* The same for what a kernel returned; a positive status counts as -EINVAL. */
__attribute__((cold)) int rpi_fault_kernel(struct rpi_fault *fault, const char *name,
					   uint64_t index, uint32_t ring, int status);
/* The same for what a kernel's hurdle says will not come, with this thread's line. */
__attribute__((cold)) int rpi_fault_hurdle(struct rpi_fault *fault,
					   const struct rpi_flight *slot, int status);

static inline bool rpi_fault_is(struct rpi_fault *fault)
{
	/* Relaxed: what it stops is only not started. */
	return atomic_load_explicit(&fault->state, memory_order_relaxed) !=
	       RPI_FAULT_NONE;
}

/* Its code, with its line as this thread's. */
int rpi_fault_repeat(struct rpi_fault *fault);

/* open.c: have an arena for the run. */
int rpi_runtime_furnish(struct rpi_runtime *runtime);

/* scope.c: close the innermost scope; the outermost only gives up its kernels. */
void rpi_scope_close(struct rpi_runtime *runtime);

/* Whether kernels run as they are submitted. */
static inline bool rpi_runtime_serial(const struct rpi_runtime *runtime)
{
	return !runtime->config.compute_threads && !runtime->outstanding;
}

/* ask.c: check a kernel and find out what it asks for. */
int rpi_ask_fill(struct rpi_runtime *runtime, const struct rp_kernel *kernel);

/* Of six numbers and the words between them. */
#define RPI_RING_TEXT_BYTES 180

/* room.c: whether the ring of a scope can ever take the kernel, and where its outputs
 * go; the same whatever has ended so far. 0, -ENOSPC, -EDEADLK. */
int rpi_room_check(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		   const struct rp_kernel *kernel, bool plain, uint64_t *heap_begin_out);
/* What is in use of each of its resources, for error lines. */
void rpi_room_describe(const struct rpi_ring *ring, char *buf, size_t bytes);
/* Wait until it can take it now. Returns where its arguments go. */
uint64_t rpi_room_await(struct rpi_runtime *runtime, struct rpi_ring *ring,
			uint64_t heap_begin, uint64_t arg_bytes);

/* follow.c: wire a kernel, in its slot but not in the ring yet, to those that it must
 * follow, and let it start when they have ended. */
void rpi_follow(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		const struct rp_kernel *kernel, struct rpi_flight *slot);
/* Let the owners of its heap arguments stay until kernel `seq` of ring `ring` ended. */
void rpi_follow_hold(struct rpi_runtime *runtime, uint32_t ring, uint64_t seq);
/* -ENOSPC if the kernels that it is sure to follow are more than the pool has edges. */
int rpi_follow_check(struct rpi_runtime *runtime, const struct rpi_scope *scope,
		     const struct rp_kernel *kernel);

/* The ring and the number that an id stands for. */
static inline uint32_t rpi_id_ring(rp_kernel_id id)
{
	return (uint32_t)(id >> 62);
}

static inline uint64_t rpi_id_seq(rp_kernel_id id)
{
	return (id & (UINT64_MAX >> 2)) - 1;
}

static inline rp_kernel_id rpi_id_make(uint32_t ring, uint64_t seq)
{
	return (uint64_t)ring << 62 | (seq + 1);
}

/* The ring whose heap an address lies in, and the position there; NULL: none's. */
static inline struct rpi_ring *rpi_arena_find(struct rpi_arena *arena, uintptr_t address,
					      uint64_t *position_out)
{
	uint64_t offset = address - (uintptr_t)arena->memory;
	struct rpi_ring *ring = &arena->rings[RP_RING_COUNT - 1];
	uint64_t position;

	if (offset >= arena->heap_bytes)
		return NULL;
	while ((uintptr_t)ring->heap_memory > address)
		ring--;
	/* Of this lap, or of the one before. */
	position = ring->heap.top - rpi_lap_offset(&ring->heap, ring->heap.top) +
		   (address - (uintptr_t)ring->heap_memory);
	if (position >= ring->heap.top)
		position -= ring->heap.size;
	*position_out = position;
	return ring;
}

/* await.c: until the kernel in a slot has ended, running others meanwhile. */
void rpi_await(struct rpi_runtime *runtime, struct rpi_flight *slot);
/* Until all that was submitted has ended. */
void rpi_await_all(struct rpi_runtime *runtime);
/* Note what has ended and retire. True when some had ended. */
bool rpi_pass(struct rpi_runtime *runtime);

/* hand.c: a kernel may start: keep it or put it into the queue. */
void rpi_hand_give(struct rpi_hand *hand, struct rpi_flight *slot);
/* Run one kernel that may start. */
enum rpi_work rpi_hand_work(struct rpi_hand *hand);
/* All that might start waits for something outside the runtime: spin a little, then say
 * how long to sleep before the next look, in proportion to the wait so far. 0: look
 * again at once. */
uint64_t rpi_hand_bide_ns(struct rpi_hand *hand);
/* The submitter without a crew: run what may start. */
void rpi_hand_work_off(struct rpi_hand *hand);

/* watch.c: after the crew has started, before it stops. */
int rpi_watch_start(struct rpi_runtime *runtime);
void rpi_watch_stop(struct rpi_runtime *runtime);

/* crew.c */
int rpi_crew_start(struct rpi_runtime *runtime);
void rpi_crew_stop(struct rpi_runtime *runtime);
/* A kernel was put into the queue: wake somebody who sleeps. */
void rpi_crew_call(struct rpi_runtime *runtime);

#endif
