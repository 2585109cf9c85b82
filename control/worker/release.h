/* SPDX-License-Identifier: MIT */
#ifndef RPI_WORKER_RELEASE_H
#define RPI_WORKER_RELEASE_H

#include <stdint.h>

struct rp_worker;

/* End what runs, then give back everything a worker holds; any part of it may be
 * missing (prepare failed half way). */
void rpi_worker_release(struct rp_worker *worker);

/* Every process looks at the notices whenever it has ended a task. */
void rpi_worker_look_always(struct rp_worker *worker);

/* From the next dispatch on, announce every run's end to these targets too. */
void rpi_worker_arm_always(struct rp_worker *worker, uint64_t targets);

#endif
