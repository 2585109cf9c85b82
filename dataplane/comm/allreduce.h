/* SPDX-License-Identifier: MIT */
/* The ways to reduce over all ranks; the arguments have been checked. */
#ifndef RPI_COMM_ALLREDUCE_H
#define RPI_COMM_ALLREDUCE_H

#include "comm/call.h"

int rpi_allreduce_mesh(struct rp_comm *comm, const struct rpi_call *call, const void *in,
		       void *out);
int rpi_allreduce_split(struct rp_comm *comm, const struct rpi_call *call, const void *in,
			void *out);
int rpi_allreduce_ring(struct rp_comm *comm, const struct rpi_call *call, const void *in,
		       void *out);

#endif
