/* SPDX-License-Identifier: MIT */
/*
 * A worker that serves jobs for an event loop: two in flight, the rest in a queue, each
 * with a deadline. Nothing here blocks but start, restart and end.
 *
 * Back-pressure: a client has one job at a time, and is not read from until that is
 * done. So while both frames are busy the queue holds one job of each client at most,
 * and what clients send meanwhile stays in their sockets.
 *
 * When a chip dies, or a job keeps one for STUCK_S seconds, the jobs in flight are done
 * with -EOWNERDEAD, the worker is prepared anew, and the queue goes on. Those seconds
 * are counted from look to look: a machine that stood still makes no chip a stuck one.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

struct service;

/* Lies in its client. */
struct job {
	struct request request;
	struct response response;
	int64_t deadline_ns; /* of CLOCK_MONOTONIC */
	struct job *next;
	bool active; /* queued or in flight */
};

/* Called from service_add(), service_poll() and service_close() with the response
 * filled in. May drop jobs, but adds none: the queue is being worked on. */
typedef void (*service_done_fn)(struct job *job, void *user);

struct service_options {
	int ring_fd; /* -1, or a ring that a CQE per finished dispatch is posted to */
	uint64_t ring_user_data;
	service_done_fn done;
	void *user;
};

struct service_counts {
	uint64_t served, timed_out, failed, restarts;
};

/* 0 or negative errno; rp_last_error() has the line. */
int service_open(const struct service_options *options, struct service **service_out);

/* Jobs in the queue are done with -ESHUTDOWN, those in flight get a second. Prints what
 * was served, after the server's name, to stderr. */
int service_close(struct service *service, const char *name);

/* Readable when there is something for service_poll(). Another one after a restart. */
int service_fd(const struct service *service);

/* Take a job whose request is filled in. A worker that can't be restarted: negative. */
int service_add(struct service *service, struct job *job);

/* The client has gone: the job is not done any more. */
void service_drop(struct service *service, struct job *job);

/* Collect what has ended, end what is too late, send what waits. */
int service_poll(struct service *service);

/* Until service_poll() is due at the latest, in ns; -1: not by itself. */
int64_t service_timeout_ns(const struct service *service);

void service_get_counts(const struct service *service, struct service_counts *counts_out);

#endif
