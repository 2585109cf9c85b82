/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLOCK_H
#define SERVICE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

/* Of CLOCK_MONOTONIC, which every process sees alike. */
static inline int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

#endif
