/* SPDX-License-Identifier: MIT */
/* membarrier(), global and expedited. */
#include "completion/barrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel may be short of memory for its CPU mask; that passes. */
#define HEAVY_TRIES 64

_Atomic uint32_t rpi_barrier_word;

/* Relaxed: set once before the fork, or to the same value again. */
static _Atomic bool available;

static int membarrier(int command)
{
	long ret = syscall(SYS_membarrier, command, 0, 0);

	return ret < 0 ? -errno : (int)ret;
}

static int register_process(void)
{
	const int need = MEMBARRIER_CMD_GLOBAL_EXPEDITED |
			 MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
	int ret;

	if (RPI_BARRIER_TSAN)
		return -EOPNOTSUPP;
	ret = membarrier(MEMBARRIER_CMD_QUERY);
	if (ret < 0)
		return ret;
	if ((ret & need) != need)
		return -EOPNOTSUPP;
	ret = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	if (ret < 0)
		return ret;
	/* A filter may let the registration through and not this. */
	return rpi_barrier_heavy() ? 0 : -EPERM;
}

int rpi_barrier_setup(void)
{
	int ret = register_process();

	atomic_store_explicit(&available, ret == 0, memory_order_relaxed);
	return ret;
}

bool rpi_barrier_available(void)
{
	return atomic_load_explicit(&available, memory_order_relaxed);
}

bool rpi_barrier_heavy(void)
{
	int ret;

	/* B1. The call is a full barrier for this CPU as well; on the single
	 * online CPU, where the kernel returns at once, program order is enough. */
	for (int i = 0; i < HEAVY_TRIES; i++) {
		ret = membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
		if (ret != -ENOMEM)
			return ret == 0;
	}
	return false;
}
