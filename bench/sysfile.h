/* SPDX-License-Identifier: MIT */
/* Small text files under /sys and /proc. */
#ifndef BENCH_SYSFILE_H
#define BENCH_SYSFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first line of a file, without its newline. 0 or negative errno. */
int bench_sysfile_line(const char *path, char *line, size_t bytes);

/*
 * The value after `key` and a colon, as in "model name : x" or "MemFree: 3 kB",
 * from the first line of the file that begins with the key.
 */
int bench_sysfile_value(const char *path, const char *key, char *value, size_t bytes);

/* Whether a kernel list such as "0-3,8" names `number`. */
bool bench_list_has(const char *list, int number);

/* MemAvailable, lowered to what a memory cgroup leaves; UINT64_MAX unknown. */
uint64_t bench_memory_available(void);

#endif
