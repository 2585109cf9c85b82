/* SPDX-License-Identifier: MIT */
/*
 * The parent's ends of the sockets that shared memory travels by after the fork, one
 * for each worker process; see staging/mapping.h. They are written under the lock of
 * shared memory, by whichever thread first names a region, or frees it.
 */
#ifndef RPI_WORKER_MAPPER_H
#define RPI_WORKER_MAPPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_worker;

struct rpi_mapper {
	int *fds;		 /* [peer_count], the parent's ends */
	int *peer_fds;		 /* [peer_count], the processes'; -1 after the fork */
	_Atomic uint64_t ticket; /* last given; written under that lock */
	_Atomic bool serves;	 /* the processes are ready, and can be woken */
};

/* Make the sockets, and list the shared memory that there is. Before the fork. */
int rpi_mapper_create(struct rp_worker *worker);

/* The processes are ready, and have their ends. */
void rpi_mapper_serve(struct rp_worker *worker);

/* They are gone. Then, or never prepared, release it all. */
void rpi_mapper_retire(struct rp_worker *worker);
void rpi_mapper_destroy(struct rp_worker *worker);

/* Whether the processes have this host memory, or do before they see what the caller
 * publishes next: 0; -EFAULT, with no error line; or why they could not be given it. */
int rpi_mapper_show(struct rp_worker *worker, const void *addr, size_t bytes);

#endif
