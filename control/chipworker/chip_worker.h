/* SPDX-License-Identifier: MIT */
/* A chip worker: an ordinary worker with room for programs, and who has been given one.
 */
#ifndef RPI_CHIPWORKER_CHIP_WORKER_H
#define RPI_CHIPWORKER_CHIP_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ringplane/chip_worker.h>

#include "worker/worker.h"

/* A program that the chip has: the idx-th of the worker beneath, from 1 on. Never taken
 * away before the worker is freed. */
struct rpi_resident_program {
	struct rp_program *program; /* the worker beneath holds it */
	uint32_t idx;
	uint64_t assemble_ns;
};

struct rp_chip_worker {
	struct rp_worker *worker;
	struct rp_program *loader; /* the worker's program 0 */
	uint64_t object_count;	   /* objects that the chip's process was forked with */
	pthread_mutex_t lock;	   /* registering; below all locks of the worker */
	/* Under the lock to write; entries below the count stay: release. */
	struct rpi_resident_program programs[RP_CHIP_WORKER_PROGRAMS];
	_Atomic uint32_t program_count;
	struct rp_registration *registrations; /* under the lock */
	_Atomic uint32_t closed;
};

struct rp_registration {
	/* The hot call reads this and nothing else here. */
	_Atomic uint32_t open; /* 1; 0 for good, release */
	uint32_t program_idx;
	struct rp_worker *worker; /* while open */
	struct rp_program *program;
	uint64_t assemble_ns;
	/* NULL: the worker was freed. Under its lock. */
	struct rp_chip_worker *owner;
	struct rp_registration *next, **link;
};

/* loader.c: the program by which programs come to the chip, and its use. */
int rpi_loader_create(const char *platform, const char *runtime,
		      struct rp_program **program_out);
int rpi_loader_load(struct rp_chip_worker *chip_worker, const char *call,
		    struct rp_program *program, uint32_t idx);

/* register.c: where the program is, brought there first if need be. */
int rpi_chip_worker_find(struct rp_chip_worker *chip_worker, const char *call,
			 struct rp_program *program,
			 const struct rpi_resident_program **found_out);

/* All handles become closed ones; with `freed` they forget the worker. */
void rpi_registrations_close(struct rp_chip_worker *chip_worker, bool freed);

/* current.c: this thread forgets a worker that is about to go. */
void rpi_current_forget(const struct rp_chip_worker *chip_worker);

#endif
