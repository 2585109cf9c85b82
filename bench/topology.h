/* SPDX-License-Identifier: MIT */
/* Which CPUs this process may use and how two of them lie to each other. */
#ifndef BENCH_TOPOLOGY_H
#define BENCH_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

/* CPU numbers are below this. */
#define BENCH_CPUS_MAX 1024

/* CPUs of the affinity mask that rpbench was started with. */
int bench_cpu_count(void);
bool bench_cpu_allowed(int cpu);

/*
 * The pair that is measured unless the user says otherwise: the first allowed
 * CPU and, by preference, another core of its socket, a core elsewhere, its SMT
 * sibling, itself.
 */
int bench_cpus_choose(int cpu_out[2]);

/* "same", "smt", "core", "socket", or "unknown" without a readable topology. */
const char *bench_cpu_relation(int a, int b);

/* Bind the calling thread. 0 or negative errno. */
int bench_cpu_pin(int cpu);
/* Let it, and what it starts, use several; count 0: all that rpbench may use. */
int bench_cpu_allow(const int *cpus, size_t count);

#endif
