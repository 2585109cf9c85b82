/* SPDX-License-Identifier: MIT */
/* Regions and the address span that they lie in. */
#include "region/region.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ringplane/error.h>

#include "base/testing.h"
#include "region/span.h"

/* Ends a hang; nothing here takes a hundredth of it. */
#define WATCHDOG_S 120

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define MIB	   ((size_t)1 << 20)
#define GIB	   ((size_t)1 << 30)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* What a child process ends with. */
#define CHILD_OK    0
#define CHILD_BAD   1
#define CHILD_SKIPS 77

/* In a child: name the line and end it there. */
#define EXPECT(cond)                                                              \
	do {                                                                      \
		if (!(cond)) {                                                    \
			fprintf(stderr, "child, line %d: %s\n", __LINE__, #cond); \
			return CHILD_BAD;                                         \
		}                                                                 \
	} while (0)

static int in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		alarm(WATCHDOG_S);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void assert_child(int (*fn)(void), const char *missing)
{
	int code = in_child(fn);

	if (code == CHILD_SKIPS) {
		print_message("skipped: %s\n", missing);
		skip();
	}
	assert_int_equal(code, CHILD_OK);
}

static int fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = -1; /* the one of dir */

	if (!dir)
		return -1;
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Shared mappings of this process: all regions are, and little else is. */
static int shared_count(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	char perms[8];
	int count = 0;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		count += sscanf(line, "%*x-%*x %7s", perms) == 1 && perms[3] == 's';
	fclose(file);
	return count;
}

/* The line of /proc/self/maps that holds addr. */
static bool map_line(const void *addr, char *line, size_t bytes)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long low, high;
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, (int)bytes, file))
		found = sscanf(line, "%lx-%lx", &low, &high) == 2 &&
			(uintptr_t)addr >= low && (uintptr_t)addr < high;
	fclose(file);
	return found;
}

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

#define POOL_2M	 "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define THP_DIR	 "/sys/kernel/mm/transparent_hugepage/"
#define SHMEM	 THP_DIR "shmem_enabled"
#define SHMEM_2M THP_DIR "hugepages-2048kB/shmem_enabled"

/* Asked of the machine, not of the code under test. */
static bool machine_has_pool(long pages)
{
	return file_number(POOL_2M "free_hugepages") -
		       file_number(POOL_2M "resv_hugepages") +
		       file_number(POOL_2M "nr_overcommit_hugepages") >=
	       pages;
}

static bool file_lets(const char *path)
{
	return file_says(path, "[always]") || file_says(path, "[within_size]") ||
	       file_says(path, "[advise]");
}

static bool machine_has_thp(void)
{
	if (file_says(SHMEM, "[deny]") || file_says(SHMEM_2M, "[never]"))
		return false;
	return file_lets(SHMEM_2M) || file_lets(SHMEM) || file_says(SHMEM, "[force]");
}

/* Accesses that no sanitizer follows: its shadow has page faults of its own. */
__attribute__((no_sanitize_address, no_sanitize_thread, noinline)) static void
write_every_page(uint8_t *at, size_t bytes)
{
	for (size_t offset = 0; offset < bytes; offset += 4096)
		((volatile uint8_t *)at)[offset] = ((volatile uint8_t *)at)[offset];
}

static long faults_of_writing(uint8_t *at, size_t bytes)
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

/* From now on this process's call `nr` fails with err; arg < 0: whatever its
 * arguments, else when that argument is value. False: not to be had here. */
static bool deny(int nr, int arg, uint32_t value, int err)
{
	uint32_t at = (uint32_t)offsetof(struct seccomp_data, args) +
		      8 * (uint32_t)(arg < 0 ? 0 : arg);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = COUNT(code), .filter = code };

	if (arg < 0)
		code[3] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

/* First of all: it needs a process that has not reserved its span yet. */
static int limited_to(size_t more_bytes)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	struct rlimit limit;

	if (!file || fscanf(file, "%lu", &pages) != 1)
		return CHILD_SKIPS;
	fclose(file);
	limit.rlim_cur = limit.rlim_max = pages * 4096 + more_bytes;
	return setrlimit(RLIMIT_AS, &limit) ? CHILD_SKIPS : CHILD_OK;
}

static int three_gib_of_addresses(void)
{
	struct rpi_region region;

	if (SANITIZED || limited_to(3 * GIB))
		return CHILD_SKIPS;
	EXPECT(!rpi_region_create(&region, "t", 5 * MIB, RP_PAGES_AUTO));
	memset(region.base, 1, 5 * MIB);
	rpi_region_destroy(&region);
	return CHILD_OK;
}

static int half_a_gib_of_addresses(void)
{
	struct rpi_region region;

	if (SANITIZED || limited_to(GIB / 2))
		return CHILD_SKIPS;
	EXPECT(rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO) == -ENOMEM);
	EXPECT(strstr(rp_last_error(), "ulimit -v"));
	EXPECT(shared_count() == 0 && !region.base && region.fd == -1);
	return CHILD_OK;
}

static void a_limited_address_space_gets_a_smaller_span(void **state)
{
	(void)state;
	assert_child(three_gib_of_addresses, "RLIMIT_AS does not go with a sanitizer");
}

static void no_address_space_is_an_error_that_names_the_limit(void **state)
{
	(void)state;
	assert_child(half_a_gib_of_addresses, "RLIMIT_AS does not go with a sanitizer");
}

static void every_byte_from_first_to_last_is_there_and_zero(void **state)
{
	static const size_t sizes[] = { 1,   4095,	  4096,	   4097,	MIB - 1,
					MIB, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB };
	static const enum rp_page_policy policies[] = { RP_PAGES_AUTO, RP_PAGES_NEVER };
	struct rpi_region odd;

	(void)state;
	/* So that no alignment comes by chance. */
	assert_int_equal(rpi_region_create(&odd, "odd", 1, RP_PAGES_NEVER), 0);
	for (size_t i = 0; i < COUNT(sizes) * COUNT(policies); i++) {
		size_t bytes = sizes[i / COUNT(policies)];
		struct rpi_region region;
		uint8_t *at;

		assert_int_equal(rpi_region_create(&region, "t", bytes,
						   policies[i % COUNT(policies)]),
				 0);
		at = region.base;
		assert_true(region.bytes >= bytes);
		assert_true(region.bytes - bytes < region.page_bytes);
		assert_int_equal(region.bytes % region.page_bytes, 0);
		assert_int_equal((uintptr_t)at % region.page_bytes, 0);
		if (bytes >= MIB)
			assert_int_equal((uintptr_t)at % (2 * MIB), 0);
		assert_int_equal(region.populated_bytes, region.bytes);
		assert_true(region.populate_ns > 0);
		for (size_t n = 0; n < region.bytes; n++)
			if (at[n])
				fail_msg("byte %zu of %zu is %u", n, bytes, at[n]);
		at[0] = at[bytes - 1] = at[region.bytes - 1] = 0xa5;
		rpi_region_destroy(&region);
	}
	rpi_region_destroy(&odd);
}

static void sizes_that_no_region_can_have_are_refused(void **state)
{
	static const struct {
		size_t bytes;
		int want;
	} cases[] = {
		{ 0, -EINVAL },
		{ SIZE_MAX, -EINVAL },
		{ SIZE_MAX - 4094, -EINVAL },
		{ SIZE_MAX / 2 + 1, -EINVAL },
		{ ((size_t)1 << 46) + 1, -EINVAL },
		{ (size_t)1 << 46, -ENOMEM }, /* more than the span */
	};
	int fds = fd_count();
	int shared = shared_count();

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (int policy = RP_PAGES_AUTO; policy <= RP_PAGES_NEVER; policy++) {
			struct rpi_region region;
			char want[32];

			assert_int_equal(rpi_region_create(&region, "too-much",
							   cases[i].bytes,
							   (enum rp_page_policy)policy),
					 cases[i].want);
			assert_non_null(strstr(rp_last_error(), "'too-much'"));
			snprintf(want, sizeof(want), "%zu", cases[i].bytes);
			assert_non_null(strstr(rp_last_error(), want));
			assert_null(region.base);
			rpi_region_destroy(&region);
		}
	}
	assert_int_equal(fd_count(), fds);
	assert_int_equal(shared_count(), shared);
}

static struct rpi_region common;

static int writes_back(void)
{
	_Atomic uint32_t *words = common.base;
	size_t last = common.bytes / sizeof(*words) - 1;

	EXPECT(words[0] == 1 && words[last] == 2);
	words[0] = 3;
	words[last] = 4;
	while (words[1] != 5)
		usleep(100);
	return CHILD_OK;
}

static void parent_and_child_share_one_address_both_ways(void **state)
{
	_Atomic uint32_t *words;
	size_t last;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(rpi_region_create(&common, "t", 3 * MIB, RP_PAGES_AUTO), 0);
	words = common.base;
	last = common.bytes / sizeof(*words) - 1;
	words[0] = 1;
	words[last] = 2;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(WATCHDOG_S);
		_exit(writes_back());
	}
	while (words[0] != 3 || words[last] != 4) {
		if (waitpid(pid, &status, WNOHANG))
			fail_msg("the child ended early");
		usleep(100);
	}
	words[1] = 5; /* written after the fork, seen there */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rpi_region_destroy(&common);
}

static int takes_its_own(void)
{
	struct rpi_region first, second;

	/* An address taken after the fork is free here as well. */
	EXPECT(!rpi_region_create(&first, "t", 2 * MIB, RP_PAGES_AUTO));
	EXPECT(first.base != common.base);
	memset(first.base, 0xff, first.bytes);
	EXPECT(!rpi_region_create(&second, "t", 4096, RP_PAGES_AUTO));
	rpi_region_destroy(&first);
	rpi_region_destroy(&common);
	return CHILD_OK;
}

static void what_a_child_makes_and_ends_stays_its_own(void **state)
{
	(void)state;
	assert_int_equal(rpi_region_create(&common, "t", 2 * MIB, RP_PAGES_AUTO), 0);
	memset(common.base, 0x11, common.bytes);
	assert_child(takes_its_own, "");
	for (size_t i = 0; i < common.bytes; i += 4096)
		assert_int_equal(((uint8_t *)common.base)[i], 0x11);
	rpi_region_destroy(&common);
}

static bool is_memfd(const struct rpi_region *region)
{
	char line[512];

	return map_line(region->base, line, sizeof(line)) && strstr(line, "/memfd:");
}

static void a_region_can_neither_shrink_nor_grow(void **state)
{
	struct rpi_region region;

	(void)state;
	assert_int_equal(rpi_region_create(&region, "t", 2 * MIB, RP_PAGES_AUTO), 0);
	if (!is_memfd(&region)) {
		rpi_region_destroy(&region);
		print_message("skipped: a file of a hugetlbfs mount has no seals\n");
		skip();
	}
	assert_int_equal(ftruncate(region.fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(region.fd, (off_t)(region.bytes + 2 * MIB)), -1);
	assert_int_equal(errno, EPERM);
	/* Nor may anybody else seal it against us. */
	assert_int_equal(fcntl(region.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(region.fd, F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	rpi_region_destroy(&region);
}

static void every_mapping_is_of_a_file_without_a_name(void **state)
{
	static const size_t sizes[] = { 1, MIB, 4 * MIB };
	struct rpi_region regions[2 * COUNT(sizes)];

	(void)state;
	for (size_t i = 0; i < COUNT(regions); i++)
		assert_int_equal(
			rpi_region_create(&regions[i], "t", sizes[i % COUNT(sizes)],
					  i % 2 ? RP_PAGES_NEVER : RP_PAGES_AUTO),
			0);
	for (size_t i = 0; i < COUNT(regions); i++) {
		char first[512], last[512];

		assert_true(map_line(regions[i].base, first, sizeof(first)));
		assert_true(map_line((uint8_t *)regions[i].base + regions[i].bytes - 1,
				     last, sizeof(last)));
		assert_string_equal(first, last);
		assert_non_null(strstr(first, " rw-s "));
		assert_non_null(strstr(first, " (deleted)\n"));
		assert_null(strstr(first, "/dev/shm"));
		assert_true(regions[i].kind == RP_PAGE_HUGETLB ||
			    strstr(first, "/memfd:t"));
		rpi_region_destroy(&regions[i]);
	}
}

static void never_means_small_pages(void **state)
{
	struct rp_region_info info;
	struct rpi_region region;

	(void)state;
	if (file_says(SHMEM, "[force]")) {
		print_message("skipped: this machine forces huge pages on all shmem\n");
		skip();
	}
	assert_int_equal(rpi_region_create(&region, "small", 4 * MIB, RP_PAGES_NEVER), 0);
	assert_int_equal(rpi_region_info(&region, &info), 0);
	assert_string_equal(info.name, "small");
	assert_ptr_equal(info.base, region.base);
	assert_int_equal(info.bytes, 4 * MIB);
	assert_int_equal(info.kind, RP_PAGE_4K);
	assert_int_equal(info.page_bytes, 4096);
	assert_int_equal(info.huge_bytes, 0);
	assert_int_equal(info.populated_bytes, 4 * MIB);
	assert_true(info.populate_ns == region.populate_ns);
	rpi_region_destroy(&region);
}

static void require_gets_huge_pages_where_there_are_some(void **state)
{
	struct rp_region_info info;
	struct rpi_region region;
	bool pool = machine_has_pool(2);
	int err;

	(void)state;
	if (!pool && !machine_has_thp()) {
		print_message("skipped: no huge page pool, no huge pages of shmem\n");
		skip();
	}
	err = rpi_region_create(&region, "t", 3 * MIB, RP_PAGES_REQUIRE);
	if (err && !pool) {
		print_message("skipped: the kernel had no huge page to give\n");
		skip();
	}
	assert_int_equal(err, 0);
	assert_int_equal(rpi_region_info(&region, &info), 0);
	assert_int_equal(region.bytes, 4 * MIB);
	assert_int_equal(info.huge_bytes, 4 * MIB);
	assert_int_equal(info.kind, pool ? RP_PAGE_HUGETLB : RP_PAGE_THP);
	memset(region.base, 0xa5, region.bytes);
	assert_int_equal(rpi_region_populate(&region, 5, 3 * MIB), 0);
	assert_int_equal(faults_of_writing(region.base, region.bytes), 0);
	rpi_region_destroy(&region);
}

static void require_is_refused_where_there_are_none(void **state)
{
	static const size_t sizes[] = { 1, 2 * MIB, 3 * MIB };
	int fds = fd_count();
	int shared = shared_count();

	(void)state;
	if (machine_has_pool(1) || machine_has_thp()) {
		print_message("skipped: this machine has huge pages\n");
		skip();
	}
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct rpi_region region;

		assert_int_equal(
			rpi_region_create(&region, "t", sizes[i], RP_PAGES_REQUIRE),
			-ENOMEM);
		assert_non_null(strstr(rp_last_error(), "vm.nr_hugepages"));
		assert_non_null(strstr(rp_last_error(), "shmem_enabled"));
	}
	assert_int_equal(fd_count(), fds);
	assert_int_equal(shared_count(), shared);
}

static int unpopulated_child(void)
{
	EXPECT(faults_of_writing(common.base, common.bytes) > 0);
	return CHILD_OK;
}

static int populated_child(void)
{
	EXPECT(!rpi_region_populate(&common, 0, common.bytes));
	EXPECT(faults_of_writing(common.base, common.bytes) == 0);
	return CHILD_OK;
}

static int half_populated_child(void)
{
	uint8_t *at = common.base;

	/* Parts of pages count as whole ones. */
	EXPECT(!rpi_region_populate(&common, MIB + 1, MIB - 1));
	EXPECT(faults_of_writing(at + MIB, MIB) == 0);
	EXPECT(faults_of_writing(at + 2 * MIB, MIB) > 0);
	return CHILD_OK;
}

static void a_populated_page_costs_no_fault(void **state)
{
	(void)state;
	assert_int_equal(rpi_region_create(&common, "t", 4 * MIB, RP_PAGES_NEVER), 0);
	assert_int_equal(faults_of_writing(common.base, common.bytes), 0);
	/* A child has no page tables for it: that shows the count can count. */
	assert_child(unpopulated_child, "");
	assert_child(populated_child, "");
	assert_child(half_populated_child, "");
	rpi_region_destroy(&common);
	assert_int_equal(rpi_region_create(&common, "t", 4 * MIB, RP_PAGES_AUTO), 0);
	assert_int_equal(faults_of_writing(common.base, common.bytes), 0);
	assert_child(populated_child, "");
	rpi_region_destroy(&common);
}

static uint8_t pattern(size_t n)
{
	return (uint8_t)(n * 131 + (n >> 12));
}

static bool holds_pattern(const struct rpi_region *region)
{
	const uint8_t *at = region->base;

	for (size_t n = 0; n < region->bytes; n++)
		if (at[n] != pattern(n))
			return false;
	return true;
}

static void fill_pattern(struct rpi_region *region)
{
	for (size_t n = 0; n < region->bytes; n++)
		((uint8_t *)region->base)[n] = pattern(n);
}

static void populate_keeps_what_is_there(void **state)
{
	static const struct {
		size_t offset, bytes;
	} parts[] = {
		{ 0, 2 * MIB }, { 0, 0 },	    { 2 * MIB, 0 }, { 1, 1 },
		{ 4095, 2 },	{ 2 * MIB - 1, 1 }, { 0, 4097 },    { 4096, 8192 }
	};
	struct rpi_region region;

	(void)state;
	assert_int_equal(rpi_region_create(&region, "t", 2 * MIB, RP_PAGES_AUTO), 0);
	fill_pattern(&region);
	for (size_t i = 0; i < COUNT(parts); i++) {
		assert_int_equal(
			rpi_region_populate(&region, parts[i].offset, parts[i].bytes), 0);
		assert_true(holds_pattern(&region));
	}
	rpi_region_destroy(&region);
}

static void populate_outside_is_refused(void **state)
{
	static const struct {
		size_t offset, bytes;
	} parts[] = {
		{ 8193, 0 }, { 8192, 1 }, { 1, 8192 }, { 1, SIZE_MAX }, { SIZE_MAX, 2 }
	};
	struct rpi_region region;

	(void)state;
	assert_int_equal(rpi_region_create(&region, "t", 8192, RP_PAGES_NEVER), 0);
	for (size_t i = 0; i < COUNT(parts); i++)
		assert_int_equal(
			rpi_region_populate(&region, parts[i].offset, parts[i].bytes),
			-ERANGE);
	rpi_region_destroy(&region);
}

/* As on a kernel before 5.14. */
static int old_kernel(void)
{
	struct rpi_region region;

	if (!deny(__NR_madvise, 2, MADV_POPULATE_WRITE, EINVAL))
		return CHILD_SKIPS;
	EXPECT(!rpi_region_create(&region, "t", 4 * MIB, RP_PAGES_AUTO));
	EXPECT(faults_of_writing(region.base, region.bytes) == 0);
	rpi_region_destroy(&region);
	EXPECT(!rpi_region_populate(&common, 0, common.bytes));
	EXPECT(holds_pattern(&common));
	EXPECT(faults_of_writing(common.base, common.bytes) == 0);
	return CHILD_OK;
}

static int old_kernel_without_the_huge_pages(void)
{
	if (!deny(__NR_madvise, 2, MADV_POPULATE_WRITE, EINVAL))
		return CHILD_SKIPS;
	/* What a region says of itself whose huge pages did not come. */
	common.kind = RP_PAGE_THP;
	common.page_bytes = 2 * MIB;
	EXPECT(!rpi_region_populate(&common, 0, common.bytes));
	EXPECT(faults_of_writing(common.base, common.bytes) == 0);
	EXPECT(holds_pattern(&common));
	return CHILD_OK;
}

static void a_kernel_that_cannot_populate_is_done_by_touching(void **state)
{
	(void)state;
	assert_int_equal(rpi_region_create(&common, "t", 4 * MIB, RP_PAGES_NEVER), 0);
	fill_pattern(&common);
	assert_child(old_kernel, "no seccomp filter");
	assert_child(old_kernel_without_the_huge_pages, "no seccomp filter");
	assert_true(holds_pattern(&common));
	rpi_region_destroy(&common);
}

#ifdef RPI_TESTING
static int hook_err;

static int fail_populate(const char *point)
{
	return strcmp(point, "region.populate") ? 0 : hook_err;
}

static void a_page_that_can_not_be_backed_is_told_from_a_call_there_is_not(void **state)
{
	static const struct {
		int err, want;
	} cases[] = { { -EINVAL, 0 }, { -ENOMEM, -ENOMEM }, { -EFAULT, -ENOMEM } };
	int shared = shared_count();
	int fds = fd_count();

	(void)state;
	rpi_test_hook = fail_populate;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rpi_region region;
		int err;

		hook_err = cases[i].err;
		err = rpi_region_create(&region, "t", 3 * MIB, RP_PAGES_NEVER);
		if (!err) {
			assert_int_equal(faults_of_writing(region.base, region.bytes), 0);
			assert_int_equal(region.populated_bytes, 3 * MIB);
			rpi_region_destroy(&region);
		}
		assert_int_equal(err, cases[i].want);
		assert_null(region.base);
	}
	rpi_test_hook = NULL;
	assert_int_equal(shared_count(), shared);
	assert_int_equal(fd_count(), fds);
}
#endif

/* Each step of a creation, refused by the kernel. */
static const struct refusal {
	const char *name;
	int nr, arg;
	uint32_t value;
	int err, want;
	const char *advice;
} refusals[] = {
	{ "no memfd_create", __NR_memfd_create, -1, 0, ENOSYS, -ENOSYS, "memfd_create" },
	{ "memfd forbidden", __NR_memfd_create, -1, 0, EPERM, -EPERM, "memfd_create" },
	{ "no descriptors", __NR_memfd_create, -1, 0, EMFILE, -EMFILE, "ulimit -n" },
	{ "no files", __NR_memfd_create, -1, 0, ENFILE, -ENFILE, "fs.file-max" },
	{ "no room", __NR_ftruncate, -1, 0, ENOSPC, -ENOSPC, "memory.max" },
	{ "no address", __NR_mmap, 3, MAP_SHARED | MAP_FIXED, ENOMEM, -ENOMEM,
	  "memory.max" },
	{ "locked memory", __NR_mmap, 3, MAP_SHARED | MAP_FIXED, EAGAIN, -ENOMEM,
	  "ulimit -l" },
	{ "no memory", __NR_madvise, 2, MADV_POPULATE_WRITE, ENOMEM, -ENOMEM,
	  "memory.max" },
	{ "no page", __NR_madvise, 2, MADV_POPULATE_WRITE, EFAULT, -ENOMEM,
	  "memory.max" },
};

static const struct refusal *refusal;

static int refused(void)
{
	struct rpi_region region;
	int shared, fds;

	/* The span is there; what follows is about the region. */
	EXPECT(!rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO));
	rpi_region_destroy(&region);
	shared = shared_count();
	fds = fd_count();
	if (!deny(refusal->nr, refusal->arg, refusal->value, refusal->err))
		return CHILD_SKIPS;
	/* A huge page may still be had in another way; if not, all ways were tried. */
	if (!rpi_region_create(&region, "denied", 3000000, RP_PAGES_AUTO))
		rpi_region_destroy(&region);
	EXPECT(shared_count() == shared && fd_count() == fds);
	EXPECT(rpi_region_create(&region, "denied", 3000000, RP_PAGES_NEVER) ==
	       refusal->want);
	EXPECT(strstr(rp_last_error(), "'denied'"));
	EXPECT(strstr(rp_last_error(), "3000000"));
	if (!strstr(rp_last_error(), refusal->advice)) {
		fprintf(stderr, "%s: no '%s' in: %s\n", refusal->name, refusal->advice,
			rp_last_error());
		return CHILD_BAD;
	}
	EXPECT(!region.base && region.fd == -1);
	EXPECT(shared_count() == shared);
	EXPECT(fd_count() == fds);
	return CHILD_OK;
}

static void a_refused_step_is_an_error_with_advice_and_leaves_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(refusals); i++) {
		refusal = &refusals[i];
		assert_child(refused, "no seccomp filter");
	}
}

static int at_the_descriptor_limit(void)
{
	struct rlimit limit = { 64, 64 };
	struct rpi_region region;
	int shared = shared_count();
	int last = -1;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return CHILD_SKIPS;
	for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO))
		last = fd;
	EXPECT(rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO) == -EMFILE);
	EXPECT(strstr(rp_last_error(), "ulimit -n"));
	EXPECT(rpi_region_create(&region, "t", 4096, RP_PAGES_NEVER) == -EMFILE);
	EXPECT(!region.base && region.fd == -1);
	close(last);
	EXPECT(shared_count() == shared);
	EXPECT(!rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO));
	EXPECT(region.fd == last);
	rpi_region_destroy(&region);
	EXPECT(dup(STDERR_FILENO) == last);
	return CHILD_OK;
}

static void one_free_descriptor_is_enough_and_none_is_an_error(void **state)
{
	(void)state;
	assert_child(at_the_descriptor_limit, "RLIMIT_NOFILE can't be lowered");
}

static int no_locked_memory(void)
{
	struct rlimit limit = { 0, 0 };
	struct rpi_region region;

	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return CHILD_SKIPS;
	EXPECT(!rpi_region_create(&region, "t", 4 * MIB, RP_PAGES_AUTO));
	memset(region.base, 1, region.bytes);
	rpi_region_destroy(&region);
	return CHILD_OK;
}

static void nothing_is_locked_so_that_limit_does_not_matter(void **state)
{
	(void)state;
	assert_child(no_locked_memory, "RLIMIT_MEMLOCK can't be lowered");
}

/* A host that locks all it maps, with little that it may lock. */
static int locks_everything(void)
{
	struct rlimit limit = { 4 * MIB, 4 * MIB };
	struct rpi_region region;
	int shared, fds;

	if (SANITIZED)
		return CHILD_SKIPS;
	EXPECT(!rpi_region_create(&region, "t", 4096, RP_PAGES_NEVER));
	rpi_region_destroy(&region);
	fds = fd_count();
	shared = shared_count();
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return CHILD_SKIPS;
	/* Root may lock what it likes. */
	if (!geteuid() && setresuid(65534, 65534, 65534))
		return CHILD_SKIPS;
	if (mlockall(MCL_FUTURE))
		return CHILD_SKIPS;
	EXPECT(rpi_region_create(&region, "t", 16 * MIB, RP_PAGES_NEVER) == -ENOMEM);
	EXPECT(strstr(rp_last_error(), "ulimit -l"));
	munlockall();
	/* A process that changed its user may not read its own /proc: not counted. */
	EXPECT(fd_count() == -1 || fd_count() == fds);
	EXPECT(shared_count() == -1 || shared_count() == shared);
	EXPECT(!rpi_region_create(&region, "t", 16 * MIB, RP_PAGES_NEVER));
	rpi_region_destroy(&region);
	return CHILD_OK;
}

static void a_host_that_locks_all_its_memory_hears_of_its_limit(void **state)
{
	(void)state;
	assert_child(locks_everything, "mlockall() with a limit can't be had here");
}

static int standard_descriptors_closed(void)
{
	struct rpi_region regions[3];

	close(0);
	close(1);
	close(2);
	for (size_t i = 0; i < COUNT(regions); i++) {
		if (rpi_region_create(&regions[i], "t", i ? 2 * MIB : 1, RP_PAGES_AUTO))
			return 2;
		if (regions[i].fd < 3 || !(fcntl(regions[i].fd, F_GETFD) & FD_CLOEXEC))
			return 3;
	}
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) != -1)
			return 4;
	for (size_t i = 0; i < COUNT(regions); i++)
		rpi_region_destroy(&regions[i]);
	return CHILD_OK;
}

static void descriptors_stay_out_of_the_standard_three(void **state)
{
	(void)state;
	assert_child(standard_descriptors_closed, "");
}

static int prints_nothing(void)
{
	static const size_t sizes[] = { 1, 3 * MIB, (size_t)1 << 46, 0 };
	int pipe_fds[2];
	char byte;

	EXPECT(!pipe(pipe_fds));
	dup2(pipe_fds[1], STDOUT_FILENO);
	dup2(pipe_fds[1], STDERR_FILENO);
	for (size_t i = 0; i < 3 * COUNT(sizes); i++) {
		struct rpi_region region;

		if (!rpi_region_create(&region, "t", sizes[i / 3],
				       (enum rp_page_policy)(i % 3)))
			rpi_region_destroy(&region);
	}
	fflush(NULL);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	close(pipe_fds[1]);
	return read(pipe_fds[0], &byte, 1) ? CHILD_BAD : CHILD_OK;
}

static void nothing_is_printed_whatever_happens(void **state)
{
	(void)state;
	assert_child(prints_nothing, "");
}

static void two_hundred_lives_leave_nothing(void **state)
{
	int fds = fd_count();
	int shared = shared_count();
	void *first = NULL;

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct rpi_region large, small;

		assert_int_equal(rpi_region_create(&large, "t", 2 * MIB, RP_PAGES_AUTO),
				 0);
		assert_int_equal(rpi_region_create(&small, "t", 1, RP_PAGES_AUTO), 0);
		/* Addresses come back as well. */
		if (!first)
			first = large.base;
		assert_ptr_equal(large.base, first);
		assert_int_equal(((uint8_t *)large.base)[MIB], 0);
		((uint8_t *)large.base)[MIB] = 1;
		rpi_region_destroy(i % 2 ? &large : &small);
		rpi_region_destroy(i % 2 ? &small : &large);
	}
	assert_int_equal(fd_count(), fds);
	assert_int_equal(shared_count(), shared);
}

static void a_second_destroy_does_nothing(void **state)
{
	struct rpi_region region;
	int old, fd;

	(void)state;
	assert_int_equal(rpi_region_create(&region, "t", 1, RP_PAGES_AUTO), 0);
	old = region.fd;
	rpi_region_destroy(&region);
	/* Not even to what the caller has opened in its place. */
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, old);
	assert_int_equal(fd, old);
	rpi_region_destroy(&region);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
}

static int destroys_what_is_zero(void)
{
	struct rpi_region region;

	/* A caller's struct that was cleared and never created. */
	EXPECT(dup2(STDERR_FILENO, STDIN_FILENO) == STDIN_FILENO);
	memset(&region, 0, sizeof(region));
	rpi_region_destroy(&region);
	EXPECT(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	return CHILD_OK;
}

static void destroying_what_was_never_created_closes_nothing(void **state)
{
	(void)state;
	assert_child(destroys_what_is_zero, "");
}

static void a_lazy_region_is_backed_where_it_is_populated(void **state)
{
	struct rpi_region region;
	uint8_t *at;

	(void)state;
	assert_int_equal(rpi_region_create_lazy(&region, "t", 4 * MIB, RP_PAGES_NEVER),
			 0);
	at = region.base;
	assert_int_equal(region.populated_bytes, 0);
	assert_int_equal(rpi_region_populate(&region, MIB, MIB), 0);
	assert_int_equal(faults_of_writing(at + MIB, MIB), 0);
	assert_true(faults_of_writing(at + 2 * MIB, MIB) > 0);
	for (size_t n = 0; n < region.bytes; n++)
		if (at[n])
			fail_msg("byte %zu is %u", n, at[n]);
	rpi_region_destroy(&region);
}

static void required_huge_pages_come_to_a_lazy_region_as_to_any(void **state)
{
	struct rp_region_info info;
	struct rpi_region region;
	int err = rpi_region_create(&region, "t", 4 * MIB, RP_PAGES_REQUIRE);

	(void)state;
	if (err) {
		assert_int_equal(
			rpi_region_create_lazy(&region, "t", 4 * MIB, RP_PAGES_REQUIRE),
			err);
		print_message("skipped: no huge page pool, no huge pages of shmem\n");
		skip();
	}
	rpi_region_destroy(&region);
	assert_int_equal(rpi_region_create_lazy(&region, "t", 4 * MIB, RP_PAGES_REQUIRE),
			 0);
	assert_int_equal(rpi_region_info(&region, &info), 0);
	assert_int_equal(info.huge_bytes, 4 * MIB);
	rpi_region_destroy(&region);
}

static void a_long_name_is_cut_and_kept(void **state)
{
	static const char name[] = "a-name-that-has-more-letters-than-there-is-room";
	struct rpi_region region;

	(void)state;
	assert_int_equal(rpi_region_create(&region, name, 1, RP_PAGES_AUTO), 0);
	assert_int_equal(strlen(region.name), sizeof(region.name) - 1);
	assert_memory_equal(region.name, name, sizeof(region.name) - 1);
	rpi_region_destroy(&region);
}

static bool readable(const void *addr)
{
	int pipe_fds[2];
	bool yes;

	assert_int_equal(pipe(pipe_fds), 0);
	yes = write(pipe_fds[1], addr, 1) == 1;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return yes;
}

static void the_span_gives_the_lowest_room_and_joins_what_comes_back(void **state)
{
	void *at[4], *again, *whole;

	(void)state;
	for (size_t i = 0; i < COUNT(at); i++) {
		assert_int_equal(rpi_span_take(MIB, MIB, &at[i]), 0);
		assert_int_equal((uintptr_t)at[i] % MIB, 0);
		assert_false(readable(at[i]));
	}
	for (size_t i = 1; i < COUNT(at); i++)
		assert_ptr_equal(at[i], (uint8_t *)at[i - 1] + MIB);
	/* Between, before, after, and both sides at once. */
	rpi_span_give(at[1], MIB);
	assert_int_equal(rpi_span_take(MIB, MIB, &again), 0);
	assert_ptr_equal(again, at[1]);
	rpi_span_give(at[1], MIB);
	rpi_span_give(at[3], MIB);
	rpi_span_give(at[0], MIB);
	rpi_span_give(at[2], MIB);
	assert_int_equal(rpi_span_take(4 * MIB, MIB, &whole), 0);
	assert_ptr_equal(whole, at[0]);
	rpi_span_give(whole, 4 * MIB);
}

static void the_span_aligns_and_keeps_the_rest(void **state)
{
	static const size_t aligns[] = { 4096, 2 * MIB, GIB / 4 };
	void *odd, *at[COUNT(aligns)], *rest;

	(void)state;
	assert_int_equal(rpi_span_take(4096, 4096, &odd), 0);
	for (size_t i = 0; i < COUNT(aligns); i++) {
		assert_int_equal(rpi_span_take(8192, aligns[i], &at[i]), 0);
		assert_int_equal((uintptr_t)at[i] % aligns[i], 0);
	}
	/* What alignment skipped is not lost. */
	assert_int_equal(rpi_span_take(4096, 4096, &rest), 0);
	assert_true((uintptr_t)rest < (uintptr_t)at[COUNT(aligns) - 1]);
	rpi_span_give(rest, 4096);
	for (size_t i = 0; i < COUNT(aligns); i++)
		rpi_span_give(at[i], 8192);
	rpi_span_give(odd, 4096);
	assert_int_equal(rpi_span_take(4096, 4096, &rest), 0);
	assert_ptr_equal(rest, odd);
	rpi_span_give(rest, 4096);
}

static void what_was_given_back_is_gone(void **state)
{
	struct rpi_region region;
	void *base;

	(void)state;
	assert_int_equal(rpi_region_create(&region, "t", 8192, RP_PAGES_AUTO), 0);
	base = region.base;
	assert_true(readable(base));
	rpi_region_destroy(&region);
	assert_false(readable(base));
}

static void more_than_the_span_is_refused(void **state)
{
	void *at = &at;

	(void)state;
	assert_int_equal(rpi_span_take((size_t)1 << 45, 4096, &at), -ENOMEM);
	assert_ptr_equal(at, &at);
	assert_int_equal(rpi_span_take(SIZE_MAX & ~(size_t)4095, 4096, &at), -ENOMEM);
}

static void *lives(void *failed)
{
	for (int i = 0; i < 100; i++) {
		struct rpi_region region;
		_Atomic uint64_t *words;

		if (rpi_region_create(&region, "t", (size_t)(i % 7 + 1) * 4096,
				      i % 2 ? RP_PAGES_AUTO : RP_PAGES_NEVER)) {
			*(_Atomic bool *)failed = true;
			return NULL;
		}
		words = region.base;
		words[0] = (uint64_t)(uintptr_t)&region;
		if (words[region.bytes / 8 - 1] ||
		    words[0] != (uint64_t)(uintptr_t)&region)
			*(_Atomic bool *)failed = true;
		words[region.bytes / 8 - 1] = 1;
		rpi_region_destroy(&region);
	}
	return NULL;
}

static void threads_create_and_destroy_at_once(void **state)
{
	_Atomic bool failed = false;
	pthread_t threads[4];
	int shared = shared_count();
	int fds = fd_count();

	(void)state;
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, lives, &failed), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(failed);
	assert_int_equal(fd_count(), fds);
	assert_int_equal(shared_count(), shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* These two first: they need a process without a span. */
		cmocka_unit_test(a_limited_address_space_gets_a_smaller_span),
		cmocka_unit_test(no_address_space_is_an_error_that_names_the_limit),
		cmocka_unit_test(every_byte_from_first_to_last_is_there_and_zero),
		cmocka_unit_test(sizes_that_no_region_can_have_are_refused),
		cmocka_unit_test(parent_and_child_share_one_address_both_ways),
		cmocka_unit_test(what_a_child_makes_and_ends_stays_its_own),
		cmocka_unit_test(a_region_can_neither_shrink_nor_grow),
		cmocka_unit_test(every_mapping_is_of_a_file_without_a_name),
		cmocka_unit_test(never_means_small_pages),
		cmocka_unit_test(require_gets_huge_pages_where_there_are_some),
		cmocka_unit_test(require_is_refused_where_there_are_none),
		cmocka_unit_test(a_populated_page_costs_no_fault),
		cmocka_unit_test(populate_keeps_what_is_there),
		cmocka_unit_test(populate_outside_is_refused),
		cmocka_unit_test(a_kernel_that_cannot_populate_is_done_by_touching),
#ifdef RPI_TESTING
		cmocka_unit_test(
			a_page_that_can_not_be_backed_is_told_from_a_call_there_is_not),
#endif
		cmocka_unit_test(
			a_refused_step_is_an_error_with_advice_and_leaves_nothing),
		cmocka_unit_test(one_free_descriptor_is_enough_and_none_is_an_error),
		cmocka_unit_test(nothing_is_locked_so_that_limit_does_not_matter),
		cmocka_unit_test(a_host_that_locks_all_its_memory_hears_of_its_limit),
		cmocka_unit_test(descriptors_stay_out_of_the_standard_three),
		cmocka_unit_test(nothing_is_printed_whatever_happens),
		cmocka_unit_test(two_hundred_lives_leave_nothing),
		cmocka_unit_test(a_second_destroy_does_nothing),
		cmocka_unit_test(destroying_what_was_never_created_closes_nothing),
		cmocka_unit_test(a_lazy_region_is_backed_where_it_is_populated),
		cmocka_unit_test(required_huge_pages_come_to_a_lazy_region_as_to_any),
		cmocka_unit_test(a_long_name_is_cut_and_kept),
		cmocka_unit_test(
			the_span_gives_the_lowest_room_and_joins_what_comes_back),
		cmocka_unit_test(the_span_aligns_and_keeps_the_rest),
		cmocka_unit_test(what_was_given_back_is_gone),
		cmocka_unit_test(more_than_the_span_is_refused),
		cmocka_unit_test(threads_create_and_destroy_at_once),
	};

	alarm(WATCHDOG_S);
	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
