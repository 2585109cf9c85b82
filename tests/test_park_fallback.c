/* SPDX-License-Identifier: MIT */
/* A park for which no engine was given, where io_uring can't be had. */
#include "completion/park.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "proc.h"

static struct rpi_park_block *block_new(void)
{
	struct rpi_park_block *block = mmap(NULL, sizeof(*block), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(block != MAP_FAILED);
	return block;
}

/* What the child of the next tests has to expect. */
static struct {
	int err;
	const char *reason;
} refusal;

/* An AUTO park must have become a futex for that reason, and must work. */
static int falls_back(void)
{
	struct rpi_park_block *block = block_new();
	struct rpi_park park;
	struct rpi_waker waker;
	char before[512];
	int fds[2];

	snprintf(before, sizeof(before), "%s", rp_last_error());
	if (rpi_park_create(&park, RPI_PARK_AUTO, block))
		return 1;
	if (park.engine != RPI_PARK_FUTEX ||
	    strcmp(rpi_park_engine_name(&park), "futex") != 0)
		return 2;
	if (strcmp(park.reason, refusal.reason) != 0)
		return 3;
	if (strcmp(rp_last_error(), before) != 0)
		return 4; /* silently */
	if (rpi_park_fds(&park, fds))
		return 5;
	if (rpi_park_own(&park) || rpi_waker_init(&waker, park.engine, false))
		return 6;
	if (rpi_park_wake(&park, &waker) || rpi_park_sleep(&park, RPI_PARK_FOREVER))
		return 7;
	rpi_park_destroy(&park);
	if (refusal.err && rpi_park_create(&park, RPI_PARK_URING, block) != refusal.err)
		return 8;
	if (refusal.err && !strstr(rp_last_error(), refusal.reason))
		return 9;
	return 0;
}

static int falls_back_under_filter(void)
{
	if (!child_deny(SYS_io_uring_setup, -1, 0, -refusal.err))
		return CHILD_SKIPS;
	return falls_back();
}

static void a_refused_io_uring_becomes_a_futex_and_says_why(void **state)
{
	static const struct {
		int err;
		const char *reason;
	} cases[] = {
		{ -EPERM, "forbidden (EPERM)" },
		{ -EACCES, "forbidden (EPERM)" },
		{ -ENOSYS, "not supported (ENOSYS)" },
		{ -ENOMEM, "memlock limit (ENOMEM)" },
		{ -EINVAL, "not supported (EINVAL)" },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		refusal.err = cases[i].err;
		refusal.reason = cases[i].reason;
		if (!RPI_HAVE_LIBURING) {
			refusal.err = -EOPNOTSUPP;
			refusal.reason = "not built";
		}
		assert_child(falls_back_under_filter, "no seccomp filter");
	}
}

static int falls_back_without_descriptors(void)
{
	struct rlimit limit = { .rlim_cur = 0, .rlim_max = 0 };
	struct rpi_park park;

	/* A kernel that forbids io_uring says that first. */
	if (rpi_park_create(&park, RPI_PARK_URING, block_new()))
		return CHILD_SKIPS;
	rpi_park_destroy(&park);
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return CHILD_SKIPS;
	return falls_back();
}

static void without_descriptors_left_it_becomes_a_futex(void **state)
{
	(void)state;
	if (!RPI_HAVE_LIBURING) {
		print_message("skipped, missing: liburing, when this was built\n");
		skip();
	}
	refusal.err = -EMFILE;
	refusal.reason = "descriptor limit (EMFILE)";
	assert_child(falls_back_without_descriptors,
		     "io_uring is forbidden here, or RLIMIT_NOFILE can't be lowered");
}

static rlim_t memlock_bytes;

static int works_under_memlock(void)
{
	struct rlimit limit = { .rlim_cur = memlock_bytes, .rlim_max = memlock_bytes };
	struct rpi_park_block *block = block_new();
	struct rpi_park park;
	struct rpi_waker waker;

	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return CHILD_SKIPS;
	/* CAP_IPC_LOCK would pass the limit by. */
	if (geteuid() == 0 && setresuid(65534, 65534, 65534))
		return CHILD_SKIPS;
	if (rpi_park_create(&park, RPI_PARK_AUTO, block) || rpi_park_own(&park))
		return 1;
	if (rpi_waker_init(&waker, park.engine, false))
		return 2;
	atomic_store(&block->asleep, 1);
	if (rpi_park_wake(&park, &waker) || rpi_park_sleep(&park, RPI_PARK_FOREVER))
		return 3;
	return 0;
}

static void a_small_memlock_limit_is_no_obstacle(void **state)
{
	static const rlim_t limits[] = { 0, 4096, 65536 };

	(void)state;
	for (unsigned i = 0; i < COUNT(limits); i++) {
		memlock_bytes = limits[i];
		assert_child(works_under_memlock,
			     "RLIMIT_MEMLOCK can't be lowered or root given up");
	}
}

static void the_environment_chooses_for_auto_only(void **state)
{
	struct rpi_park_block *block = block_new();
	struct rpi_park park;

	(void)state;
	setenv(RPI_PARK_ENV, "futex", 1);
	assert_int_equal(rpi_park_create(&park, RPI_PARK_AUTO, block), 0);
	assert_int_equal(park.engine, RPI_PARK_FUTEX);
	assert_string_equal(park.reason, "asked for by " RPI_PARK_ENV);
	rpi_park_destroy(&park);
	if (rpi_park_create(&park, RPI_PARK_URING, block) == 0)
		assert_int_equal(park.engine, RPI_PARK_URING);
	rpi_park_destroy(&park);
	unsetenv(RPI_PARK_ENV);
	munmap(block, sizeof(*block));
}

static void wrong_arguments_are_refused(void **state)
{
	struct rpi_park_block *block = block_new();
	struct rpi_park park;

	(void)state;
	assert_int_equal(rpi_park_create(&park, RPI_PARK_AUTO, NULL), -EINVAL);
	assert_int_equal(rpi_park_create(&park, RPI_PARK_AUTO, (char *)block + 64),
			 -EINVAL);
	assert_int_equal(rpi_park_create(&park, (enum rpi_park_engine)3, block), -EINVAL);
	assert_string_equal(rp_last_error(), "park_create: engine 3, expected 0..2");
	rpi_park_destroy(&park);
	munmap(block, sizeof(*block));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refused_io_uring_becomes_a_futex_and_says_why),
		cmocka_unit_test(without_descriptors_left_it_becomes_a_futex),
		cmocka_unit_test(a_small_memlock_limit_is_no_obstacle),
		cmocka_unit_test(the_environment_chooses_for_auto_only),
		cmocka_unit_test(wrong_arguments_are_refused),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("park_fallback", tests, NULL, NULL);
}
