/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "topology.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/error.h"
#include "sysfile.h"

/* The mask at the start: the process pins itself later, and a look at the mask
 * then would find one CPU only. */
static const cpu_set_t *start_mask(void)
{
	static cpu_set_t mask;
	static bool known;

	if (!known) {
		CPU_ZERO(&mask);
		if (sched_getaffinity(0, sizeof(mask), &mask))
			CPU_SET(0, &mask);
		known = true;
	}
	return &mask;
}

int bench_cpu_count(void)
{
	return CPU_COUNT(start_mask());
}

bool bench_cpu_allowed(int cpu)
{
	return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET((size_t)cpu, start_mask());
}

static int topology_line(int cpu, const char *what, char *line, size_t bytes)
{
	char path[128];

	rpi_format(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu,
		   what);
	return bench_sysfile_line(path, line, bytes);
}

const char *bench_cpu_relation(int a, int b)
{
	char siblings[256], package_a[32], package_b[32];

	if (a == b)
		return "same";
	if (topology_line(a, "thread_siblings_list", siblings, sizeof(siblings)) ||
	    topology_line(a, "physical_package_id", package_a, sizeof(package_a)) ||
	    topology_line(b, "physical_package_id", package_b, sizeof(package_b)))
		return "unknown";
	if (bench_list_has(siblings, b))
		return "smt";
	return strcmp(package_a, package_b) ? "socket" : "core";
}

/* Lower is better. */
static int distance_rank(int a, int b)
{
	static const char *const order[] = { "core", "unknown", "socket", "smt" };
	const char *relation = bench_cpu_relation(a, b);
	int rank = 0;

	while (rank < 4 && strcmp(relation, order[rank]))
		rank++;
	return rank;
}

int bench_cpus_choose(int cpu_out[2])
{
	int first = 0, best = -1;

	while (first < CPU_SETSIZE && !bench_cpu_allowed(first))
		first++;
	if (first == CPU_SETSIZE)
		return rpi_fail(-ENODEV, "--cpus: the affinity mask names no CPU");
	for (int cpu = first + 1; cpu < CPU_SETSIZE; cpu++) {
		if (!bench_cpu_allowed(cpu))
			continue;
		if (best < 0 || distance_rank(first, cpu) < distance_rank(first, best))
			best = cpu;
		if (!distance_rank(first, best))
			break;
	}
	cpu_out[0] = first;
	cpu_out[1] = best < 0 ? first : best;
	return 0;
}

static_assert(BENCH_CPUS_MAX == CPU_SETSIZE, "what a fixed mask holds");

int bench_cpu_pin(int cpu)
{
	return bench_cpu_allow(&cpu, 1);
}

int bench_cpu_allow(const int *cpus, size_t count)
{
	cpu_set_t mask;

	CPU_ZERO(&mask);
	for (size_t i = 0; i < count; i++)
		CPU_SET((size_t)cpus[i], &mask);
	if (!count)
		mask = *start_mask();
	if (sched_setaffinity(0, sizeof(mask), &mask))
		return rpi_fail(-errno, "sched_setaffinity: %zu cpus from %d on: %s",
				count, count ? cpus[0] : 0, strerror(errno));
	return 0;
}
