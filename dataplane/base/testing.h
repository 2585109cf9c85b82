/* SPDX-License-Identifier: MIT */
/*
 * Named points where a test may step in: make a call fail, kill the process,
 * hold it. They exist in the test build of the library only.
 */
#ifndef RPI_BASE_TESTING_H
#define RPI_BASE_TESTING_H

#ifdef RPI_TESTING
/* Returns 0 to go on, or a negative errno that the point then fails with. */
extern int (*rpi_test_hook)(const char *point);

static inline int rpi_test_point(const char *point)
{
	return rpi_test_hook ? rpi_test_hook(point) : 0;
}
#else
static inline int rpi_test_point(const char *point)
{
	(void)point;
	return 0;
}
#endif

#endif
