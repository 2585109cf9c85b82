/* SPDX-License-Identifier: MIT */
/* What is a character of UTF-8 and what is none, and that a copy has only such. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "check.h"

static void each_character_has_its_length(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} cases[] = {
		{ "a", 1 },
		{ "\x7f", 1 },
		{ "\xc2\x80", 2 },
		{ "\xdf\xbf", 2 },
		{ "\xe0\xa0\x80", 3 },
		{ "\xed\x9f\xbf", 3 },
		{ "\xee\x80\x80", 3 },
		{ "\xef\xbf\xbf", 3 },
		{ "\xf0\x90\x80\x80", 4 },
		{ "\xf4\x8f\xbf\xbf", 4 },
		/* A continuation, or one that is missing. */
		{ "\x80", 0 },
		{ "\xbf", 0 },
		{ "\xc2", 0 },
		{ "\xc2z", 0 },
		{ "\xe0\xa0", 0 },
		{ "\xf0\x90\x80", 0 },
		{ "\xf0\x90\x80z", 0 },
		/* Longer than need be. */
		{ "\xc0\x80", 0 },
		{ "\xc1\xbf", 0 },
		{ "\xe0\x9f\xbf", 0 },
		{ "\xf0\x8f\xbf\xbf", 0 },
		/* Halves of a pair. */
		{ "\xed\xa0\x80", 0 },
		{ "\xed\xbf\xbf", 0 },
		/* Past the last one. */
		{ "\xf4\x90\x80\x80", 0 },
		{ "\xf5\x80\x80\x80", 0 },
		{ "\xf8\x88\x80\x80\x80", 0 },
		{ "\xfe", 0 },
		{ "\xff", 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		if (rpi_utf8_length(cases[i].text) != cases[i].length)
			fail_msg("case %zu: %zu, expected %zu", i,
				 rpi_utf8_length(cases[i].text), cases[i].length);
}

static void a_copy_has_whole_characters_only(void **state)
{
	static const struct {
		const char *text, *want;
		size_t bytes;
	} cases[] = {
		{ "", "", 1 },
		{ "abc", "abc", 4 },
		{ "abc", "ab", 3 },
		{ "abc", "", 1 },
		{ "a\xc3\xa9z", "a\xc3\xa9z", 16 },
		{ "a\xc3\xa9z", "a\xc3\xa9", 4 },
		{ "a\xc3\xa9z", "a", 3 },
		{ "a\xffz\xc3", "a?z?", 16 },
		{ "\xe2\x82", "??", 16 },
		{ "\xff\xff", "?", 2 },
	};
	char buf[16];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		memset(buf, '#', sizeof(buf));
		rpi_utf8_copy(buf, cases[i].bytes, cases[i].text);
		assert_string_equal(buf, cases[i].want);
		for (size_t k = cases[i].bytes; k < sizeof(buf); k++)
			assert_int_equal(buf[k], '#');
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_character_has_its_length),
		cmocka_unit_test(a_copy_has_whole_characters_only),
	};

	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
