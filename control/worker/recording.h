/* SPDX-License-Identifier: MIT */
#ifndef RPI_WORKER_RECORDING_H
#define RPI_WORKER_RECORDING_H

#include "worker/worker.h"

struct rp_recording;

/* Dispatch a known program once, wait, and keep what its orchestration enqueued. */
int rpi_worker_record(struct rp_worker *worker, const char *call, struct rpi_offer *offer,
		      struct rp_recording **recording_out);

#endif
