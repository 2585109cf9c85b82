/* SPDX-License-Identifier: MIT */
#include "death.h"

#include <errno.h>

#include "check.h"
#include "deed.h"
#include "proc.h"

static struct proc_census at_start;

int death_setup(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	proc_census_take(&at_start);
	return 0;
}

void assert_dead(struct rp_worker *worker, const char *how)
{
	struct rp_handle handle;
	int i;

	for (i = 0; i < 3; i++) {
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), -EOWNERDEAD);
		assert_says(how);
		assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle),
				 -EOWNERDEAD);
		assert_says(how);
	}
}

void assert_nothing_left(struct rp_worker *worker)
{
	uint32_t peer;

	for (peer = 0; peer < rp_worker_chip_count(worker); peer++)
		assert_int_equal(rp_worker_pid(worker, peer), 0);
	rp_worker_free(worker);
	assert_true(proc_census_same(&at_start));
}

void assert_outcome(struct rp_handle handle, int want, const char *how)
{
	int i;

	for (i = 0; i < 3; i++) {
		assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), want);
		if (want)
			assert_says(how);
		assert_int_equal(rp_handle_done(handle), 1);
	}
}
