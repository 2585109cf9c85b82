/* SPDX-License-Identifier: MIT */
#include "region/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <hugetlbfs.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/testing.h"

#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif

#define PAGE_SIZES_MAX 16

/* The largest up to RPI_HUGE_PAGE, be it the machine's default or not: a larger one
 * wastes more than it saves on what is mapped here. */
static size_t hugetlb_page_bytes(void)
{
	long sizes[PAGE_SIZES_MAX];
	int count = gethugepagesizes(sizes, PAGE_SIZES_MAX);
	size_t best = 0;
	int i;

	for (i = 0; i < count; i++)
		if ((size_t)sizes[i] <= RPI_HUGE_PAGE && (size_t)sizes[i] > best)
			best = (size_t)sizes[i];
	return best;
}

/*
 * A file of a mounted hugetlbfs that never has a name, not even for a moment in
 * which the process could be killed. libhugetlbfs knows the mounts; its own
 * hugetlbfs_unlinked_fd() makes a named file first, leaves the descriptor open over
 * exec(), and prints when it fails.
 */
static int open_hugetlbfs(const char *name, size_t page_bytes)
{
	const char *path = hugetlbfs_find_path_for_size((long)page_bytes);

	(void)name;
	if (!path)
		return -ENOENT;
	return rpi_descriptor_above_standard(
		open(path, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

static int open_huge_memfd(const char *name, size_t page_bytes)
{
	unsigned int shift = (unsigned int)__builtin_ctzll(page_bytes);

	return rpi_descriptor_above_standard(
		memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB |
					   shift << MFD_HUGE_SHIFT));
}

#define THP_DIR "/sys/kernel/mm/transparent_hugepage/"

/* Whether the list of choices in a file has `choice` as the one that is set. */
static bool is_set(const char *path, const char *choice)
{
	char text[128] = "";
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return strstr(text, choice) != NULL;
}

/* Transparent huge pages of shared memory are a policy of the machine: one for all
 * sizes and, on newer kernels, one for each, which counts unless it says inherit. */
static size_t thp_page_bytes(void)
{
	static const char all[] = THP_DIR "shmem_enabled";
	static const char own[] = THP_DIR "hugepages-2048kB/shmem_enabled";
	bool yes;

	if (access(all, R_OK) || is_set(all, "[deny]"))
		return 0;
	if (is_set(own, "[always]") || is_set(own, "[within_size]") ||
	    is_set(own, "[advise]"))
		yes = true;
	else
		yes = !is_set(own, "[never]") && !is_set(all, "[never]");
	return yes ? RPI_HUGE_PAGE : 0;
}

static int open_memfd(const char *name, size_t page_bytes)
{
	int err = rpi_test_point("region.memfd");

	(void)page_bytes;
	if (err)
		return err;
	return rpi_descriptor_above_standard(
		memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

static size_t small_page_bytes(void)
{
	return RPI_SMALL_PAGE;
}

const struct rpi_page_source rpi_page_sources[] = {
	{ RP_PAGE_HUGETLB, false, hugetlb_page_bytes, open_hugetlbfs },
	{ RP_PAGE_HUGETLB, true, hugetlb_page_bytes, open_huge_memfd },
	{ RP_PAGE_THP, true, thp_page_bytes, open_memfd },
	{ RP_PAGE_4K, true, small_page_bytes, open_memfd },
};

const size_t rpi_page_source_count =
	sizeof(rpi_page_sources) / sizeof(rpi_page_sources[0]);
