/* SPDX-License-Identifier: MIT */
/* How many processors this process may really use. */
#ifndef RPI_BASE_CPUS_H
#define RPI_BASE_CPUS_H

/*
 * The affinity mask's count, or the cgroup's CPU quota (v1 or v2, the tightest on
 * the way up to the root) rounded up, whichever is less; at least 1. Opens files:
 * set-up only. What can't be read does not limit.
 */
unsigned rpi_cpu_allowed(void);

/* The same with these CPUs too (negative ones are none): what a set of processes may
 * use, some of which are pinned elsewhere than this thread. */
unsigned rpi_cpu_allowed_with(const int *pinned, unsigned count);

/* The quota alone, 0 for none, with every path below `root` ("" for the real
 * ones). Public to the tests. */
unsigned rpi_cpu_quota_under(const char *root);

#endif
