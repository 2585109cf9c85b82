/* SPDX-License-Identifier: MIT */
/* The test framework with all that it needs, and assertions that it lacks. */
#ifndef RPI_TESTS_CHECK_H
#define RPI_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ringplane/error.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The last error's line holds each of these. */
void check_line(const char *file, int line, const char *text, const char *const *needles);
#define assert_says(...)                                \
	check_line(__FILE__, __LINE__, rp_last_error(), \
		   (const char *const[]){ __VA_ARGS__, NULL })

/* assert_int_equal() that shows the error line. */
void check_ok(const char *file, int line, int err);
#define assert_ok(call) check_ok(__FILE__, __LINE__, (call))

/* assert_float_equal() for doubles that were computed: equal but for the rounding. */
void check_near(const char *file, int line, double got, double want);
#define assert_near(got, want) check_near(__FILE__, __LINE__, (got), (want))

/* cmocka's skip(), counted for check_status(). */
void check_skip(const char *file, int line);
#undef skip
#define skip() check_skip(__FILE__, __LINE__)

/* What main() returns where all of a group's `count` cases may be skipped: how many
 * failed, or 77, by which ctest knows a test that has tested nothing. */
int check_status(int failed, size_t count);

#endif
