/* SPDX-License-Identifier: MIT */
/* A program as the data plane reads it: immutable once it was created. */
#ifndef RPI_DISPATCH_PROGRAM_H
#define RPI_DISPATCH_PROGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#include <ringplane/program.h>

/* Distinct names of dynamic dims in one program. */
#define RPI_DIM_NAMES_MAX 64

struct rp_program {
	_Atomic uint32_t references;
	char *name;
	char *platform;
	char *runtime;
	struct rp_param *params;
	uint32_t param_count;
	uint32_t tensor_count; /* parameters that are tensors */
	/* Per parameter and dim: which name it has, -1 none. */
	int8_t (*dim_ids)[RP_MAX_DIMS];
	uint32_t dim_name_count;
	struct rp_entry *entries;
	uint32_t entry_count;
	struct rp_callback *callbacks;
	uint32_t callback_count;
	rp_orchestrate_fn orchestrate;
	void *user;
	uint32_t chip_count;
	uint32_t callback_workers;
};

#endif
