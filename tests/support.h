/* SPDX-License-Identifier: MIT */
/*
 * What the tests of dispatches share: a program whose tasks each test scripts for
 * itself, entries that do one simple thing, and a board that tests and worker
 * processes both see, so that order is shown by gates and never by time.
 */
#ifndef RPI_TESTS_SUPPORT_H
#define RPI_TESTS_SUPPORT_H

#include <stdatomic.h>
#include <stdbool.h>

#include <ringplane/ringplane.h>

#include "check.h"

/* Ends a hang; nothing here takes a tenth of it. */
#define WATCHDOG_S  120

#define BOARD_GATES 64
#define BOARD_NOTES 16384

struct note {
	uint32_t chip;
	uint32_t word;
};

/* What an entry or a callback was called with, last. */
struct seen {
	uint64_t run_id;
	uint64_t tag;
	uint32_t chip;
	uint32_t chip_count;
	uint64_t nargs;
	struct rp_arg args[RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS];
};

/* One shared mapping, made before any worker. */
struct board {
	_Atomic uint64_t gates[BOARD_GATES];   /* 0 shut */
	_Atomic uint64_t entered[BOARD_GATES]; /* tasks that came to a gate */
	_Atomic uint64_t passed[BOARD_GATES];  /* and that went through it */
	_Atomic uint64_t note_count;
	struct note notes[BOARD_NOTES];
	struct seen seen;
};

extern struct board *board;

/* The entries of the support program. A task's tensors and scalars stand in any
 * order; "the scalar" is the first one. */
enum {
	ENTRY_EMPTY,
	ENTRY_COPY,	 /* tensor 0 to tensor 1, both of one shape */
	ENTRY_ADD,	 /* the scalar to every element of each written int64 tensor */
	ENTRY_FILL_HALF, /* the first half of tensor 0's elements: every byte 0x11 */
	ENTRY_FAIL,	 /* as the scalar says, with a text */
	ENTRY_RETURN,	 /* the scalar as it is, with no text */
	ENTRY_GATE,	 /* wait at the gate that the scalar names, then as ENTRY_ADD
			  * with the second scalar, if there is one */
	ENTRY_OPEN,	 /* open the gate that the scalar names */
	ENTRY_NOTE,	 /* leave a note of this chip and the scalar */
	ENTRY_SEE,	 /* fill board->seen */
	ENTRY_COUNT
};

/* Its callbacks. */
enum {
	CALLBACK_COPY,
	CALLBACK_FAIL,
	CALLBACK_GATE_COPY, /* copy, wait at the gate, copy again to tensor 2 */
	CALLBACK_NOTE,
	CALLBACK_COUNT
};

/* Of notes that a callback leaves. */
#define NOTE_CALLBACK 1000

struct bed {
	struct rp_program *program;
	struct rp_worker *worker;
};

/* Zero the board and start the watchdog. */
int bed_setup(void **state);
int bed_teardown(void **state);

#define PROCESS_TEST(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

/* Options that start quickly, with `chip_count` chips. */
void bed_options(struct rp_worker_options *options, uint32_t chip_count);

/* A worker of the support program, which has no parameters. */
void bed_open(struct bed *bed, uint32_t chip_count);
void bed_open_with(struct bed *bed, const struct rp_worker_options *options);

/* The same, with the memory of host and device one or two. */
void bed_open_unified(struct bed *bed, uint32_t chip_count, bool unified);

/* Prepare and close a worker of any one program. */
void bed_prepare(struct bed *bed, const struct rp_program_desc *desc,
		 const struct rp_worker_options *options);
void bed_close(struct bed *bed);

/* Give the description the support program's entries, callbacks and orchestration. */
void bed_describe(struct rp_program_desc *desc, const char *name,
		  const struct rp_param *params, size_t param_count);

/* Dispatch with `script` as the orchestration of this one call; any thread. */
typedef int (*script_fn)(struct rp_run *run, void *arg);
int bed_submit(struct bed *bed, script_fn script, void *arg, struct rp_handle *out);
int bed_run(struct bed *bed, script_fn script, void *arg);

/* In a script: enqueue one task, arguments given in place. */
int bed_task(struct rp_run *run, int32_t chip, uint32_t entry, const struct rp_arg *args,
	     uint32_t arg_count);

#define TASK(run, chip, entry, ...)                                        \
	bed_task(run, chip, entry, (const struct rp_arg[]){ __VA_ARGS__ }, \
		 sizeof((const struct rp_arg[]){ __VA_ARGS__ }) / sizeof(struct rp_arg))
#define CALL(run, callback, ...)                                               \
	rp_run_callback(run, callback, (const struct rp_arg[]){ __VA_ARGS__ }, \
			sizeof((const struct rp_arg[]){ __VA_ARGS__ }) /       \
				sizeof(struct rp_arg))

/* Scripts: wait at the gate that `arg` names, fail with the positive errno that it is,
 * or the one and then the other, with EIO. */
int script_gate(struct rp_run *run, void *arg);
int script_fail(struct rp_run *run, void *arg);
int script_gate_fail(struct rp_run *run, void *arg);

/* Run one task on chip 0, arguments given in place. */
int bed_run_one(struct bed *bed, uint32_t entry, const struct rp_arg *args,
		uint32_t arg_count);
#define RUN_ONE(bed, entry, ...)                                        \
	bed_run_one(bed, entry, (const struct rp_arg[]){ __VA_ARGS__ }, \
		    sizeof((const struct rp_arg[]){ __VA_ARGS__ }) /    \
			    sizeof(struct rp_arg))

/* What a call in a script returned, to be judged when the run is over. */
struct kept_error {
	int err;
	char line[512];
};

void keep_error(struct kept_error *kept, int err);

/* Dispatch a program that has parameters, with its arguments in place. */
#define SUBMIT(bed, out, ...)                                                           \
	rp_worker_submit(                                                               \
		(bed)->worker, (bed)->program, (const struct rp_arg[]){ __VA_ARGS__ },  \
		sizeof((const struct rp_arg[]){ __VA_ARGS__ }) / sizeof(struct rp_arg), \
		NULL, out)
#define RUN(bed, ...)                                                                   \
	rp_worker_run(                                                                  \
		(bed)->worker, (bed)->program, (const struct rp_arg[]){ __VA_ARGS__ },  \
		sizeof((const struct rp_arg[]){ __VA_ARGS__ }) / sizeof(struct rp_arg), \
		NULL)

/* Shared memory of `bytes`, each of them `fill`. */
void *bed_shared(size_t bytes, int fill);

/* A contiguous tensor; rank and shape by the dims given. */
struct rp_tensor bed_tensor(void *data, enum rp_dtype dtype, uint32_t rank,
			    const int64_t *shape);
#define TENSOR(data, dtype, ...)                                                      \
	bed_tensor(data, dtype, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), \
		   (int64_t[]){ __VA_ARGS__ })

/* Where the `i`-th element of a view lies, in row-major order; pairs of RP_FP4E2M1
 * count as one. Written apart from the library, to judge it. */
uint8_t *bed_at(const struct rp_tensor *tensor, int64_t i);
int64_t bed_elements(const struct rp_tensor *tensor);
uint32_t bed_element_bytes(const struct rp_tensor *tensor);

/* Gates. A task waits at one until it is open, or its run is cancelled. */
void gate_open(uint32_t gate);
void gate_await_entered(uint32_t gate, uint64_t tasks);

/* For what may never come true: false after PATIENCE_NS, a watchdog likewise. */
#define PATIENCE_NS (INT64_C(20) * 1000000000)
bool gate_comes_entered(uint32_t gate, uint64_t tasks);

/* Let other processes run. */
void bed_breathe(void);

/* What should be waiting gets this long to show that it is not. */
void bed_give_a_chance(void);

struct rp_worker_stats bed_stats(struct bed *bed);

/* A small generator; the same numbers for the same seed everywhere. */
uint64_t bed_random(uint64_t *seed);

#endif
