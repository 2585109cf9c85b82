/* SPDX-License-Identifier: MIT */
#include "region/node.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

/* Nodes that a mask holds; the kernel's own limit is 1024. */
#define NODES_MAX 1024
#define WORD_BITS (sizeof(unsigned long) * CHAR_BIT)

const char *rpi_node_root = "/sys/devices/system/node";

/* Whether a list such as "0-3,8" names the CPU. */
static bool list_has(const char *list, int cpu)
{
	while (*list) {
		char *end;
		long low = strtol(list, &end, 10);
		long high = low;

		if (end == list)
			return false;
		if (*end == '-') {
			list = end + 1;
			high = strtol(list, &end, 10);
		}
		if (cpu >= low && cpu <= high)
			return true;
		list = *end == ',' ? end + 1 : "";
	}
	return false;
}

static bool node_has(int node, int cpu)
{
	char path[PATH_MAX];
	char list[4096] = "";
	FILE *file;

	if (rpi_format(path, sizeof(path), "%s/node%d/cpulist", rpi_node_root, node) >=
	    sizeof(path) - 1)
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(list, sizeof(list), file))
		list[0] = '\0';
	fclose(file);
	return list_has(list, cpu);
}

/* The number in a directory's name, as in "node12"; -1: no node. */
static int node_named(const char *name)
{
	char *end;
	long node;

	if (strncmp(name, "node", 4) || name[4] < '0' || name[4] > '9')
		return -1;
	node = strtol(name + 4, &end, 10);
	return *end || node >= NODES_MAX ? -1 : (int)node;
}

int rpi_node_of_cpu(int cpu)
{
	DIR *dir = cpu < 0 ? NULL : opendir(rpi_node_root);
	struct dirent *entry;
	unsigned count = 0;
	int found = -1;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		int node = node_named(entry->d_name);

		if (node < 0)
			continue;
		count++;
		if (found < 0 && node_has(node, cpu))
			found = node;
	}
	closedir(dir);
	return count > 1 ? found : -1;
}

int rpi_node_prefer(void *at, size_t bytes, int node)
{
	unsigned long mask[NODES_MAX / WORD_BITS] = { 0 };

	if (node < 0 || node >= NODES_MAX)
		return 0;
	mask[(size_t)node / WORD_BITS] = 1UL << (size_t)node % WORD_BITS;
	/* One bit more than the mask has: the kernel counts like that. */
	if (syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, mask, NODES_MAX + 1UL,
		    MPOL_MF_MOVE))
		return -errno;
	return 0;
}
