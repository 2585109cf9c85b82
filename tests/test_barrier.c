/* SPDX-License-Identifier: MIT */
/* The store-load barrier between sleepers and wakers, and where membarrier can't be had.
 */
#include "completion/barrier.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "proc.h"

static int barrier_survives_fork(void)
{
	/* Before this process has called the setup itself. */
	if (!rpi_barrier_available() || !rpi_barrier_heavy())
		return 1;
	return rpi_barrier_setup() || !rpi_barrier_available() || !rpi_barrier_heavy();
}

static void the_barrier_survives_fork_and_a_second_setup(void **state)
{
	int ret = rpi_barrier_setup();

	(void)state;
	assert_int_equal(rpi_barrier_available(), ret == 0);
	assert_true(rpi_barrier_sleeper(false));
	if (ret) {
		print_message("skipped, missing: membarrier GLOBAL_EXPEDITED (%s)\n",
			      strerror(-ret));
		skip();
	}
	assert_child(barrier_survives_fork, "");
}

static int barrier_is_unavailable(void)
{
	if (!child_deny(SYS_membarrier, -1, 0, EPERM))
		return CHILD_SKIPS;
	if (rpi_barrier_heavy())
		return 1; /* it must not claim what it did not do */
	return !rpi_barrier_setup() || rpi_barrier_available();
}

static void a_refused_membarrier_is_reported(void **state)
{
	(void)state;
	assert_child(barrier_is_unavailable, "no seccomp filter");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_barrier_survives_fork_and_a_second_setup),
		cmocka_unit_test(a_refused_membarrier_is_reported),
	};

	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("barrier", tests, NULL, NULL);
}
