/* SPDX-License-Identifier: MIT */
/* A program as the data plane reads it: immutable once it was created. */
#ifndef RPI_DISPATCH_PROGRAM_H
#define RPI_DISPATCH_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ringplane/program.h>

/* Distinct names of dynamic dims in one program. */
#define RPI_DIM_NAMES_MAX 64

/* The runtime that entries find in a chip, and that a program has by default. */
#define RPI_RUNTIME_NAME "tensormap_and_ringbuffer"

struct rpi_object;

/* A scalar that the program was built with. */
struct rpi_fixed {
	const char *name;
	struct rp_scalar value;
};

struct rp_program {
	_Atomic uint32_t references;
	char *name;
	char *platform;
	char *runtime;
	struct rp_param *params;
	uint32_t param_count;
	uint32_t tensor_count; /* parameters that are tensors */
	bool fits_words;       /* RPI_OP_RUN_WORDS: few, of fixed shapes */
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
	uint32_t flags;
	struct rpi_fixed *fixed;
	uint32_t fixed_count;
	struct rp_run_config *config; /* of a dispatch that has none; NULL: defaults */
	uint32_t *outputs; /* indices of the parameters that are only written */
	uint32_t output_count;
	struct rpi_object *object; /* control's: what it was loaded from, or NULL */
	char *output_dir;	   /* absolute; NULL: no artifact */
	uint64_t load_ns, assemble_ns;
};

#endif
