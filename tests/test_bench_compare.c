/* SPDX-License-Identifier: MIT */
/* Two reports side by side: what moved, what only wavered, what is new or gone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "compare.h"

static void write_file(char *path, const char *text)
{
	int fd = mkstemp(path);
	ssize_t bytes = (ssize_t)strlen(text);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, (size_t)bytes), bytes);
	close(fd);
}

#define FIGURE(name, unit, median, low, high)                              \
	"{\"name\":\"" name "\",\"unit\":\"" unit "\",\"median\":" #median \
	",\"p50_min\":" #low ",\"p50_max\":" #high ",\"ratio\":null}"

static int compare(const char *before, const char *after, char *text, size_t bytes)
{
	char a[] = "/tmp/rp-before-XXXXXX", b[] = "/tmp/rp-after-XXXXXX";
	FILE *out = fmemopen(text, bytes, "w");
	int err;

	assert_non_null(out);
	write_file(a, before);
	write_file(b, after);
	err = bench_compare(a, b, out);
	fclose(out);
	unlink(a);
	unlink(b);
	return err;
}

/* The verdict on the line of `name`. */
static void assert_verdict(const char *text, const char *name, const char *want)
{
	const char *line = strstr(text, name), *end;

	assert_non_null(line);
	end = strchr(line, '\n');
	assert_non_null(end);
	if (want) {
		assert_int_equal(strncmp(end - strlen(want), want, strlen(want)), 0);
		return;
	}
	assert_null(memmem(line, (size_t)(end - line), "er\n", 3));
	assert_int_not_equal(end[-1], 'r');
}

static void what_moved_is_told_from_what_wavered(void **state)
{
	static char text[8192];

	(void)state;
	assert_int_equal(
		compare("{\"results\":[" FIGURE("a.time", "ns", 100, 95, 105) "," FIGURE(
				"b.time", "ns", 100, 95,
				105) "," FIGURE("c.rate", "GB/s", 10, 9,
						11) "," FIGURE("d.old", "ns", 1, 1,
							       1) "]}",
			"{\"results\":[" FIGURE("a.time", "ns", 120, 110, 130) "," FIGURE(
				"b.time", "ns", 104, 99,
				109) "," FIGURE("c.rate", "GB/s", 8, 7,
						8.5) "," FIGURE("e.new", "ns", 1, 1,
								1) "]}",
			text, sizeof(text)),
		0);
	assert_verdict(text, "a.time", "+20.0%        -        -  slower");
	assert_verdict(text, "b.time", NULL);
	assert_verdict(text, "c.rate", "slower");
	assert_verdict(text, "e.new", "new");
	assert_non_null(strstr(text, "# d.old: gone"));
	assert_non_null(strstr(text, "# 2 moved beyond the noise of their runs, 1 are"));
}

/* Where a run's noise is not known no verdict stands on it. */
static void without_a_spread_there_is_no_verdict(void **state)
{
	static const char *const spreads[] = { "", ",\"p50_min\":null,\"p50_max\":null",
					       ",\"p50_min\":\"1\",\"p50_max\":[]" };
	static char text[8192], bare[256];
	const char *whole = "{\"results\":[" FIGURE("a", "ns", 100, 95, 105) "]}";

	(void)state;
	for (size_t i = 0; i < COUNT(spreads); i++) {
		snprintf(
			bare, sizeof(bare),
			"{\"results\":[{\"name\":\"a\",\"unit\":\"ns\",\"median\":5%s}]}",
			spreads[i]);
		assert_int_equal(compare(whole, bare, text, sizeof(text)), 0);
		assert_non_null(strstr(text, "# 0 moved"));
		assert_int_equal(compare(bare, whole, text, sizeof(text)), 0);
		assert_non_null(strstr(text, "# 0 moved"));
	}
}

static void a_terminal_is_told_nothing_by_a_name(void **state)
{
	static char text[8192];
	const char *odd = "{\"results\":[{\"name\":\"\\u001b[31m\\n\\u007fx\","
			  "\"unit\":\"\\u0007\",\"median\":1}]}";

	(void)state;
	for (int which = 0; which < 3; which++) {
		assert_int_equal(compare(which == 1 ? "{\"results\":[]}" : odd,
					 which == 2 ? "{\"results\":[]}" : odd, text,
					 sizeof(text)),
				 0);
		assert_non_null(strstr(text, "?[31m??x"));
		for (const char *at = text; *at; at++)
			assert_true(*at == '\n' || (*at >= ' ' && *at != 0x7f));
	}
}

static void what_is_no_report_is_refused(void **state)
{
	static char text[8192];

	(void)state;
	assert_int_equal(compare("{", "{}", text, sizeof(text)), -EINVAL);
	assert_int_equal(compare("{\"results\":[]}", "{}", text, sizeof(text)), -EINVAL);
	assert_says("compare", "no results");
	assert_int_equal(bench_compare("/nowhere", "/nowhere", stdout), -EINVAL);
	assert_says("/nowhere");
	assert_int_equal(compare("{\"results\":[7,{}]}",
				 "{\"results\":[null,{\"name\":3}]}", text, sizeof(text)),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_moved_is_told_from_what_wavered),
		cmocka_unit_test(without_a_spread_there_is_no_verdict),
		cmocka_unit_test(a_terminal_is_told_nothing_by_a_name),
		cmocka_unit_test(what_is_no_report_is_refused),
	};

	return cmocka_run_group_tests_name("bench_compare", tests, NULL, NULL);
}
