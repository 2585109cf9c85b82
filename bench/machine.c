/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "machine.h"

#include <errno.h>
#include <liburing.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/error.h"
#include "clock.h"
#include "region/region.h"
#include "sysfile.h"
#include "topology.h"

/* Passed by the build. */
#ifndef RPBENCH_VERSION
#define RPBENCH_VERSION "0.0.0"
#endif
#ifndef RPBENCH_REVISION
#define RPBENCH_REVISION ""
#endif
#ifndef RPBENCH_BUILD_FLAGS
#define RPBENCH_BUILD_FLAGS ""
#endif

#define HUGE_BYTES ((size_t)2 << 20)

const char *bench_version(void)
{
	return RPBENCH_VERSION;
}

const char *bench_revision(void)
{
	return RPBENCH_REVISION;
}

static void probe_compiler(struct bench_machine *m)
{
#if defined(__clang__)
	rpi_format(m->compiler, sizeof(m->compiler), "clang %d.%d", __clang_major__,
		   __clang_minor__);
#else
	rpi_format(m->compiler, sizeof(m->compiler), "gcc %d.%d", __GNUC__,
		   __GNUC_MINOR__);
#endif
}

static void probe_kernel(struct bench_machine *m)
{
	struct utsname name;

	if (!uname(&name))
		rpi_format(m->kernel, sizeof(m->kernel), "%s %s", name.sysname,
			   name.release);
	if (bench_sysfile_value("/proc/cpuinfo", "model name", m->cpu_model,
				sizeof(m->cpu_model)))
		rpi_format(m->cpu_model, sizeof(m->cpu_model), "%s", name.machine);
}

static double probe_quota(void)
{
	char line[64];
	double quota, period;

	if (bench_sysfile_line("/sys/fs/cgroup/cpu.max", line, sizeof(line)) ||
	    sscanf(line, "%lf %lf", &quota, &period) != 2 || period <= 0.0)
		return (double)NAN;
	return quota / period;
}

/* Made as any region is, because no setting of the kernel says it alone: whether there is
 * a pool, what shmem_enabled allows, and whether a huge page was free when it was asked
 * for. One huge page in size: it is on one or it is not. */
static const char *probe_pages(void)
{
	struct rp_region_info info = { 0 };
	struct rpi_region region;

	if (rpi_region_create(&region, "rpbench-pages", HUGE_BYTES, RP_PAGES_AUTO))
		return "none";
	if (rpi_region_info(&region, &info))
		info.huge_bytes = 0;
	rpi_region_destroy(&region);
	if (info.kind == RP_PAGE_HUGETLB)
		return "huge";
	return info.huge_bytes >= HUGE_BYTES ? "thp" : "4k";
}

/* Three causes that people mix up: not there, forbidden, no room. */
static void probe_uring(struct bench_machine *m)
{
	struct io_uring ring;
	int err = io_uring_queue_init(2, &ring, 0);

	m->uring = !err;
	if (!err)
		io_uring_queue_exit(&ring);
	else if (err == -ENOSYS)
		rpi_format(m->uring_reason, sizeof(m->uring_reason),
			   "ENOSYS, not in this kernel or hidden by seccomp");
	else if (err == -EPERM || err == -EACCES)
		rpi_format(m->uring_reason, sizeof(m->uring_reason),
			   "%s, forbidden by kernel.io_uring_disabled or seccomp",
			   strerrorname_np(-err));
	else
		rpi_format(m->uring_reason, sizeof(m->uring_reason), "%s",
			   strerror(-err));
}

static double probe_clock_ns(void)
{
	enum {
		READS = 10000
	};
	uint64_t first = bench_ticks(), last = first;

	for (int i = 0; i < READS; i++)
		last = bench_ticks();
	return bench_ticks_ns(last - first) / READS;
}

void bench_machine_probe(struct bench_machine *m, const struct bench_options *options)
{
	memset(m, 0, sizeof(*m));
	m->version = bench_version();
	m->revision = bench_revision();
	m->build_flags = RPBENCH_BUILD_FLAGS;
	probe_compiler(m);
	probe_kernel(m);
	m->cpu_count = bench_cpu_count();
	m->cpu_quota = probe_quota();
	m->pages = probe_pages();
	probe_uring(m);
	m->relation =
		bench_cpu_relation(options->cpu[BENCH_PARENT], options->cpu[BENCH_PEER]);
	m->clock = bench_clock_text();
	m->clock_ns = probe_clock_ns();
}
