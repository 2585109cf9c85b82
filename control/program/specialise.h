/* SPDX-License-Identifier: MIT */
/* What a build makes of scalars: some get values and leave the parameter list. */
#ifndef RPI_PROGRAM_SPECIALISE_H
#define RPI_PROGRAM_SPECIALISE_H

#include "dispatch/program.h"

/* The choices of a description whose parameters are right. 0, or -EINVAL. */
int rpi_choices_check(const struct rp_program_desc *desc);

/* Fill the program's parameters, fixed scalars and outputs; names still point into the
 * description. 0, or -ENOMEM with no error line. */
int rpi_choices_apply(const struct rp_program_desc *desc, struct rp_program *program);

/* A program's own configuration. 0, or -EINVAL. */
int rpi_program_config_check(const struct rp_run_config *config);

#endif
