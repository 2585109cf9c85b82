/* SPDX-License-Identifier: MIT */
/*
 * What the parent and its worker processes share: the layout of tasks, of each
 * process's lane, and of the two frames. Everything here lives in regions that
 * existed before the fork and stand at one address everywhere. Each block of
 * RPI_SHARE_ALIGN bytes has one writer, or says who may write it and how.
 *
 * Sequences. Tasks of one process are numbered from 1 in the order that the
 * parent publishes them; a process works them off in that order. Runs are
 * numbered from 1 over the worker's life. Both are 64 bits and never wrap.
 *
 * Memory order. Each site in dispatch/ and chip/ names the edge it is an end of.
 *   E1 submit   parent fills a task and its arguments -> slot seq, or the burst
 *               ring's tail, release;  consumer acquire -> reads them
 *   E2 done     consumer writes outputs -> done_seq release;  parent and peers
 *               done_seq acquire -> read the outputs
 *   E3 loaded   consumer has read its inputs -> loaded_seq release;  a peer's
 *               loaded_seq acquire -> overwrites them
 *   E4 doze     sleeper stores `dozing`, fence, looks for work again;
 *               waker publishes work, fence, reads `dozing` (completion/fence.h)
 *   E5 notice   parent arms frames and `attention`, fence, looks at
 *               done_seq again;  consumer stores done_seq, fence, reads
 *               `attention`
 *   E6 cancel   whoever fails a run writes its text -> `failed_run` release;
 *               readers acquire -> read the text after the run's tasks ended
 */
#ifndef RPI_DISPATCH_WIRE_H
#define RPI_DISPATCH_WIRE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/worker.h>

#include "base/cpu.h"
#include "base/error.h"

#define RPI_FRAME_COUNT 2

enum rpi_op {
	RPI_OP_RUN = 1,	     /* run a chip entry */
	RPI_OP_CALLBACK = 2, /* run a callback */
	RPI_OP_RESET = 3,    /* zero a window: `entry` is its domain's slot, arg_count
			      * says what of it (window/reset.h); no arguments */
	/* RUN with what the program's parameters say of its arguments, in host memory: of
	 * each only a word travels, in the place of `deps`. */
	RPI_OP_RUN_WORDS = 4,
};

#define RPI_WORDS_MAX 4

/* Up to this many dependencies travel in the task itself. */
#define RPI_INLINE_DEPS 2

/* A task must follow `seq` of `peer`. */
struct rpi_dep {
	uint64_t seq;
	uint32_t peer;
	uint32_t loaded; /* 1: follow its loaded_seq, 0: its done_seq */
};

/* The argument stream of a task: dependencies past the inline ones, then one
 * record per argument, each a multiple of 16 bytes. */
struct rpi_wire_scalar {
	uint8_t kind; /* RP_ARG_SCALAR */
	uint8_t dtype;
	uint8_t reserved[6];
	uint64_t bits;
};

struct rpi_wire_tensor {
	uint8_t kind; /* RP_ARG_TENSOR */
	uint8_t dtype;
	uint8_t rank;
	uint8_t access;
	uint16_t strided;  /* 1: RP_MAX_DIMS strides and 8 bytes of padding follow */
	uint16_t resident; /* 1: the address is the device's: nothing is copied */
	uint64_t address;
	uint64_t bytes; /* packed */
	int64_t shape[RP_MAX_DIMS];
};

struct rpi_wire_strides {
	int64_t strides[RP_MAX_DIMS]; /* in elements */
	uint64_t reserved;
};

struct rpi_wire_domain {
	uint8_t kind; /* RP_ARG_DOMAIN */
	uint8_t reserved;
	uint16_t slot;	/* whose domain it is */
	uint32_t reset; /* RPI_RESET_* + 1: zero the chip's window first; 0: no */
	uint64_t generation;
	uint64_t lease;
	int64_t timeout_ns;
};

static_assert(sizeof(struct rpi_wire_scalar) == 16, "stream unit");
static_assert(sizeof(struct rpi_wire_domain) == 32, "stream unit");
static_assert(sizeof(struct rpi_wire_tensor) == 64, "stream unit");
static_assert(sizeof(struct rpi_wire_strides) == 48, "stream unit");
static_assert(sizeof(struct rpi_dep) == 16, "stream unit");

/* Arguments so few that they travel in the task itself. */
union rpi_inline_args {
	struct rpi_wire_scalar scalars[2];
	struct rpi_wire_domain domain;
	uint64_t words[RPI_WORDS_MAX]; /* a tensor's address, a scalar's bits */
	uint8_t bytes[32];
};

static_assert(sizeof(union rpi_inline_args) == RPI_INLINE_DEPS * sizeof(struct rpi_dep),
	      "in the place of the dependencies");

/* One task, exactly one cache line: the payload of a slot and, with its
 * sequence, the element of a burst ring. */
struct rpi_task_body {
	uint8_t op;	    /* enum rpi_op */
	uint8_t frame_idx;  /* 0..RPI_FRAME_COUNT-1 */
	uint16_t dep_count; /* past RPI_INLINE_DEPS they lead the argument stream */
	uint16_t program;   /* index into the worker's programs */
	uint16_t entry;	    /* index into its entries or callbacks */
	uint32_t args_at;   /* byte offset into the lane's argument ring */
	uint16_t arg_count;
	/* Cache lines that the stream takes. 0 with arguments: nothing is followed, and
	 * they lie in the place of `deps`, so that one line carries all. */
	uint16_t arg_lines;
	uint64_t run_seq;
	union {
		struct rpi_dep deps[RPI_INLINE_DEPS];
		union rpi_inline_args args;
	} in;
};

struct rpi_task {
	uint64_t seq;
	struct rpi_task_body body;
};

static_assert(sizeof(struct rpi_task_body) == 56, "the rest of a slot");
static_assert(sizeof(struct rpi_task) == RPI_CACHE_LINE, "a task is one line");

/* Where a process is in its life; it alone writes its phase. */
enum rpi_phase {
	RPI_PHASE_FORKED = 0,
	RPI_PHASE_CLEAN = 1,   /* signals, name, descriptors, CPU, a place to sleep */
	RPI_PHASE_MEMORY = 2,  /* regions touched */
	RPI_PHASE_BACKEND = 3, /* device opened */
	RPI_PHASE_READY = 4,
	RPI_PHASE_FAILED = 5, /* status and text say why */
};

/* What a worker process has counted. Written by it alone, with relaxed stores. */
struct rpi_peer_counts {
	_Atomic uint64_t tasks;
	_Atomic uint64_t cancelled;
	_Atomic uint64_t bytes_in;
	_Atomic uint64_t bytes_out;
	_Atomic uint64_t bytes_zeroed;
	_Atomic uint64_t resets; /* of windows */
	_Atomic uint64_t bytes_reset;
	_Atomic uint64_t copies_in;
	_Atomic uint64_t copies_out;
	_Atomic uint64_t sleeps;
	_Atomic uint64_t caller_wakes;
	_Atomic uint64_t kernels;
	_Atomic uint64_t arena_hits;
	_Atomic uint64_t arena_misses;
	_Atomic uint64_t arena_builds;
	_Atomic uint64_t arena_build_ns;
	_Atomic uint64_t arena_grown_bytes;
	_Atomic uint64_t arena_bytes; /* of the arenas there are now */
};

/* The shared words of one worker process. */
struct rpi_peer {
	/* The process writes this block on every task; others poll it. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t done_seq; /* E2 */

	/* The process writes this block when a task has taken its inputs. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t loaded_seq; /* E3 */

	/* 1: the process sleeps or is about to. It sets it; whoever clears it by
	 * exchange owes it the wake-up (itself: nothing). */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t dozing; /* E4 */

	/* Others set bits here to be told of progress; rarely written. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t attention; /* E5, RPI_ATTENTION_* */
	_Atomic uint32_t stop;	      /* sticky, set once by the parent; 1 */
	_Atomic uint64_t dep_waiters; /* peers that sleep on this one's progress */
	_Atomic uint64_t room_seq;    /* the parent waits for done_seq to reach this */
	_Atomic uint64_t map_ticket;  /* staging/mapping.h, M1: last one sent */

	/* Start-up, then counters; the process writes it. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t phase; /* release; enum rpi_phase */
	_Atomic uint32_t room_futex;  /* bumped when room_seq was reached */
	_Atomic uint32_t reply_futex; /* bumped when a reply was asked to be told */
	/* 1: the process ends itself, start_text says why; released after that. */
	_Atomic uint32_t gave_up;
	/* The chip's device memory past its argument scratch; valid once ready. */
	uint64_t heap_base;
	uint64_t heap_bytes;
	int32_t start_status; /* valid once phase is RPI_PHASE_FAILED */
	uint32_t start_phase; /* likewise: the one that failed */
	uint64_t populate_ns;
	_Atomic uint64_t map_applied; /* M2: the last ticket carried out */
	struct rpi_peer_counts counts;
	char start_text[RPI_ERROR_BYTES];
};

#define RPI_ATTENTION_FRAME(idx) (1u << (idx))
#define RPI_ATTENTION_FRAMES	 (RPI_ATTENTION_FRAME(0) | RPI_ATTENTION_FRAME(1))
#define RPI_ATTENTION_DEPS	 (1u << 2)
#define RPI_ATTENTION_ROOM	 (1u << 3)
/* Every run's notice is armed (rp_worker_fd(), a ring of the caller, callers that sleep
 * each time): set for good. */
#define RPI_ATTENTION_ALWAYS (1u << 4)
#define RPI_ATTENTION_REPLY  (1u << 5)

static_assert(offsetof(struct rpi_peer, loaded_seq) == 1 * RPI_SHARE_ALIGN,
	      "each writer owns whole blocks");
static_assert(offsetof(struct rpi_peer, dozing) == 2 * RPI_SHARE_ALIGN,
	      "each writer owns whole blocks");
static_assert(offsetof(struct rpi_peer, attention) == 3 * RPI_SHARE_ALIGN,
	      "each writer owns whole blocks");
static_assert(offsetof(struct rpi_peer, phase) == 4 * RPI_SHARE_ALIGN,
	      "each writer owns whole blocks");

/* The state of a frame's notice, in one word so that it can be taken by one
 * compare-and-swap: run_seq << 8 | whom to tell << 1 | armed. */
#define RPI_NOTICE_ARMED     UINT64_C(1)
#define RPI_NOTICE_WAITER    UINT64_C(2) /* the elected sleeping thread */
#define RPI_NOTICE_FD	     UINT64_C(4) /* rp_worker_fd() */
#define RPI_NOTICE_RING	     UINT64_C(8) /* the caller's own io_uring */
#define RPI_NOTICE_TARGETS   (RPI_NOTICE_WAITER | RPI_NOTICE_FD | RPI_NOTICE_RING)
#define RPI_NOTICE_RUN_SHIFT 8

/* What of a run must be seen in another process. */
struct rpi_frame {
	/* The parent writes this block. Arming the notice and taking it (which clears
	 * all its bits) are compare-and-swaps; a taker may be any process. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t notice; /* E5 */
	_Atomic uint64_t peers; /* bit set: that peer has tasks */
	_Atomic uint64_t target_seq[RP_MAX_PEERS];

	/* run_seq of the run that failed last in this frame. Set by compare-and-
	 * swap by whoever fails it first, who then owns the text below. Never
	 * reset: another run is another number, so a healthy run writes nothing. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t cancelled_run;
	_Atomic uint64_t failed_run; /* E6 */
	int32_t failed_status;
	int32_t failed_peer; /* -1: the parent */
	char failed_text[RPI_ERROR_BYTES];

	/* The run's own copy of its configuration; E1. */
	_Alignas(RPI_SHARE_ALIGN) struct rp_run_config config;
};

#endif
