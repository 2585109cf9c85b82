/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The largest mask that is tried; the kernel's own limit is 8192 today. */
#define CPUS_MAX (1u << 16)

static unsigned affinity_count(void)
{
	for (unsigned cpus = 1024; cpus <= CPUS_MAX; cpus *= 2) {
		size_t bytes = CPU_ALLOC_SIZE(cpus);
		cpu_set_t *set = CPU_ALLOC(cpus);
		int count = 0, ret;

		if (!set)
			break;
		ret = sched_getaffinity(0, bytes, set);
		if (!ret)
			count = CPU_COUNT_S(bytes, set);
		CPU_FREE(set);
		if (!ret && count > 0)
			return (unsigned)count;
		if (errno != EINVAL)
			break;
	}
	return UINT_MAX;
}

/* CPUs, rounded up; 0 for none. */
static unsigned quota_cpus(long long quota, long long period)
{
	long long cpus;

	if (quota <= 0 || period <= 0)
		return 0;
	cpus = (quota - 1) / period + 1;
	return cpus > INT_MAX ? 0 : (unsigned)cpus;
}

static bool read_line(const char *dir, const char *name, char *line, size_t bytes)
{
	char path[PATH_MAX];
	FILE *file;
	bool ok;

	if (rpi_format(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path) - 1)
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	ok = fgets(line, (int)bytes, file);
	fclose(file);
	return ok;
}

/* The quota set in one cgroup directory of either version. */
static unsigned quota_of_dir(const char *dir, bool v2)
{
	char line[128];
	long long quota, period;

	if (v2) {
		if (!read_line(dir, "cpu.max", line, sizeof(line)) ||
		    sscanf(line, "%lld %lld", &quota, &period) != 2)
			return 0;
		return quota_cpus(quota, period);
	}
	if (!read_line(dir, "cpu.cfs_quota_us", line, sizeof(line)))
		return 0;
	quota = strtoll(line, NULL, 10);
	if (!read_line(dir, "cpu.cfs_period_us", line, sizeof(line)))
		return 0;
	return quota_cpus(quota, strtoll(line, NULL, 10));
}

/* The tightest quota from `path` below the mount up to the mount itself. */
static unsigned quota_of_chain(const char *mount, const char *path, bool v2)
{
	char dir[PATH_MAX];
	size_t mount_bytes = strlen(mount);
	unsigned least = 0, here;
	char *slash;

	if (rpi_format(dir, sizeof(dir), "%s%s", mount, path) >= sizeof(dir) - 1)
		return 0;
	for (;;) {
		here = quota_of_dir(dir, v2);
		if (here && (!least || here < least))
			least = here;
		slash = strrchr(dir, '/');
		if (!slash || strlen(dir) <= mount_bytes)
			return least;
		if ((size_t)(slash - dir) < mount_bytes)
			slash = dir + mount_bytes;
		*slash = 0;
	}
}

/* Is `word` one of the comma-separated words of `list`? */
static bool list_has(const char *list, const char *word)
{
	size_t bytes = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, word, bytes) && (!at[bytes] || at[bytes] == ','))
			return true;
	}
	return false;
}

/* Our cgroup: lines of "id:controllers:path"; version 2 has no controllers. */
static bool own_path(const char *root, bool v2, char *path_out, size_t bytes)
{
	char file_path[PATH_MAX], line[PATH_MAX + 128];
	bool found = false;
	FILE *file;

	rpi_format(file_path, sizeof(file_path), "%s/proc/self/cgroup", root);
	file = fopen(file_path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = 0;
		list++;
		path[strcspn(path, "\n")] = 0;
		found = v2 ? !*list : list_has(list, "cpu");
		if (found)
			rpi_format(path_out, bytes, "%s", path);
	}
	fclose(file);
	return found;
}

/*
 * One line of mountinfo: "... root mount-point options [tags] - type source
 * super-options". In a container without its own cgroup namespace the mount's
 * root is a directory that our path begins with. Escaped blanks are left alone:
 * such a mount is not found and does not limit.
 */
static unsigned quota_of_mount(const char *root, char *line, bool v2, const char *path)
{
	char within[PATH_MAX], point[PATH_MAX], type[64], super[1024], mount[PATH_MAX];
	char *tail = strstr(line, " - ");
	size_t bytes;

	if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", within, point) != 2 ||
	    sscanf(tail + 3, "%63s %*s %1023s", type, super) != 2)
		return 0;
	if (strcmp(type, v2 ? "cgroup2" : "cgroup") != 0 ||
	    (!v2 && !list_has(super, "cpu")))
		return 0;
	if (rpi_format(mount, sizeof(mount), "%s%s", root, point) >= sizeof(mount) - 1)
		return 0;
	bytes = strcmp(within, "/") != 0 ? strlen(within) : 0;
	if (strncmp(path, within, bytes) != 0 ||
	    (bytes && path[bytes] && path[bytes] != '/'))
		path = "";
	else
		path += bytes;
	return quota_of_chain(mount, strcmp(path, "/") != 0 ? path : "", v2);
}

static unsigned quota_of_version(const char *root, bool v2)
{
	char file_path[PATH_MAX], path[PATH_MAX], *line = NULL;
	size_t line_bytes = 0;
	unsigned quota = 0;
	FILE *file;

	if (!own_path(root, v2, path, sizeof(path)))
		return 0;
	rpi_format(file_path, sizeof(file_path), "%s/proc/self/mountinfo", root);
	file = fopen(file_path, "re");
	if (!file)
		return 0;
	while (!quota && getline(&line, &line_bytes, file) > 0)
		quota = quota_of_mount(root, line, v2, path);
	free(line);
	fclose(file);
	return quota;
}

unsigned rpi_cpu_quota_under(const char *root)
{
	unsigned one = quota_of_version(root, false);
	unsigned two = quota_of_version(root, true);

	if (!one || (two && two < one))
		return two;
	return one;
}

/* How many of `cpus` are distinct and outside this thread's mask. */
static unsigned count_outside(const int *cpus, unsigned count)
{
	unsigned outside = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (unsigned i = 0; i < count; i++) {
		if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE || CPU_ISSET(cpus[i], &set))
			continue;
		CPU_SET(cpus[i], &set);
		outside++;
	}
	return outside;
}

unsigned rpi_cpu_allowed(void)
{
	return rpi_cpu_allowed_with(NULL, 0);
}

unsigned rpi_cpu_allowed_with(const int *pinned, unsigned count)
{
	unsigned cpus = affinity_count();
	unsigned quota = rpi_cpu_quota_under("");

	if (cpus != UINT_MAX)
		cpus += count_outside(pinned, count);
	if (quota && quota < cpus)
		cpus = quota;
	return cpus && cpus != UINT_MAX ? cpus : 1;
}
