/* SPDX-License-Identifier: MIT */
/*
 * Which collective a rank has called. Packed it is a word that all ranks say in every
 * round and compare, so that ranks which call different ones fail with a line that names
 * both, and do not take each other's data for something that it is not.
 */
#ifndef RPI_COMM_CALL_H
#define RPI_COMM_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

enum rpi_call_kind {
	RPI_CALL_BARRIER = 1,
	RPI_CALL_ALLREDUCE,
	RPI_CALL_BROADCAST,
	RPI_CALL_ALLGATHER,
	RPI_CALL_REDUCE_SCATTER,
	RPI_CALL_ALL_TO_ALL,
	RPI_CALL_ALL_TO_ALL_V,
	RPI_CALL_KINDS,
};

/* More elements than this no collective takes: it fits the word. */
#define RPI_CALL_COUNT_MAX ((UINT64_C(1) << 45) - 1)

struct rpi_call {
	enum rpi_call_kind kind;
	uint32_t dtype;
	uint32_t op;	    /* of a reduction */
	uint32_t algorithm; /* of an allreduce */
	uint32_t root;	    /* of a broadcast */
	uint64_t count;
};

/* Memory that a call names. */
struct rpi_span {
	const void *at;
	uint64_t bytes;
};

uint64_t rpi_call_pack(const struct rpi_call *call);

/* "comm_allreduce", of a packed one. */
const char *rpi_call_name(uint64_t packed);

/* "comm_allreduce of 4 float32 (sum)". */
void rpi_call_print(char *buf, size_t bytes, uint64_t packed);

/* Count, dtype, NULLs; and for reductions whether there is one. 0, -EINVAL, -EOPNOTSUPP
 * with an error line. */
int rpi_call_check(const struct rp_comm *comm, const struct rpi_call *call,
		   const void *in, const void *out);

/* -EINVAL where they share a byte. */
int rpi_call_check_apart(const struct rp_comm *comm, const struct rpi_call *call,
			 struct rpi_span in, struct rpi_span out);

/* Bytes of `count` elements of the call. */
uint64_t rpi_call_bytes(const struct rpi_call *call, uint64_t count);

/* Bytes of one, at least 1. */
uint32_t rpi_call_grain(const struct rpi_call *call);

#endif
