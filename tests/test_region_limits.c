/* SPDX-License-Identifier: MIT */
/* A region where the system gives too little: an error with advice, and nothing left. */
#include "region/region.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "pages.h"
#include "proc.h"

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
	PROC_MUST(!rpi_region_create(&region, "t", 5 * MIB, RP_PAGES_AUTO));
	memset(region.base, 1, 5 * MIB);
	rpi_region_destroy(&region);
	return CHILD_OK;
}

static int half_a_gib_of_addresses(void)
{
	struct rpi_region region;

	if (SANITIZED || limited_to(GIB / 2))
		return CHILD_SKIPS;
	PROC_MUST(rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO) == -ENOMEM);
	PROC_MUST(strstr(rp_last_error(), "ulimit -v"));
	PROC_MUST(proc_shared_count(getpid()) == 0 && !region.base && region.fd == -1);
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
	PROC_MUST(!rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO));
	rpi_region_destroy(&region);
	shared = proc_shared_count(getpid());
	fds = proc_fd_count(getpid());
	if (!child_deny(refusal->nr, refusal->arg, refusal->value, refusal->err))
		return CHILD_SKIPS;
	/* A huge page may still be had in another way; if not, all ways were tried. */
	if (!rpi_region_create(&region, "denied", 3000000, RP_PAGES_AUTO))
		rpi_region_destroy(&region);
	PROC_MUST(proc_shared_count(getpid()) == shared &&
		  proc_fd_count(getpid()) == fds);
	PROC_MUST(rpi_region_create(&region, "denied", 3000000, RP_PAGES_NEVER) ==
		  refusal->want);
	PROC_MUST(strstr(rp_last_error(), "'denied'"));
	PROC_MUST(strstr(rp_last_error(), "3000000"));
	if (!strstr(rp_last_error(), refusal->advice)) {
		fprintf(stderr, "%s: no '%s' in: %s\n", refusal->name, refusal->advice,
			rp_last_error());
		return CHILD_BAD;
	}
	PROC_MUST(!region.base && region.fd == -1);
	PROC_MUST(proc_shared_count(getpid()) == shared);
	PROC_MUST(proc_fd_count(getpid()) == fds);
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
	int shared = proc_shared_count(getpid());
	int last = -1;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return CHILD_SKIPS;
	for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO))
		last = fd;
	PROC_MUST(rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO) == -EMFILE);
	PROC_MUST(strstr(rp_last_error(), "ulimit -n"));
	PROC_MUST(rpi_region_create(&region, "t", 4096, RP_PAGES_NEVER) == -EMFILE);
	PROC_MUST(!region.base && region.fd == -1);
	close(last);
	PROC_MUST(proc_shared_count(getpid()) == shared);
	PROC_MUST(!rpi_region_create(&region, "t", 4096, RP_PAGES_AUTO));
	PROC_MUST(region.fd == last);
	rpi_region_destroy(&region);
	PROC_MUST(dup(STDERR_FILENO) == last);
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
	PROC_MUST(!rpi_region_create(&region, "t", 4 * MIB, RP_PAGES_AUTO));
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
	PROC_MUST(!rpi_region_create(&region, "t", 4096, RP_PAGES_NEVER));
	rpi_region_destroy(&region);
	fds = proc_fd_count(getpid());
	shared = proc_shared_count(getpid());
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return CHILD_SKIPS;
	/* Root may lock what it likes. */
	if (!geteuid() && setresuid(65534, 65534, 65534))
		return CHILD_SKIPS;
	if (mlockall(MCL_FUTURE))
		return CHILD_SKIPS;
	PROC_MUST(rpi_region_create(&region, "t", 16 * MIB, RP_PAGES_NEVER) == -ENOMEM);
	PROC_MUST(strstr(rp_last_error(), "ulimit -l"));
	munlockall();
	/* A process that changed its user may not read its own /proc: not counted. */
	PROC_MUST(proc_fd_count(getpid()) == -1 || proc_fd_count(getpid()) == fds);
	PROC_MUST(proc_shared_count(getpid()) == -1 ||
		  proc_shared_count(getpid()) == shared);
	PROC_MUST(!rpi_region_create(&region, "t", 16 * MIB, RP_PAGES_NEVER));
	rpi_region_destroy(&region);
	return CHILD_OK;
}

static void a_host_that_locks_all_its_memory_hears_of_its_limit(void **state)
{
	(void)state;
	assert_child(locks_everything, "mlockall() with a limit can't be had here");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* These two first: they need a process without a span. */
		cmocka_unit_test(a_limited_address_space_gets_a_smaller_span),
		cmocka_unit_test(no_address_space_is_an_error_that_names_the_limit),
		cmocka_unit_test(
			a_refused_step_is_an_error_with_advice_and_leaves_nothing),
		cmocka_unit_test(one_free_descriptor_is_enough_and_none_is_an_error),
		cmocka_unit_test(nothing_is_locked_so_that_limit_does_not_matter),
		cmocka_unit_test(a_host_that_locks_all_its_memory_hears_of_its_limit),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("region_limits", tests, NULL, NULL);
}
