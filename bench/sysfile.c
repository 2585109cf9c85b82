/* SPDX-License-Identifier: MIT */
#include "sysfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int bench_sysfile_line(const char *path, char *line, size_t bytes)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	if (!file)
		return -errno;
	if (fgets(line, (int)bytes, file))
		line[strcspn(line, "\n")] = '\0';
	else
		err = -ENODATA;
	fclose(file);
	return err;
}

int bench_sysfile_value(const char *path, const char *key, char *value, size_t bytes)
{
	FILE *file = fopen(path, "re");
	char line[512];
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && fgets(line, sizeof(line), file)) {
		const char *colon = strchr(line, ':');

		if (strncmp(line, key, strlen(key)) || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		rpi_format(value, bytes, "%s", colon + 1 + strspn(colon + 1, " \t"));
		err = 0;
	}
	fclose(file);
	return err;
}

bool bench_list_has(const char *list, int number)
{
	while (*list) {
		char *end;
		long low = strtol(list, &end, 10), high = low;

		if (end == list)
			return false;
		if (*end == '-') {
			list = end + 1;
			high = strtol(list, &end, 10);
		}
		if (number >= low && number <= high)
			return true;
		list = *end == ',' ? end + 1 : end;
		if (*end != ',')
			return false;
	}
	return false;
}

uint64_t bench_memory_available(void)
{
	uint64_t available = UINT64_MAX;
	char text[64], used[64];

	if (!bench_sysfile_value("/proc/meminfo", "MemAvailable", text, sizeof(text)))
		available = strtoull(text, NULL, 10) << 10;
	/* "max" reads as 0: no limit. */
	if (!bench_sysfile_line("/sys/fs/cgroup/memory.max", text, sizeof(text)) &&
	    !bench_sysfile_line("/sys/fs/cgroup/memory.current", used, sizeof(used))) {
		uint64_t limit = strtoull(text, NULL, 10);
		uint64_t current = strtoull(used, NULL, 10);
		uint64_t left = limit > current ? limit - current : 0;

		if (limit && left < available)
			available = left;
	}
	return available;
}
