/* SPDX-License-Identifier: MIT */
/* One collective, called by a rank and judged by it: what each rank gives is a function
 * of the salt, so that every rank knows what all of them must get. */
#ifndef RPI_TESTS_COLLECTIVE_H
#define RPI_TESTS_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ranks.h"

enum collective_kind {
	C_BARRIER,
	C_ALLREDUCE,
	C_BROADCAST,
	C_ALLGATHER,
	C_REDUCE_SCATTER,
	C_ALL_TO_ALL,
	C_ALL_TO_ALL_V,
	C_KINDS,
};

/* Where the rank's data lies. */
enum collective_place {
	AT_PRIVATE,
	AT_WINDOW,
	AT_EITHER, /* odd ranks in the window */
	AT_PLACES,
};

struct collective {
	enum collective_kind kind;
	enum collective_place place;
	bool in_place; /* of allreduce and reduce_scatter */
	enum rp_dtype dtype;
	enum rp_reduce_op op;
	enum rp_algorithm algorithm;
	uint32_t root;
	uint64_t count;
	uint64_t salt;
	uint32_t shift; /* elements that the data begin past a line */
};

extern const char *const collective_names[C_KINDS];

/* Bytes that the domain's first buffer, of bytes, must have. */
size_t collective_bytes(const struct collective *c, uint32_t size);

/* `memory`: private to the rank, three times collective_bytes(). */
int collective_check(struct rp_chip *chip, struct rp_comm *comm,
		     const struct collective *c, void *memory);

/* Any collective of up to `bytes` in each rank's window. */
void collective_random(struct collective *c, uint32_t size, size_t bytes, uint64_t *seed);

#endif
