/* SPDX-License-Identifier: MIT */
/*
 * The request queue of a worker with a dispatcher. Submitting threads leave what they
 * were called with in a request; the dispatcher makes runs of them in that order. All
 * memory is taken at prepare.
 */
#ifndef RPI_DISPATCH_QUEUE_H
#define RPI_DISPATCH_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/worker.h>

#include "base/cpu.h"
#include "completion/spin.h"
#include "dispatch/admission.h"
#include "dispatch/plane.h"

/* A call as it was: everything that its run will start from. */
struct rpi_request {
	struct rp_program *program; /* NULL: a mark, see rpi_queue_pass() */
	uint32_t program_idx;
	uint32_t handle_idx;
	uint32_t grant_count;
	bool has_config;
	const struct rp_capture *capture; /* the submitter's, who waits; NULL: none */
	_Atomic uint32_t passed;	  /* of a mark; futex */
	/* Ticks: its submit, and when it was queued; 0: nobody wanted to know. */
	uint64_t began, queued;
	struct rp_run_config config;
	struct rp_arg *args;	  /* [largest parameter count], behind this */
	struct rpi_grant *grants; /* [largest tensor count], likewise */
};

struct rpi_queue {
	/* Written by init and the closer only. */
	struct rpi_plane *plane;
	struct rpi_burst *ring; /* indices of requests: several producers, one consumer */
	struct rpi_burst *free; /* likewise, with several consumers */
	uint8_t *requests;
	size_t request_bytes;
	uint32_t count;
	uint32_t collected; /* by the closer, who keeps them */

	/* The dispatcher's own. */
	_Alignas(RPI_SHARE_ALIGN) struct rpi_spin spin;
	_Atomic uint64_t sleeps;

	/* One free request at hand, index + 1 or 0; see struct rpi_handles. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t spare;

	/* 1: the dispatcher sleeps or is about to. It sets it; whoever clears it by
	 * exchange owes it the wake-up. Futex. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t dozing; /* Q3 */
	_Atomic uint32_t stop;				   /* sticky */
	_Atomic uint64_t wakes;

	/* Threads that found no free request. They take turns in order of arrival; the
	 * one whose turn it is sleeps on `room`, 1 while it does. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t blocked;
	_Atomic uint32_t room; /* Q4; futex */
	_Atomic uint64_t full_waits;
	struct rpi_admission turn;
};

/* `count` requests for calls of up to that many parameters and tensors. */
int rpi_queue_create(struct rpi_plane *plane, uint32_t count, uint32_t params,
		     uint32_t tensors, struct rpi_queue **queue_out);
/* NULL is ignored. */
void rpi_queue_destroy(struct rpi_queue *queue);

/* Check a call, queue a snapshot of it. Blocks while no request is free; the errors of
 * rp_worker_submit() but the orchestration's. */
int rpi_queue_submit(struct rpi_queue *queue, const struct rpi_offer *offer,
		     uint64_t began, struct rpi_ticket *ticket_out);

/* Wait until what was queued before has been made runs of. At once in the thread that
 * does that, and while a close refuses new requests. */
void rpi_queue_pass(struct rpi_queue *queue);

/* The dispatcher: work off requests until told to stop. */
void rpi_queue_run(struct rpi_queue *queue);

/* The request's contents were taken over. */
void rpi_queue_give_back(struct rpi_queue *queue, struct rpi_request *request);

/* For the one closer, who has stored `closing` before: take every request away, once it
 * is free. The run of the last may still be being built, under admission. 0, or
 * -ETIMEDOUT: may be called again. */
int rpi_queue_drain(struct rpi_queue *queue, uint64_t deadline_ns);

/* Threads that wait for a request look whether they still may. NULL is ignored. */
void rpi_queue_rouse(struct rpi_queue *queue);

/* Let rpi_queue_run() return, once it finds nothing queued. */
void rpi_queue_stop(struct rpi_queue *queue);

#endif
