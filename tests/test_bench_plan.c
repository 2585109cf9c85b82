/* SPDX-License-Identifier: MIT */
/* The list of cases that a sub-command offers, and what --only leaves of it. */
#include "case.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "proc.h"

static int add(struct bench_plan *plan, const char *name, const char *limits)
{
	struct bench_case c = { .unit = "ns", .limits = limits };

	snprintf(c.name, sizeof(c.name), "%s", name);
	return bench_plan_add(plan, &c);
}

static void plan_new(struct bench_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	assert_ok(add(plan, "line", NULL));
	assert_ok(add(plan, "pipe", "line"));
	assert_ok(add(plan, "wake.pipe", "pipe|futex"));
	assert_ok(add(plan, "futex", NULL));
	assert_ok(add(plan, "size.1", NULL));
	assert_ok(add(plan, "size.2", NULL));
	assert_ok(bench_plan_derive(plan, "slope", "ns", "line", "size.*"));
}

/* The names that are left, cases first, each followed by a blank. */
static void names(const struct bench_plan *plan, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < plan->case_count && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s ",
					 plan->cases[i].name);
	for (size_t i = 0; i < plan->derived_count && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s ",
					 plan->derived[i].name);
}

static void a_pattern_keeps_what_it_names_and_all_that_this_needs(void **state)
{
	static const struct {
		const char *pattern, *want;
	} cases[] = {
		{ NULL, "line pipe wake.pipe futex size.1 size.2 slope " },
		{ "*", "line pipe wake.pipe futex size.1 size.2 slope " },
		{ "line", "line " },
		{ "pipe", "line pipe " },
		/* Its limits, and the limit of one of them. */
		{ "wake*", "line pipe wake.pipe futex " },
		{ "size.?", "size.1 size.2 " },
		{ "slope", "line size.1 size.2 slope " },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct bench_plan plan;
		char text[256];

		plan_new(&plan);
		assert_ok(bench_plan_select(&plan, cases[i].pattern));
		names(&plan, text, sizeof(text));
		assert_string_equal(text, cases[i].want);
		bench_plan_free(&plan);
	}
}

static void a_pattern_that_names_nothing_is_refused(void **state)
{
	static const char *const patterns[] = { "nothing", "", "lin", "wake", "[" };

	(void)state;
	for (size_t i = 0; i < COUNT(patterns); i++) {
		struct bench_plan plan;

		plan_new(&plan);
		assert_int_equal(bench_plan_select(&plan, patterns[i]), -ENOENT);
		assert_says("--only", patterns[i], "expected a pattern");
		bench_plan_free(&plan);
	}
}

static int add_case(void *arg)
{
	struct bench_plan plan;

	plan_new(&plan);
	PROC_MUST(!add(&plan, arg, NULL));
	return 0;
}

static int add_derived(void *arg)
{
	struct bench_plan plan;

	plan_new(&plan);
	PROC_MUST(!bench_plan_derive(&plan, arg, "ns", NULL, "size.*"));
	return 0;
}

static void a_name_is_there_once_in_cases_and_derived_lines(void **state)
{
	char of_case[] = "pipe", of_derived[] = "slope", fresh[] = "fresh", empty[] = "";

	(void)state;
	assert_true(proc_aborts(add_case, of_case));
	assert_true(proc_aborts(add_case, of_derived));
	assert_true(proc_aborts(add_derived, of_case));
	assert_true(proc_aborts(add_derived, of_derived));
	assert_true(proc_aborts(add_case, empty));
	assert_int_equal(proc_in_host(add_case, fresh), 0);
	assert_int_equal(proc_in_host(add_derived, fresh), 0);
}

static int add_rate_of_nothing(void *arg)
{
	struct bench_plan plan = { 0 };
	struct bench_case c = { .name = "rate", .unit = arg };

	PROC_MUST(!bench_plan_add(&plan, &c));
	return 0;
}

static void a_rate_says_what_a_sample_moves(void **state)
{
	char rate[] = "GB/s", count[] = "1/s", time[] = "ns";

	(void)state;
	assert_true(proc_aborts(add_rate_of_nothing, rate));
	assert_true(proc_aborts(add_rate_of_nothing, count));
	assert_false(proc_aborts(add_rate_of_nothing, time));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pattern_keeps_what_it_names_and_all_that_this_needs),
		cmocka_unit_test(a_pattern_that_names_nothing_is_refused),
		cmocka_unit_test(a_name_is_there_once_in_cases_and_derived_lines),
		cmocka_unit_test(a_rate_says_what_a_sample_moves),
	};

	return cmocka_run_group_tests_name("bench_plan", tests, NULL, NULL);
}
