/* SPDX-License-Identifier: MIT */
/* Sub-commands run as children: what becomes of those that do not do as they should, and
 * that the others are not touched by it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "stored.h"
#include "suite.h"

#define SECOND INT64_C(1000000000)

/* In the place of rpbench: the word after its name says how it behaves. */
static const char script[] =
	"#!/bin/sh\n"
	"report='{\"machine\": {\"cpu\": \"'$1'\", \"skipped\": {\"'$1'.x\": \"no\"}},"
	" \"results\": [{\"name\": \"limits.a\", \"median\": 1},"
	" {\"name\": \"'$1'.b\", \"median\": 2}]}'\n"
	"case $1 in\n"
	"good) echo \"$report\" ;;\n"
	"options) echo \"{\\\"machine\\\": {}, \\\"results\\\": [{\\\"name\\\": "
	"\\\"$*\\\"}]}\" ;;\n"
	"fails) echo \"$report\"; echo 'one case failed' >&2; exit 1 ;;\n"
	"garbage) echo 'no { json'; exit 0 ;;\n"
	"array) echo '[1, 2]' ;;\n"
	"dies) kill -SEGV $$ ;;\n"
	"refuses) echo 'rpbench: --x: 1, expected 2' >&2; exit 2 ;;\n"
	"bytes) printf 'rpbench: \\377 and \\303\\251\\n' >&2; exit 2 ;;\n"
	"hangs) exec sleep 1000 ;;\n"
	"esac\n";

static char path[] = "/tmp/rp-suite-XXXXXX";

static int write_script(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0 || write(fd, script, sizeof(script) - 1) != sizeof(script) - 1)
		return -1;
	return fchmod(fd, 0700) || close(fd) ? -1 : 0;
}

static int remove_script(void **state)
{
	(void)state;
	return unlink(path);
}

static const char *const no_options[] = { NULL };

static void run(json_t *into, const char *command, int64_t timeout_ns)
{
	const struct bench_suite suite = { .program = path,
					   .options = no_options,
					   .timeout_ns = timeout_ns };

	assert_int_equal(bench_suite_run(&suite, command, into), 0);
}

static const json_t *command_at(const json_t *stored, size_t i)
{
	return json_array_get(json_object_get(stored, "commands"), i);
}

static void one_that_fails_costs_the_others_nothing(void **state)
{
	static const struct {
		const char *command, *error;
		bool reports;
	} cases[] = {
		{ "good", "", true },
		{ "fails", "ended with status 1: one case failed", true },
		{ "garbage", "printed no report", false },
		{ "array", "printed no report", false },
		{ "dies", "died of signal 11", false },
		{ "refuses", "ended with status 2: rpbench: --x: 1, expected 2", false },
		{ "bytes", "ended with status 2: rpbench: ? and \xc3\xa9", false },
		{ "nothing", "printed no report", false },
	};
	json_t *stored = bench_stored_new();

	(void)state;
	assert_non_null(stored);
	for (size_t i = 0; i < COUNT(cases); i++)
		run(stored, cases[i].command, 60 * SECOND);
	assert_int_equal(json_array_size(json_object_get(stored, "commands")),
			 COUNT(cases));
	for (size_t i = 0; i < COUNT(cases); i++) {
		const json_t *command = command_at(stored, i);
		char name[32];

		assert_string_equal(bench_stored_text(command, "name"), cases[i].command);
		assert_string_equal(bench_stored_text(command, "error"), cases[i].error);
		snprintf(name, sizeof(name), "%s.b", cases[i].command);
		assert_int_equal(bench_stored_find(json_object_get(stored, "results"),
						   name) != NULL,
				 cases[i].reports);
	}
	json_decref(stored);
}

static void a_name_of_two_is_the_first_ones(void **state)
{
	json_t *stored = bench_stored_new();
	const json_t *machine, *skipped;

	(void)state;
	run(stored, "good", 60 * SECOND);
	run(stored, "fails", 60 * SECOND);
	/* limits.a, good.b and fails.b */
	assert_int_equal(json_array_size(json_object_get(stored, "results")), 3);
	machine = json_object_get(stored, "machine");
	assert_string_equal(bench_stored_text(machine, "cpu"), "good");
	skipped = json_object_get(machine, "skipped");
	assert_string_equal(bench_stored_text(skipped, "good.x"), "no");
	assert_string_equal(bench_stored_text(skipped, "fails.x"), "no");
	/* Each keeps its own. */
	machine = json_object_get(command_at(stored, 0), "machine");
	assert_null(json_object_get(json_object_get(machine, "skipped"), "fails.x"));
	json_decref(stored);
}

static void one_that_hangs_is_ended(void **state)
{
	json_t *stored = bench_stored_new();

	(void)state;
	run(stored, "hangs", SECOND / 4);
	run(stored, "good", 60 * SECOND);
	assert_non_null(strstr(bench_stored_text(command_at(stored, 0), "error"),
			       "ended by us: not done after"));
	assert_string_equal(bench_stored_text(command_at(stored, 1), "error"), "");
	json_decref(stored);
}

static void options_are_handed_on(void **state)
{
	static const char *const options[] = { "--quick", "--runs", "3", NULL };
	const struct bench_suite suite = { .program = path,
					   .options = options,
					   .timeout_ns = 60 * SECOND };
	json_t *stored = bench_stored_new();

	(void)state;
	assert_int_equal(bench_suite_run(&suite, "options", stored), 0);
	assert_non_null(bench_stored_find(json_object_get(stored, "results"),
					  "options --json --quick --runs 3"));
	json_decref(stored);
}

static void a_program_that_is_not_there_is_told(void **state)
{
	const struct bench_suite suite = { .program = "/nowhere/rpbench",
					   .options = no_options,
					   .timeout_ns = 60 * SECOND };
	json_t *stored = bench_stored_new();

	(void)state;
	assert_int_equal(bench_suite_run(&suite, "trace", stored), 0);
	assert_string_equal(bench_stored_text(command_at(stored, 0), "error"),
			    "ended with status 127: /nowhere/rpbench: No such file or "
			    "directory");
	json_decref(stored);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_fails_costs_the_others_nothing),
		cmocka_unit_test(a_name_of_two_is_the_first_ones),
		cmocka_unit_test(one_that_hangs_is_ended),
		cmocka_unit_test(options_are_handed_on),
		cmocka_unit_test(a_program_that_is_not_there_is_told),
	};

	return cmocka_run_group_tests_name("bench_suite", tests, write_script,
					   remove_script);
}
