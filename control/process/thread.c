/* SPDX-License-Identifier: MIT */
#include "process/thread.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"

#define STACK_BYTES ((size_t)8 << 20)

int rpi_thread_start(pthread_t *thread_out, const char *name, void *(*body)(void *),
		     void *arg)
{
	size_t stack_bytes = STACK_BYTES;
	struct rlimit limit;
	pthread_attr_t attr;
	sigset_t all;
	sigset_t old;
	int err;

	if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur > stack_bytes)
		stack_bytes = limit.rlim_cur;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack_bytes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread_out, &attr, body, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		return rpi_fail(-err, "rp_worker_prepare: thread %s: %s", name,
				strerror(err));
	pthread_setname_np(*thread_out, name);
	return 0;
}
