/* SPDX-License-Identifier: MIT */
/* The kinds of captures, a file each. */
#ifndef RPI_CAPTURE_COLLECTORS_H
#define RPI_CAPTURE_COLLECTORS_H

#include "capture/session.h"

extern const struct rpi_collector rpi_swimlane;		   /* swimlane.c */
extern const struct rpi_collector rpi_dep_gen;		   /* dep_gen.c */
extern const struct rpi_collector rpi_pmu_collector;	   /* pmu.c */
extern const struct rpi_collector rpi_dump_args_collector; /* dump_args.c */
extern const struct rpi_collector rpi_scope_stats;	   /* scope_stats.c */

#endif
