/* SPDX-License-Identifier: MIT */
#include "trace/pmu.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/testing.h"

const char *const rpi_pmu_columns[RPI_PMU_EVENTS] = {
#define COLUMN(id, type, config, column, set, kernel) column,
	RPI_PMU_EVENT_LIST(COLUMN)
#undef COLUMN
};

static const struct {
	uint32_t type;
	uint64_t config;
	uint32_t set;
	bool kernel;
} events[] = {
#define EVENT(id, type, config, column, set, kernel) \
	{ PERF_TYPE_##type, PERF_COUNT_##config, set, kernel },
	RPI_PMU_EVENT_LIST(EVENT)
#undef EVENT
};

/* Events that are on and off together. */
struct set {
	int fds[RPI_PMU_EVENTS];       /* in the order of opening; the first one leads */
	uint8_t which[RPI_PMU_EVENTS]; /* enum rpi_pmu_event of each */
	uint32_t count;		       /* 0: this machine has none of them */
	uint64_t enabled_ns, running_ns; /* until now */
};

/* Those of one thread. */
struct group {
	struct set sets[RPI_PMU_SETS];
	uint32_t count; /* 0: it has none */
	bool user_only;
	int err; /* of the first that was refused */
};

struct rpi_pmu {
	uint32_t thread_count;
	struct group groups[];
};

/* What the kernel writes for a set. */
struct reading {
	uint64_t count, enabled_ns, running_ns;
	uint64_t values[RPI_PMU_EVENTS];
};

static int open_event(uint32_t which, pid_t tid, int leader, bool user_only)
{
	struct perf_event_attr attr = {
		.type = events[which].type,
		.size = sizeof(attr),
		.config = events[which].config,
		.disabled = leader < 0,
		.exclude_kernel = user_only,
		.exclude_hv = 1,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int err = rpi_test_point("pmu.open");
	long fd;

	if (err)
		return err;
	fd = syscall(SYS_perf_event_open, &attr, tid, -1, leader, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

static void close_group(struct group *group)
{
	uint32_t i;

	for (i = 0; i < RPI_PMU_SETS; i++)
		while (group->sets[i].count)
			close(group->sets[i].fds[--group->sets[i].count]);
	group->count = 0;
}

/* All that there are, with what the kernel does or without. */
static void open_events(struct group *group, pid_t tid, bool user_only)
{
	uint32_t i;

	group->user_only = user_only;
	group->err = 0;
	for (i = 0; i < RPI_PMU_EVENTS; i++) {
		struct set *set = &group->sets[events[i].set];
		int leader = set->count ? set->fds[0] : -1, fd;

		/* Without the kernel's part it would always be 0. */
		if (user_only && events[i].kernel)
			continue;
		fd = open_event(i, tid, leader, user_only);
		if (fd < 0) {
			if (!group->err)
				group->err = -fd;
			continue;
		}
		set->which[set->count] = (uint8_t)i;
		set->fds[set->count++] = fd;
		group->count++;
	}
}

static void open_group(struct group *group, pid_t tid)
{
	open_events(group, tid, false);
	if (!group->count && (group->err == EACCES || group->err == EPERM))
		open_events(group, tid, true);
}

struct rpi_pmu *rpi_pmu_create(uint32_t threads)
{
	struct rpi_pmu *pmu = calloc(1, sizeof(*pmu) + threads * sizeof(pmu->groups[0]));

	if (pmu)
		pmu->thread_count = threads;
	return pmu;
}

void rpi_pmu_destroy(struct rpi_pmu *pmu)
{
	uint32_t i;

	for (i = 0; pmu && i < pmu->thread_count; i++)
		close_group(&pmu->groups[i]);
	free(pmu);
}

void rpi_pmu_add(struct rpi_pmu *pmu, uint32_t thread, pid_t tid)
{
	if (!pmu->groups[thread].count)
		open_group(&pmu->groups[thread], tid);
}

/* Turn a thread's sets on or off, from nothing on. */
static void turn(const struct group *group, unsigned long what)
{
	uint32_t i;

	for (i = 0; i < RPI_PMU_SETS; i++) {
		const struct set *set = &group->sets[i];

		if (!set->count)
			continue;
		if (what == PERF_EVENT_IOC_ENABLE)
			ioctl(set->fds[0], PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
		/* The others go with it: turned off one by one, and on again, some stay
		 * at 0. */
		ioctl(set->fds[0], what, 0);
	}
}

void rpi_pmu_start(struct rpi_pmu *pmu)
{
	uint32_t i = pmu->thread_count;

	/* The caller's own last. */
	while (i-- > 0)
		turn(&pmu->groups[i], PERF_EVENT_IOC_ENABLE);
}

/* What a set counted; false when it never came to count. */
static bool read_set(struct set *set, struct reading *now)
{
	uint64_t enabled, running;
	ssize_t got = read(set->fds[0], now, sizeof(*now));
	uint32_t i;

	if (got < (ssize_t)(3 * sizeof(uint64_t)) || now->count != set->count)
		return false;
	enabled = now->enabled_ns - set->enabled_ns;
	running = now->running_ns - set->running_ns;
	set->enabled_ns = now->enabled_ns;
	set->running_ns = now->running_ns;
	now->enabled_ns = enabled;
	now->running_ns = running;
	for (i = 0; i < set->count && running && running < enabled; i++)
		now->values[i] = (uint64_t)((double)now->values[i] * (double)enabled /
					    (double)running);
	return running || !enabled;
}

/* Add what a thread counted. */
static void add(struct group *group, bool own, struct rpi_pmu_counts *out)
{
	struct reading now;
	uint32_t has = 0, i, k;

	for (i = 0; i < RPI_PMU_SETS; i++) {
		struct set *set = &group->sets[i];

		if (!set->count)
			continue;
		now.enabled_ns = now.running_ns = 0;
		if (read_set(set, &now))
			for (k = 0; k < set->count; k++) {
				out->count[set->which[k]] += now.values[k];
				has |= 1u << set->which[k];
			}
		if (own && now.enabled_ns > out->enabled_ns)
			out->enabled_ns = now.enabled_ns;
		if (own && now.running_ns < out->running_ns)
			out->running_ns = now.running_ns;
	}
	out->has &= has;
	out->counted++;
	out->user_only |= group->user_only;
}

void rpi_pmu_stop(struct rpi_pmu *pmu, struct rpi_pmu_counts *out)
{
	uint32_t i;

	for (i = 0; i < pmu->thread_count; i++)
		turn(&pmu->groups[i], PERF_EVENT_IOC_DISABLE);
	memset(out, 0, sizeof(*out));
	out->has = (1u << RPI_PMU_EVENTS) - 1;
	out->running_ns = UINT64_MAX;
	out->threads = pmu->thread_count;
	for (i = 0; i < pmu->thread_count; i++) {
		if (pmu->groups[i].count)
			add(&pmu->groups[i], i == 0, out);
		else if (!out->err)
			out->err = pmu->groups[i].err;
	}
	if (!out->counted)
		out->has = 0;
	/* Sets are turned on one after the other. */
	if (out->running_ns > out->enabled_ns)
		out->running_ns = out->enabled_ns;
}

int rpi_pmu_probe(void)
{
	struct group group = { 0 };
	int err;

	open_group(&group, 0);
	err = group.count ? 0 : group.err;
	close_group(&group);
	return err;
}
