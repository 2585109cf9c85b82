/* SPDX-License-Identifier: MIT */
/*
 * The parent's side of the data plane: lanes to the worker processes, two runs,
 * their handles, and the threads that wait. control/ sets it up and owns its
 * memory; everything in here is private to the parent unless it says shared.
 */
#ifndef RPI_DISPATCH_PLANE_H
#define RPI_DISPATCH_PLANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ringplane/run.h>

#include "completion/park.h"
#include "completion/spin.h"
#include "dispatch/admission.h"
#include "dispatch/callback.h"
#include "dispatch/domain.h"
#include "dispatch/handles.h"
#include "dispatch/hazard.h"
#include "dispatch/lane.h"
#include "dispatch/program.h"
#include "dispatch/resident.h"
#include "dispatch/rouse.h"
#include "dispatch/wire.h"
#include "trace/span.h"

/* A run's life, in the low bits of its word; run_seq stands above them. */
enum rpi_run_state {
	RPI_RUN_FREE = 0,
	RPI_RUN_BUILDING = 1,  /* a submitting thread enqueues its tasks */
	RPI_RUN_RUNNING = 2,   /* all tasks enqueued */
	RPI_RUN_FINISHING = 3, /* one thread collects the outcome */
};

#define RPI_RUN_STATE_BITS 2

struct rpi_notes;
struct rpi_offer;
struct rpi_plane;
struct rpi_queue;
struct rpi_request;

/* What a parameter of this call covers, to judge the accesses of its tasks. */
struct rpi_grant {
	uint64_t resident; /* 0: host memory; else extents are offsets in it */
	uintptr_t low, high;
	uint32_t access;
	uint32_t param;
};

/* One of the two dispatches that may be in flight. */
struct rp_run {
	/* run_seq << RPI_RUN_STATE_BITS | state. RUNNING -> FINISHING is a compare-
	 * and-swap: exactly one thread collects each outcome. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t word;
	uint32_t frame_idx;
	uint32_t handle_idx;
	struct rpi_frame *frame; /* shared */
	struct rpi_plane *plane;
	struct rp_program *program;
	uint32_t program_idx;
	uint32_t next_chip; /* for RP_CHIP_ANY */
	bool plain_config;  /* the frame holds the default configuration */
	/* `views` are those of `args`, few and all of host memory: a task with just these
	 * has been checked. */
	bool bound;
	uint64_t seq;
	_Atomic uint64_t peers;	  /* bit set: has tasks there */
	uint64_t fenced;	  /* bit set: its tasks there follow the run before */
	uint64_t domains;	  /* bit set: leased that slot's domain */
	struct rp_domain *leased; /* the newest that this frame leased; NULL none */
	uint64_t task_count;	  /* that the orchestration enqueued */
	uint64_t began;		  /* its submit, in ticks; 0: nobody wants to know */
	uint32_t grant_count;
	struct rpi_grant *grants; /* [largest tensor count of any program] */
	struct rpi_hazards hazards;
	struct rpi_follow follow; /* of the task being enqueued */
	struct rpi_view *views;	  /* [RP_MAX_TASK_TENSORS], likewise */
	uint64_t *device;	  /* likewise: a resident view's device address */
	uint16_t written[RP_MAX_TASK_TENSORS]; /* which of them it writes */
	struct rp_arg *args; /* [largest parameter count]: this call's own copy */
	/* The orchestration of a queued request failed after it had enqueued tasks: this
	 * is the outcome, whatever they say. 0: it has not. */
	int given_up;
	struct rp_recording *recording; /* that its orchestration is kept in, or NULL */
	struct rpi_notes *notes;	/* where its tasks are noted, or NULL */
	bool observed;			/* there is the one or the other */
	uint32_t pass;			/* rp_run_pass() */
	char fail_text[RPI_ERROR_BYTES];
};

/* Where the checked arguments of a call go. */
struct rpi_call {
	struct rpi_plane *plane;
	const struct rp_program *program;
	struct rp_arg *args;	  /* [the program's parameter count] */
	struct rpi_grant *grants; /* [its tensor count] */
	uint32_t grant_count;
	struct rpi_view *views; /* likewise, or NULL: nobody wants them */
	bool any_resident;
};

/* Threads that wait for runs. One is elected to sleep on the park that worker
 * processes wake; the others sleep on `epoch`. See wait.c. */
struct rpi_gate {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t leader; /* 1: elected */
	_Atomic uint32_t followers;			   /* asleep, or about to be */
	_Atomic uint32_t epoch;				   /* futex */
	struct rpi_spin spin;				   /* the leader's */
	_Atomic uint64_t budget_ns; /* its budget, for the others */
	_Atomic uint64_t sleeps;
	bool patient; /* spins a little before it asks for the lead */
	/* Waiters sleep nearly each time: runs are armed for them when accepted, by a
	 * store that is made anyhow, instead of by each wait. */
	bool armed;
};

/* Why dispatches fail, as struct rp_worker_stats has it. */
enum rpi_failed_kind {
	RPI_FAILED_PROCESS,
	RPI_FAILED_MEMORY,
	RPI_FAILED_DEADLOCK,
	RPI_FAILED_TIMEOUT,
	RPI_FAILED_ARGUMENT,
	RPI_FAILED_OTHER,
	RPI_FAILED_KINDS
};

/* How far the worker set's death has come. */
enum rpi_fall {
	RPI_FALL_NONE = 0,
	RPI_FALL_STARTED = 1, /* a process died; the others are being ended */
	RPI_FALL_OVER = 2,    /* no process is left: memory is the caller's alone */
};

struct rpi_plane {
	uint32_t chip_count;
	uint32_t peer_count; /* chips, then callback workers */
	/* Grows on a chip worker, release; those below it stay. */
	_Atomic uint32_t program_count;
	struct rp_program *const *programs;
	struct rpi_callback *const *callbacks; /* [program_count] */
	bool in_place;			       /* unified memory */
	struct rpi_lane *lanes;		       /* [peer_count] */
	struct rpi_peer *peers;		       /* shared */
	struct rp_run *runs;		       /* [RPI_FRAME_COUNT] */
	struct rpi_rouser rouser;
	struct rpi_park *park; /* the parent's own */
	struct rpi_handles handles;
	struct rpi_admission admission;
	struct rpi_gate gate;
	struct rpi_queue *queue;  /* NULL: submitting threads build their runs */
	struct rpi_tracer tracer; /* of this process */

	/* Whether the worker processes see this host memory once they see what is
	 * published next (0; -EFAULT with no error line, other errors with one), and
	 * whether they may write it (0, -EACCES with an error line). */
	int (*visible)(void *context, const void *addr, size_t bytes);
	int (*writable)(void *context, const char *call, const void *addr, size_t bytes);
	/* Where a resident view lies that was checked and spans so many bytes, and
	 * whether an address is a chip's. */
	int (*locate)(void *context, const char *call, const struct rp_tensor *tensor,
		      uint64_t bytes, struct rpi_resident *out);
	bool (*is_device)(void *context, uint64_t address);
	void *memory_context;

	_Atomic uint32_t closing;	 /* sticky: submits are refused */
	_Atomic uint32_t fall;		 /* enum rpi_fall, release */
	char fall_text[RPI_ERROR_BYTES]; /* valid once fall is not NONE */

	uint64_t next_run_seq; /* under admission */

	/* Comm domains. control/ makes and releases them: `retire` is told of a run that
	 * is over, where domains do not outlive it. */
	struct rp_domain *domains; /* [RP_MAX_DOMAINS] */
	void (*retire)(void *context, struct rp_run *run);

	/* Captures. `captured` is control's: under admission, with nothing in flight,
	 * make the passes of a dispatch (capture.h) and write its files. */
	const struct rp_capture *capture; /* of those that have none; NULL */
	int (*captured)(void *context, const struct rpi_offer *offer, bool *accepted_out);
	bool quiet; /* a pass's end is not announced; under admission */

	/* A persistent worker: runs follow one another, and the first failure is the
	 * last word, also of a run that is under way behind it. */
	bool persistent;
	uint64_t fence_seq[RP_MAX_PEERS]; /* newest task of a run; under admission */
	_Atomic uint32_t terminal_taken;  /* by whoever writes the two below */
	_Atomic int terminal;		  /* its status, release; these are valid then */
	uint64_t terminal_seq;		  /* the run that failed */
	char terminal_text[RPI_ERROR_BYTES];

	/* Where finished runs are announced, beside their waiters. */
	_Atomic uint64_t notice_targets; /* RPI_NOTICE_FD | RPI_NOTICE_RING */
	int event_fd;			 /* rp_worker_fd(); -1 before it is made */
	int ring_fd;			 /* the caller's io_uring, or -1 */
	uint64_t ring_user_data;
	struct rpi_burst *finished; /* handles for rp_worker_reap() */

	_Atomic uint64_t dispatches;
	_Atomic uint64_t failed[RPI_FAILED_KINDS];
	_Atomic uint64_t ring_full_waits;
	_Atomic uint64_t frame_waits;
};

static inline uint64_t rpi_run_word(uint64_t seq, enum rpi_run_state state)
{
	return seq << RPI_RUN_STATE_BITS | (uint64_t)state;
}

/* Somebody wants the time of runs, or more. */
#define RPI_TRACE_RUN (RPI_TRACE_HOST | RPI_TRACE_LATENCY | RPI_TRACE_CAPTURE)

/* timing.c: a span of this thread, about a run of this number. program_idx: UINT16_MAX
 * where it is not known. */
__attribute__((cold)) void rpi_run_span_record(struct rpi_plane *plane,
					       enum rpi_trace_name name, uint64_t began,
					       uint64_t end, uint64_t run_seq,
					       uint32_t program_idx);

/* timing.c: the run has ended; before anybody hears of it. */
__attribute__((cold)) void rpi_run_timed(const struct rp_run *run);

/* A span of the thread that builds the run ends, the next may begin; 0 when nobody wants
 * to know. */
static RPI_ALWAYS_INLINE uint64_t rpi_run_span(const struct rp_run *run,
					       enum rpi_trace_name name, uint64_t began)
{
	uint64_t end;

	/* `began` may be there for the run's time alone. */
	if (!(RPI_TRACE_HOST & RPI_TRACE_BUILT) || rpi_likely(!began))
		return 0;
	end = rpi_clock_ticks();
	rpi_run_span_record(run->plane, name, began, end, run->seq, run->program_idx);
	return end;
}

/* An accepted run, for the one who submitted it. */
struct rpi_ticket {
	uint64_t handle; /* the user's word, if a handle was asked for */
	uint64_t run_seq;
	uint32_t run_idx;
	uint32_t handle_idx;
};

/* submit.c. Without `wants_handle` the caller must rpi_plane_settle() the ticket. */
int rpi_plane_submit(struct rpi_plane *plane, struct rp_program *program,
		     const struct rp_arg *args, size_t nargs,
		     const struct rp_run_config *config, bool wants_handle,
		     struct rpi_ticket *ticket_out);

/* A call of a program that is known to be one of the plane's. */
struct rpi_offer {
	struct rp_program *program;
	uint32_t program_idx;
	const struct rp_arg *args;
	size_t nargs;
	const struct rp_run_config *config;
	bool wants_handle;
	/* At most one is set, and then there is no queue: keep what the orchestration
	 * enqueues, or enqueue that instead of running it. */
	struct rp_recording *record;
	const struct rp_recording *replay;
	const struct rp_capture *capture; /* NULL: none */
};

/* The same for such a call. */
int rpi_plane_submit_known(struct rpi_plane *plane, const struct rpi_offer *offer,
			   struct rpi_ticket *ticket_out);

/* orchestrate.c: whether this thread is in an orchestration of the plane, and so must not
 * wait for its submits. */
bool rpi_plane_orchestrates(const struct rpi_plane *plane);

/* Publish what that orchestration has enqueued so far: this thread is about to wait for
 * it. Nothing when the thread is in none. */
void rpi_plane_flush_own(struct rpi_plane *plane);

/* Wait for a run without a handle; its status. */
int rpi_plane_settle(struct rpi_plane *plane, const struct rpi_ticket *ticket);

/* The steps of a submit, under admission. A free frame: the oldest run is waited for when
 * there is none, as long as `check` allows it. */
int rpi_plane_take_frame(struct rpi_plane *plane, int (*check)(struct rpi_plane *plane),
			 struct rp_run **run_out);
void rpi_run_begin(struct rp_run *run, struct rp_program *program, uint32_t program_idx,
		   const struct rp_run_config *config, uint64_t began);
int rpi_run_orchestrate(struct rp_run *run); /* orchestrate.c */
void rpi_run_accept(struct rp_run *run);     /* all tasks are enqueued: it can end */
void rpi_plane_count_dispatch(struct rpi_plane *plane);

/* submit.c: the same steps as one. `began`: in ticks, or 0. */
int rpi_plane_build(struct rpi_plane *plane, const struct rpi_offer *offer,
		    uint64_t began, struct rpi_ticket *ticket_out);

/* request.c: make a run of a queued request, or tell its handle why not; the
 * dispatcher's. The request is free again before its orchestration runs. */
void rpi_plane_dispatch(struct rpi_plane *plane, struct rpi_request *request);

/* What a submit checks before it waits for anything. */
int rpi_plane_check_submit(struct rpi_plane *plane, const struct rp_program *program,
			   const struct rp_run_config *config, uint32_t *program_idx_out);

/* Whether dispatches can go on: 0, -EOWNERDEAD, what ended a persistent worker; and, for
 * new ones, -ESHUTDOWN. */
int rpi_plane_check_alive(struct rpi_plane *plane);
int rpi_plane_check_open(struct rpi_plane *plane);

/* args.c: check the arguments of a call, copy them, note what they grant. */
int rpi_call_bind(struct rpi_call *call, const struct rp_arg *args, size_t nargs);

/* encode.c: check one task's arguments, find whom it follows, and write it into
 * the lane of `peer`. The lane has been checked by nobody: it may have to wait. */
int rpi_run_enqueue(struct rp_run *run, const char *call, enum rpi_op op, uint32_t peer,
		    uint32_t entry, const struct rp_arg *args, uint32_t arg_count);

/* The same for entry 0 on chip 0 with the arguments of a run that is `bound`. */
int rpi_run_enqueue_bound(struct rp_run *run);

/* So few arguments that no kind of them can be too many. */
#define RPI_FEW_ARGS ((uint32_t)RP_MAX_TASK_DOMAINS)

/* Checked arguments of a task, and the bytes of their records. */
struct rpi_args {
	const struct rp_arg *args;
	uint32_t count;
	size_t bytes;
	const uint8_t *stream; /* the records themselves; NULL: to be made of `args` */
	bool fits_words;       /* they are those of RPI_OP_RUN_WORDS */
};

/* send.c: write the records. */
void rpi_args_write(const struct rp_run *run, uint8_t *at, const struct rpi_args *given);

/* send.c: write a task into the lane of `peer`, with what run->follow says it follows.
 * `of_run`: the run's end waits for it. */
int rpi_run_send(struct rp_run *run, const char *call, uint32_t peer,
		 struct rpi_task_body *body, const struct rpi_args *args, bool of_run);

/* What was noted of the run holds a task that will not be: it can't go on, also if its
 * orchestration would. Returns `err`. */
__attribute__((cold)) int rpi_run_break(struct rp_run *run, int err);

/* Fail the run for everybody: the first one's text stays. Peers that wait for
 * something of this run are woken. */
void rpi_run_cancel(struct rp_run *run, int status, const char *text);

/* finish.c: if all tasks of the run have ended, collect its outcome. True when
 * the run is over, whoever did it. */
bool rpi_run_poll(struct rp_run *run, uint64_t seq);

/* End a run whose processes are gone, whatever its tasks say. */
void rpi_run_finish_fallen(struct rp_run *run);

/* End a request that never became a run, or only one without tasks. */
void rpi_plane_refuse(struct rpi_plane *plane, uint32_t handle_idx, int status,
		      const char *text);

/* The same for one whose failure has been counted, or that has succeeded. */
void rpi_plane_conclude(struct rpi_plane *plane, uint32_t handle_idx, int status,
			const char *text);

/* Tell those that a notice names; the caller has taken the notice. */
void rpi_plane_announce(struct rpi_plane *plane, uint64_t targets);

/* wait.c: until the run is over. deadline_ns: CLOCK_MONOTONIC, UINT64_MAX none.
 * 0, or -ETIMEDOUT. */
int rpi_plane_await(struct rpi_plane *plane, uint32_t run_idx, uint64_t run_seq,
		    uint64_t deadline_ns);

/* Until the dispatcher is done with the request of this handle, or for no reason: the
 * caller looks again. 0, or -ETIMEDOUT. */
int rpi_plane_await_dispatch(struct rpi_plane *plane, struct rpi_handle_slot *slot,
			     uint64_t deadline_ns);

/* A spin state for a thread that is not the leader: it borrows the leader's budget. */
void rpi_gate_borrow(const struct rpi_plane *plane, struct rpi_spin *spin_out);

/* Wake every waiting thread of the parent: something changed for all. */
void rpi_gate_wake_all(struct rpi_plane *plane);

/* Tell followers that a run has ended. */
void rpi_gate_published(struct rpi_plane *plane);

/* room.c: wait until the lane has room for one more task with these arguments.
 * 0, -ENOSPC never, -EOWNERDEAD. */
int rpi_plane_await_room(struct rpi_plane *plane, const char *call, uint32_t peer,
			 size_t arg_bytes);

/* The handle's outcome: waits, then 1; 0 when the deadline passed; -ESTALE; -EDEADLK
 * for a request that waits for this thread. */
int rpi_plane_wait_handle(struct rpi_plane *plane, uint64_t run, uint64_t deadline_ns,
			  int *status_out);

#endif
