/* SPDX-License-Identifier: MIT */
/* Parameters, as a manifest has them. */
#ifndef RPI_PROGRAM_MANIFEST_PARAM_H
#define RPI_PROGRAM_MANIFEST_PARAM_H

#include <ringplane/program.h>

#include "program/json.h"

/* Those of an array that is a member of `at`; 0, or -EINVAL. Texts are borrowed. */
int rpi_manifest_read_params(const struct rpi_json *at, const char *key, json_t *array,
			     struct rp_param *params);

/* The member "dtype". */
int rpi_manifest_read_dtype(const struct rpi_json *at, uint32_t *dtype_out);

#endif
