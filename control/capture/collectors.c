/* SPDX-License-Identifier: MIT */
#include "capture/collectors.h"

const struct rpi_collector *const rpi_collectors[] = {
	&rpi_swimlane,	  &rpi_dep_gen, &rpi_pmu_collector, &rpi_dump_args_collector,
	&rpi_scope_stats,
};

const uint32_t rpi_collector_count = sizeof(rpi_collectors) / sizeof(rpi_collectors[0]);
