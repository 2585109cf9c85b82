/* SPDX-License-Identifier: MIT */
#ifndef DECODE_CLOCK_H
#define DECODE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Of CLOCK_MONOTONIC, which every process sees alike. */
static inline int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
