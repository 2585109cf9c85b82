/* SPDX-License-Identifier: MIT */
/* A region from its creation to its end: what it is, who sees it, what is left. */
#include "region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "pages.h"
#include "proc.h"

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
	int fds = proc_fd_count(getpid());
	int shared = proc_shared_count(getpid());

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
	assert_int_equal(proc_fd_count(getpid()), fds);
	assert_int_equal(proc_shared_count(getpid()), shared);
}

static struct rpi_region common;

static int writes_back(void)
{
	_Atomic uint32_t *words = common.base;
	size_t last = common.bytes / sizeof(*words) - 1;

	PROC_MUST(words[0] == 1 && words[last] == 2);
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
		alarm(PROC_WATCHDOG_S);
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
	PROC_MUST(!rpi_region_create(&first, "t", 2 * MIB, RP_PAGES_AUTO));
	PROC_MUST(first.base != common.base);
	memset(first.base, 0xff, first.bytes);
	PROC_MUST(!rpi_region_create(&second, "t", 4096, RP_PAGES_AUTO));
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

	PROC_MUST(!pipe(pipe_fds));
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
	int fds = proc_fd_count(getpid());
	int shared = proc_shared_count(getpid());
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
	assert_int_equal(proc_fd_count(getpid()), fds);
	assert_int_equal(proc_shared_count(getpid()), shared);
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
	PROC_MUST(dup2(STDERR_FILENO, STDIN_FILENO) == STDIN_FILENO);
	memset(&region, 0, sizeof(region));
	rpi_region_destroy(&region);
	PROC_MUST(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	return CHILD_OK;
}

static void destroying_what_was_never_created_closes_nothing(void **state)
{
	(void)state;
	assert_child(destroys_what_is_zero, "");
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
	int shared = proc_shared_count(getpid());
	int fds = proc_fd_count(getpid());

	(void)state;
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, lives, &failed), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(failed);
	assert_int_equal(proc_fd_count(getpid()), fds);
	assert_int_equal(proc_shared_count(getpid()), shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_from_first_to_last_is_there_and_zero),
		cmocka_unit_test(sizes_that_no_region_can_have_are_refused),
		cmocka_unit_test(parent_and_child_share_one_address_both_ways),
		cmocka_unit_test(what_a_child_makes_and_ends_stays_its_own),
		cmocka_unit_test(a_region_can_neither_shrink_nor_grow),
		cmocka_unit_test(every_mapping_is_of_a_file_without_a_name),
		cmocka_unit_test(a_long_name_is_cut_and_kept),
		cmocka_unit_test(descriptors_stay_out_of_the_standard_three),
		cmocka_unit_test(nothing_is_printed_whatever_happens),
		cmocka_unit_test(two_hundred_lives_leave_nothing),
		cmocka_unit_test(a_second_destroy_does_nothing),
		cmocka_unit_test(destroying_what_was_never_created_closes_nothing),
		cmocka_unit_test(threads_create_and_destroy_at_once),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
