/* SPDX-License-Identifier: MIT */
/* The pipes of a run's processes, emptied by a thread while the run goes on: a file for
 * the bytes of each tensor, and what the index will say. */
#ifndef RPI_CAPTURE_DRAIN_H
#define RPI_CAPTURE_DRAIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "capture/session.h"
#include "chip/dump.h"

/* One argument in one phase. */
struct rpi_dumped {
	uint32_t peer;
	struct rpi_dump_head head;
	int err;    /* 0, or why the bytes are not the tensor's: the process's word */
	bool whole; /* all of it came, and was written where it has bytes */
};

struct rpi_dump {
	struct rpi_session *session;
	struct rpi_list dumped; /* struct rpi_dumped */
	pthread_t thread;
	bool runs;
	_Atomic uint32_t over; /* nothing more comes */
	int err;	       /* the first, with its line */
	char text[RPI_ERROR_BYTES];
};

/* Bytes of its name, the final zero included. */
#define RPI_DUMP_NAME_BYTES 64

/* The name of the file with the bytes. */
void rpi_dump_name(const struct rpi_dump_head *head, char *buf, size_t bytes);

/* Open the pipes and start. 0, or an error with its line. */
int rpi_drain_start(struct rpi_dump *dump);

/* Take what is left and stop. */
void rpi_drain_stop(struct rpi_dump *dump);

#endif
