/* SPDX-License-Identifier: MIT */
/*
 * A program for process tests: its one entry does the deed that an argument names,
 * on one chip or on all. Deeds and tests share a pad of words.
 */
#ifndef RPI_TESTS_DEED_H
#define RPI_TESTS_DEED_H

#include <stdatomic.h>
#include <stdint.h>

#include <ringplane/ringplane.h>

enum deed {
	DEED_NOTHING,
	DEED_FAIL,   /* return -operand */
	DEED_RETURN, /* return operand as it is */
	DEED_SLEEP,  /* operand us */
	DEED_GATE,   /* until pad->gate reaches operand */
	DEED_HANG,   /* for ever, in pause() */
	DEED_SPIN,   /* for ever, at full speed */
	DEED_SEGV,
	DEED_EXIT, /* exit(operand) */
	DEED_ABORT,
	DEED_CUSTOM, /* deed_custom */
};

/* On every chip instead of one. */
#define DEED_ALL_CHIPS UINT64_MAX

#define DEED_CHIPS     64

/* Shared with every process that is forked after the first use. */
struct deed_pad {
	_Atomic uint64_t gate;
	_Atomic uint64_t entered[DEED_CHIPS]; /* tasks that began, per chip */
	_Atomic uint64_t left[DEED_CHIPS];    /* and that ended */
	_Atomic uint64_t words[16];	      /* the test's own */
};

extern struct deed_pad *deed_pad;
extern int (*deed_custom)(struct rp_chip *chip, uint64_t operand);

/* Make the pad, if need be, and zero it. */
void deed_pad_reset(void);

/* The caller's, ended with rp_program_free(). */
struct rp_program *deed_program(void);

/* Worker options that start quickly. */
void deed_options(struct rp_worker_options *options, uint32_t chip_count);

/* A worker of the deed program, which it keeps. NULL options: one chip. */
int deed_prepare(const struct rp_worker_options *options, struct rp_worker **worker_out);

/* One task on `chip`, or one on each. */
int deed_submit(struct rp_worker *worker, uint64_t chip, enum deed deed, uint64_t operand,
		struct rp_handle *handle_out);
int deed_run(struct rp_worker *worker, uint64_t chip, enum deed deed, uint64_t operand);

/* `tasks` of them. */
int deed_submit_many(struct rp_worker *worker, uint64_t chip, enum deed deed,
		     uint64_t operand, uint64_t tasks, struct rp_handle *handle_out);

/* Until `chip` has begun its n-th task since the reset. */
void deed_await_entered(uint32_t chip, uint64_t n);

#endif
