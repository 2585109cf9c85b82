/* SPDX-License-Identifier: MIT */
/* The pages of a region: which ones it gets, and that none is missing when it is used. */
#include "region/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/testing.h"
#include "check.h"
#include "child.h"
#include "pages.h"
#include "proc.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void never_means_small_pages(void **state)
{
	struct rp_region_info info;
	struct rpi_region region;

	(void)state;
	if (pages_thp_forced()) {
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
	bool pool = pages_in_pool(2);
	int err;

	(void)state;
	if (!pool && !pages_thp_allowed()) {
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
	assert_int_equal(pages_faults_of_writing(region.base, region.bytes), 0);
	rpi_region_destroy(&region);
}

static void require_is_refused_where_there_are_none(void **state)
{
	static const size_t sizes[] = { 1, 2 * MIB, 3 * MIB };
	int fds = proc_fd_count(getpid());
	int shared = proc_shared_count(getpid());

	(void)state;
	if (pages_in_pool(1) || pages_thp_allowed()) {
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
	assert_int_equal(proc_fd_count(getpid()), fds);
	assert_int_equal(proc_shared_count(getpid()), shared);
}

static struct rpi_region common;

static int unpopulated_child(void)
{
	PROC_MUST(pages_faults_of_writing(common.base, common.bytes) > 0);
	return CHILD_OK;
}

static int populated_child(void)
{
	PROC_MUST(!rpi_region_populate(&common, 0, common.bytes));
	PROC_MUST(pages_faults_of_writing(common.base, common.bytes) == 0);
	return CHILD_OK;
}

static int half_populated_child(void)
{
	uint8_t *at = common.base;

	/* Parts of pages count as whole ones. */
	PROC_MUST(!rpi_region_populate(&common, MIB + 1, MIB - 1));
	PROC_MUST(pages_faults_of_writing(at + MIB, MIB) == 0);
	PROC_MUST(pages_faults_of_writing(at + 2 * MIB, MIB) > 0);
	return CHILD_OK;
}

static void a_populated_page_costs_no_fault(void **state)
{
	(void)state;
	assert_int_equal(rpi_region_create(&common, "t", 4 * MIB, RP_PAGES_NEVER), 0);
	assert_int_equal(pages_faults_of_writing(common.base, common.bytes), 0);
	/* A child has no page tables for it: that shows the count can count. */
	assert_child(unpopulated_child, "");
	assert_child(populated_child, "");
	assert_child(half_populated_child, "");
	rpi_region_destroy(&common);
	assert_int_equal(rpi_region_create(&common, "t", 4 * MIB, RP_PAGES_AUTO), 0);
	assert_int_equal(pages_faults_of_writing(common.base, common.bytes), 0);
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

	if (!child_deny(__NR_madvise, 2, MADV_POPULATE_WRITE, EINVAL))
		return CHILD_SKIPS;
	PROC_MUST(!rpi_region_create(&region, "t", 4 * MIB, RP_PAGES_AUTO));
	PROC_MUST(pages_faults_of_writing(region.base, region.bytes) == 0);
	rpi_region_destroy(&region);
	PROC_MUST(!rpi_region_populate(&common, 0, common.bytes));
	PROC_MUST(holds_pattern(&common));
	PROC_MUST(pages_faults_of_writing(common.base, common.bytes) == 0);
	return CHILD_OK;
}

static int old_kernel_without_the_huge_pages(void)
{
	if (!child_deny(__NR_madvise, 2, MADV_POPULATE_WRITE, EINVAL))
		return CHILD_SKIPS;
	/* What a region says of itself whose huge pages did not come. */
	common.kind = RP_PAGE_THP;
	common.page_bytes = 2 * MIB;
	PROC_MUST(!rpi_region_populate(&common, 0, common.bytes));
	PROC_MUST(pages_faults_of_writing(common.base, common.bytes) == 0);
	PROC_MUST(holds_pattern(&common));
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
	int shared = proc_shared_count(getpid());
	int fds = proc_fd_count(getpid());

	(void)state;
	rpi_test_hook = fail_populate;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rpi_region region;
		int err;

		hook_err = cases[i].err;
		err = rpi_region_create(&region, "t", 3 * MIB, RP_PAGES_NEVER);
		if (!err) {
			assert_int_equal(
				pages_faults_of_writing(region.base, region.bytes), 0);
			assert_int_equal(region.populated_bytes, 3 * MIB);
			rpi_region_destroy(&region);
		}
		assert_int_equal(err, cases[i].want);
		assert_null(region.base);
	}
	rpi_test_hook = NULL;
	assert_int_equal(proc_shared_count(getpid()), shared);
	assert_int_equal(proc_fd_count(getpid()), fds);
}
#endif

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
	assert_int_equal(pages_faults_of_writing(at + MIB, MIB), 0);
	assert_true(pages_faults_of_writing(at + 2 * MIB, MIB) > 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(a_lazy_region_is_backed_where_it_is_populated),
		cmocka_unit_test(required_huge_pages_come_to_a_lazy_region_as_to_any),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("region_pages", tests, NULL, NULL);
}
