/* SPDX-License-Identifier: MIT */
#ifndef RPI_PROGRAM_PROGRAM_H
#define RPI_PROGRAM_PROGRAM_H

#include <ringplane/program.h>

/* One more reference; rp_program_free() gives it back. */
void rpi_program_hold(struct rp_program *program);

#endif
