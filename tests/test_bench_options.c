/* SPDX-License-Identifier: MIT */
/* The command line of a sub-command: what it means, and what is refused by name. */
#include "options.h"

#include <errno.h>
#include <popt.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "command.h"
#include "topology.h"

static int own_flag;

static const struct poptOption own_options[] = { { "own", 0, POPT_ARG_NONE, &own_flag, 0,
						   "an option of the sub-command", NULL },
						 POPT_TABLEEND };

static const struct bench_command command = { .name = "limits", .options = own_options };

/* Parse up to three words; the caller ends the options. */
static int parse(struct bench_options *options, const char *const *words)
{
	const char *argv[5] = { "rpbench limits" };
	int argc = 1;

	while (argc < 4 && words[argc - 1]) {
		argv[argc] = words[argc - 1];
		argc++;
	}
	return bench_options_parse(options, &command, argc, argv);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL, NULL, NULL })

static void without_a_word_the_defaults_are_in_force(void **state)
{
	struct bench_options options;

	(void)state;
	assert_ok(parse(&options, WORDS(NULL)));
	assert_int_equal(options.format, BENCH_FORMAT_TEXT);
	assert_false(options.quick);
	assert_int_equal(options.run_count, 9);
	assert_int_equal(options.seed, 42);
	assert_int_equal(options.ops, 0);
	assert_null(options.only);
	assert_true(bench_cpu_allowed(options.cpu[BENCH_PARENT]));
	assert_true(bench_cpu_allowed(options.cpu[BENCH_PEER]));
	bench_options_free(&options);
}

static void each_option_does_what_it_says(void **state)
{
	struct bench_options options;
	char pair[32];
	int cpu = 0;

	(void)state;
	assert_ok(parse(&options, WORDS("--quick", "--json")));
	assert_true(options.quick);
	assert_int_equal(options.format, BENCH_FORMAT_JSON);
	assert_int_equal(options.run_count, 5);
	bench_options_free(&options);

	assert_ok(parse(&options, WORDS("-q", "--csv", "--runs=3")));
	assert_int_equal(options.format, BENCH_FORMAT_CSV);
	assert_int_equal(options.run_count, 3);
	bench_options_free(&options);

	assert_ok(parse(&options, WORDS("--ops=1", "--seed=-1", "--only=a*")));
	assert_int_equal(options.ops, 1);
	assert_true(options.seed == UINT64_MAX);
	assert_string_equal(options.only, "a*");
	bench_options_free(&options);

	assert_ok(parse(&options, WORDS("--ops", "4611686018427387904", "-r1000")));
	assert_true(options.ops == UINT64_C(1) << 62);
	assert_int_equal(options.run_count, 1000);
	bench_options_free(&options);

	while (!bench_cpu_allowed(cpu))
		cpu++;
	snprintf(pair, sizeof(pair), "%d,%d", cpu, cpu);
	assert_ok(parse(&options, WORDS("--cpus", pair, "--own")));
	assert_int_equal(options.cpu[BENCH_PARENT], cpu);
	assert_int_equal(options.cpu[BENCH_PEER], cpu);
	assert_true(bench_one_cpu(&options));
	assert_int_equal(own_flag, 1);
	bench_options_free(&options);
}

static void a_value_that_is_not_right_is_refused_by_name(void **state)
{
	static const struct {
		const char *words[3];
		const char *needles[2];
	} cases[] = {
		{ { "--runs", "0" }, { "--runs: 0", "expected 1 to 1000" } },
		{ { "--runs", "-1" }, { "--runs: -1", "expected 1 to 1000" } },
		{ { "--runs", "1001" }, { "--runs: 1001", "expected 1 to 1000" } },
		{ { "--runs", "99999999999" }, { "99999999999", "number" } },
		{ { "--runs", "many" }, { "many", "numeric" } },
		{ { "--runs", "3x" }, { "3x", "numeric" } },
		{ { "--runs=" }, { "--runs" } },
		{ { "--runs" }, { "--runs" } },
		{ { "--ops", "0" }, { "--ops: 0", "expected 1 or more" } },
		{ { "--ops", "-5" }, { "--ops: -5", "expected 1 or more" } },
		{ { "--ops", "9223372036854775808" },
		  { "9223372036854775808", "number" } },
		{ { "--ops", "1e6" }, { "1e6", "numeric" } },
		{ { "--seed", "now" }, { "now", "numeric" } },
		{ { "--cpus", "0" }, { "--cpus: \"0\"", "expected two numbers" } },
		{ { "--cpus", "0," }, { "--cpus: \"0,\"", "expected two numbers" } },
		{ { "--cpus", "" }, { "--cpus: \"\"", "expected two numbers" } },
		{ { "--cpus", "0,0,0" }, { "\"0,0,0\"", "expected two numbers" } },
		{ { "--cpus", "0,0x" }, { "\"0,0x\"", "expected two numbers" } },
		{ { "--cpus", "a,b" }, { "\"a,b\"", "expected two numbers" } },
		{ { "--cpus", "-1,-1" }, { "--cpus: -1", "may use" } },
		{ { "--cpus", "99999,0" }, { "--cpus: 99999", "may use" } },
		{ { "--cpus", "1024,1024" }, { "--cpus: 1024", "may use" } },
		/* What else was given does not get lost. */
		{ { "--only=x", "--cpus", "none" }, { "--cpus: \"none\"" } },
		{ { "--json", "--csv" }, { "--json and --csv", "expected one" } },
		{ { "--fast" }, { "--fast" } },
		{ { "-x" }, { "-x" } },
		{ { "--quick=yes" }, { "--quick" } },
		{ { "more" }, { "limits: \"more\"", "expected options only" } },
		{ { "--quick", "--", "more" }, { "\"more\"", "expected options only" } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct bench_options options;

		print_message("  %s %s\n", cases[i].words[0],
			      cases[i].words[1] ? cases[i].words[1] : "");
		assert_int_equal(parse(&options, cases[i].words), -EINVAL);
		assert_says(cases[i].needles[0],
			    cases[i].needles[1] ? cases[i].needles[1] : "");
		bench_options_free(&options);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_word_the_defaults_are_in_force),
		cmocka_unit_test(each_option_does_what_it_says),
		cmocka_unit_test(a_value_that_is_not_right_is_refused_by_name),
	};

	return cmocka_run_group_tests_name("bench_options", tests, NULL, NULL);
}
