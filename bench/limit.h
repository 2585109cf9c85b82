/* SPDX-License-Identifier: MIT */
/*
 * The physical limits and peers that our figures are held against, for any
 * sub-command to measure in turn with its own cases:
 *
 *	bench_limit_plan(plan, "limits.pingpong.line");
 *	bench_plan_add(plan, &(struct bench_case){ .name = "dispatch.spin.rtt",
 *			.unit = "ns", .limits = "limits.pingpong.line", ... });
 *
 * The kinds are for a case that needs the bare object.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include "case.h"
#include "pingpong.h"

/* Add one limit, or all that match a pattern, unless the plan has it. -ENOENT. */
int bench_limit_plan(struct bench_plan *plan, const char *pattern);

/* One shared line each way; each line is flag and message at once. */
extern const struct bench_pingpong_kind bench_line_kind;
/* The same on one CPU, which they give each other. */
extern const struct bench_pingpong_kind bench_yield_kind;
/* A flag line and a 64-byte payload line each way. */
extern const struct bench_pingpong_kind bench_payload_kind;
/* A ring of 64-byte slots each way, each with its own sequence word. */
extern const struct bench_pingpong_kind bench_slotring_kind;

/* A wake-up each way; both sides block. */
extern const struct bench_pingpong_kind bench_pipe_kind;
extern const struct bench_pingpong_kind bench_eventfd_kind;
extern const struct bench_pingpong_kind bench_futex_kind;
/* CPU time of a sleep that another CPU ends. */
extern const struct bench_pingpong_kind bench_sleep_kind;
/* IORING_OP_MSG_RING into the ring of the other. */
extern const struct bench_pingpong_kind bench_uring_kind;

/* Any ping-pong as a case: .arg is its kind. */
int bench_pingpong_case_setup(struct bench_case *c);
int bench_pingpong_case_round(struct bench_case *c, struct bench_round *round);
void bench_pingpong_case_teardown(struct bench_case *c);

/* Memory: .arg is the size_t of bytes. */
int bench_memory_setup(struct bench_case *c);
int bench_memcpy_round(struct bench_case *c, struct bench_round *round);
int bench_memset_round(struct bench_case *c, struct bench_round *round);
void bench_memory_teardown(struct bench_case *c);

/* Calls, in batches of c->batch. */
int bench_syscall_round(struct bench_case *c, struct bench_round *round);
int bench_clock_round(struct bench_case *c, struct bench_round *round);

/* A process that ends at once. */
int bench_fork_enter(struct bench_case *c);
void bench_fork_leave(struct bench_case *c);
int bench_fork_round(struct bench_case *c, struct bench_round *round);

#endif
