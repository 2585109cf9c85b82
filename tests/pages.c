/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define POOL_2M	 "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define THP_DIR	 "/sys/kernel/mm/transparent_hugepage/"
#define SHMEM	 THP_DIR "shmem_enabled"
#define SHMEM_2M THP_DIR "hugepages-2048kB/shmem_enabled"

static bool file_says(const char *path, const char *word)
{
	char text[256] = "";
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return strstr(text, word) != NULL;
}

static long file_number(const char *path)
{
	char text[64] = "";
	FILE *file = fopen(path, "re");

	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return strtol(text, NULL, 10);
}

bool pages_in_pool(long count)
{
	return file_number(POOL_2M "free_hugepages") -
		       file_number(POOL_2M "resv_hugepages") +
		       file_number(POOL_2M "nr_overcommit_hugepages") >=
	       count;
}

static bool file_lets(const char *path)
{
	return file_says(path, "[always]") || file_says(path, "[within_size]") ||
	       file_says(path, "[advise]");
}

bool pages_thp_allowed(void)
{
	if (file_says(SHMEM, "[deny]") || file_says(SHMEM_2M, "[never]"))
		return false;
	return file_lets(SHMEM_2M) || file_lets(SHMEM) || file_says(SHMEM, "[force]");
}

bool pages_thp_forced(void)
{
	return file_says(SHMEM, "[force]");
}

/* Accesses that no sanitizer follows: its shadow has page faults of its own. */
__attribute__((no_sanitize_address, no_sanitize_thread, noinline)) static void
write_every_page(uint8_t *at, size_t bytes)
{
	for (size_t offset = 0; offset < bytes; offset += 4096)
		((volatile uint8_t *)at)[offset] = ((volatile uint8_t *)at)[offset];
}

long pages_faults_of_writing(uint8_t *at, size_t bytes)
{
	struct rusage before, after;

	/* The code and the stack are touched before it counts. */
	write_every_page(at, 1);
	getrusage(RUSAGE_SELF, &after);
	getrusage(RUSAGE_SELF, &before);
	write_every_page(at, bytes);
	getrusage(RUSAGE_SELF, &after);
	return after.ru_minflt - before.ru_minflt;
}
