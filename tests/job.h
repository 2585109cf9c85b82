/* SPDX-License-Identifier: MIT */
/*
 * Jobs: what one orchestration of a worker with a dispatcher does. The address of a job
 * is the one argument of the program that these tests dispatch, since its orchestrations
 * run in a thread that is not the test's.
 */
#ifndef RPI_TESTS_JOB_H
#define RPI_TESTS_JOB_H

#include "support.h"

#include <pthread.h>
#include <sys/types.h>

struct job {
	int (*fn)(struct rp_run *run, struct job *job);
	uint64_t number; /* as its function likes */
	int status;
	_Atomic uint32_t *go; /* of job_hold */
	_Atomic uint32_t entered;
	pid_t thread;	/* that the orchestration ran in */
	uint64_t place; /* among all orchestrations, from 1 */
	uint64_t tag;
	struct bed *bed;
	struct rp_handle handle;
	struct rp_tensor tensor;
	int heard[4];
};

int job_nothing(struct rp_run *run, struct job *job); /* return the status */
int job_note(struct rp_run *run, struct job *job);    /* of the number, from a chip */
int job_fail_in_chip(struct rp_run *run, struct job *job); /* with the status */
int job_say(struct rp_run *run, struct job *job);	   /* the status, with a line */
int job_hold(struct rp_run *run, struct job *job);	   /* until *go, in this thread */
int job_gate(struct rp_run *run, struct job *job);	   /* the number's, in chip 0 */
int job_add(struct rp_run *run,
	    struct job *job); /* the number to the tensor's elements */
/* Fail with the status, after a task that fails otherwise. */
int job_fail_late(struct rp_run *run, struct job *job);

static inline struct rp_arg job_arg(struct job *job)
{
	return rp_arg_u64((uint64_t)(uintptr_t)job);
}

void job_describe(struct rp_program_desc *desc);

/* With a dispatcher; queue 0 is the default. */
void job_open_with(struct bed *bed, struct rp_worker_options *options, uint32_t queue);
void job_open(struct bed *bed, uint32_t chips, uint32_t queue);

int job_submit(struct bed *bed, struct job *job);
int job_outcome(struct job *job);

bool job_has_entered(void *job);

/* Hold the dispatcher inside `job`; the queue behind it is empty. */
void job_hold_dispatcher(struct bed *bed, struct job *job, _Atomic uint32_t *go);

/* A submit on another thread, which may block. */
struct submitter {
	pthread_t thread;
	struct bed *bed;
	struct job job;
	_Atomic pid_t tid;
	_Atomic int done;
	int status;
};

/* The job is a note unless the submitter has another one. */
void submitter_start(struct submitter *submitter, struct bed *bed);

/* Until the n-th submit has found the queue full, and this one's thread sleeps. */
void submitter_await_blocked(struct submitter *submitter, uint64_t waits);

/* A thread that waits for a job's outcome. */
struct waiter {
	pthread_t thread;
	_Atomic pid_t tid;
	struct job *job;
	int status;
};

void waiter_start(struct waiter *waiter, struct job *job);
void waiter_await_asleep(struct waiter *waiter);

/* The thread of this process that has this name, or 0. */
pid_t job_find_thread(const char *name);

#endif
