/* SPDX-License-Identifier: MIT */
/* The futex engine: sleeps on the pending word itself. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "completion/park_engine.h"

#define NS_PER_S 1000000000u

int rpi_park_futex_block(struct rpi_park *park, uint64_t deadline_ns)
{
	struct timespec ts, *until = NULL;
	long ret;

	if (deadline_ns != RPI_PARK_FOREVER) {
		ts.tv_sec = (time_t)(deadline_ns / NS_PER_S);
		ts.tv_nsec = (long)(deadline_ns % NS_PER_S);
		until = &ts;
	}
	/* Not FUTEX_PRIVATE: the wakers are other processes. The BITSET form takes
	 * an absolute CLOCK_MONOTONIC time. */
	ret = syscall(SYS_futex, &park->block->pending, FUTEX_WAIT_BITSET, 0, until, NULL,
		      FUTEX_BITSET_MATCH_ANY);
	if (ret == 0 || errno == EAGAIN || errno == EINTR)
		return 0;
	return -errno;
}

int rpi_park_futex_poke(struct rpi_park *park)
{
	long ret = syscall(SYS_futex, &park->block->pending, FUTEX_WAKE, INT_MAX, NULL,
			   NULL, 0);

	return ret < 0 ? -errno : 0;
}
