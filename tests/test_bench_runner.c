/* SPDX-License-Identifier: MIT */
/* A plan is run with cases that take no time but say that they did: what they say must
 * come out, and each of their calls must have its place. */
#include "runner.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "check.h"

#define OPS  20
#define RUNS 3

/* What a case has seen of the runner. */
struct log {
	int setups, teardowns, enters, leaves, rounds;
	uint64_t ops;
	bool inside;
};

static struct log logs[4];

/* What a case is told to do; .arg of the case. */
struct role {
	struct log *log;
	double ns;	   /* each sample */
	int setup_ret;	   /* of the set-up */
	int fail_at_round; /* this round returns -EIO; 0: none */
	uint64_t failures; /* that each round counts */
};

static int role_setup(struct bench_case *c)
{
	const struct role *role = c->arg;

	role->log->setups++;
	if (role->setup_ret == BENCH_SKIP)
		rpi_fail(0, "this machine has no such thing");
	else if (role->setup_ret)
		rpi_fail(role->setup_ret, "the set-up went wrong");
	return role->setup_ret;
}

static int role_enter(struct bench_case *c)
{
	const struct role *role = c->arg;

	assert_false(role->log->inside);
	role->log->inside = true;
	role->log->enters++;
	return 0;
}

static void role_leave(struct bench_case *c)
{
	const struct role *role = c->arg;

	assert_true(role->log->inside);
	role->log->inside = false;
	role->log->leaves++;
}

static int role_round(struct bench_case *c, struct bench_round *round)
{
	const struct role *role = c->arg;

	assert_true(role->log->inside);
	assert_int_equal(round->seed, 42);
	if (++role->log->rounds == role->fail_at_round)
		return rpi_fail(-EIO, "the round went wrong");
	for (uint64_t i = 0; i < round->ops; i++)
		bench_samples_add(round->samples, role->ns);
	role->log->ops += round->ops;
	round->work = round->ops;
	round->failures = role->failures;
	if (role->failures)
		rpi_fail(0, "an operation went wrong");
	return 0;
}

static void role_teardown(struct bench_case *c)
{
	const struct role *role = c->arg;

	assert_false(role->log->inside);
	role->log->teardowns++;
}

static void add_role(struct bench_plan *plan, const char *name, const char *unit,
		     const char *limits, const struct role *role)
{
	struct bench_case c = { .unit = unit,
				.limits = limits,
				.per_sample = 4096,
				.arg = role,
				.setup = role_setup,
				.round = role_round,
				.teardown = role_teardown,
				.enter = role_enter,
				.leave = role_leave };

	snprintf(c.name, sizeof(c.name), "%s", name);
	assert_ok(bench_plan_add(plan, &c));
}

static const struct bench_options quick = {
	.quick = true, .run_count = RUNS, .seed = 42, .ops = OPS
};

static void run_plan(struct bench_plan *plan, struct bench_results *results)
{
	struct bench_pace pace;

	assert_ok(bench_runner_run(plan, &quick, results, &pace));
	assert_int_equal(pace.run_count, RUNS);
	assert_ok(bench_results_summarise(results));
	bench_plan_free(plan);
}

static int clear_logs(void **state)
{
	(void)state;
	memset(logs, 0, sizeof(logs));
	return 0;
}

static void what_the_samples_say_comes_out_in_the_unit_of_the_case(void **state)
{
	static const struct role fast = { .log = &logs[0], .ns = 100 };
	static const struct role slow = { .log = &logs[1], .ns = 400 };
	static const struct role moves = { .log = &logs[2], .ns = 1024 };
	static const struct role counts = { .log = &logs[3], .ns = 2048 };
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };
	const struct bench_result *r;

	(void)state;
	add_role(&plan, "slow", "ns", "fast", &slow);
	add_role(&plan, "fast", "ns", NULL, &fast);
	add_role(&plan, "moves", "GB/s", NULL, &moves);
	add_role(&plan, "counts", "1/s", NULL, &counts);
	run_plan(&plan, &results);
	assert_int_equal(results.count, 4);
	r = bench_result_find(&results, "slow");
	assert_near(r->median, 400);
	assert_near(r->ratio, 4);
	assert_int_equal(r->run_count, RUNS);
	assert_int_equal(r->ops, OPS);
	assert_true(isnan(r->p999));
	/* 4096 bytes in 1024 ns; 4096 things in 2048 ns. */
	assert_near(bench_result_find(&results, "moves")->median, 4);
	assert_near(bench_result_find(&results, "counts")->median, 2e9);
	assert_int_equal(bench_results_failures(&results), 0);
	bench_results_free(&results);
}

static void each_case_is_set_up_once_entered_and_left_and_torn_down(void **state)
{
	static const struct role role = { .log = &logs[0], .ns = 10 };
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };

	(void)state;
	add_role(&plan, "only", "ns", NULL, &role);
	run_plan(&plan, &results);
	assert_int_equal(logs[0].setups, 1);
	assert_int_equal(logs[0].teardowns, 1);
	assert_int_equal(logs[0].enters, logs[0].leaves);
	assert_true(logs[0].ops >= OPS * RUNS);
	bench_results_free(&results);
}

static void a_case_that_can_not_be_set_up_costs_its_own_line(void **state)
{
	static const struct role skips = { .log = &logs[0], .setup_ret = BENCH_SKIP };
	static const struct role fails = { .log = &logs[1], .setup_ret = -ENODEV };
	static const struct role works = { .log = &logs[2], .ns = 10 };
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };
	const struct bench_result *r;

	(void)state;
	add_role(&plan, "skips", "ns", NULL, &skips);
	add_role(&plan, "fails", "ns", NULL, &fails);
	add_role(&plan, "works", "ns", "skips|fails", &works);
	run_plan(&plan, &results);
	r = bench_result_find(&results, "skips");
	assert_true(r->skipped);
	assert_string_equal(r->text, "this machine has no such thing");
	assert_int_equal(r->failures, 0);
	r = bench_result_find(&results, "fails");
	assert_false(r->skipped);
	assert_int_equal(r->failures, 1);
	assert_string_equal(r->text, "the set-up went wrong");
	assert_int_equal(logs[0].teardowns + logs[1].teardowns, 0);
	assert_int_equal(logs[0].rounds + logs[1].rounds, 0);
	r = bench_result_find(&results, "works");
	assert_near(r->median, 10);
	assert_true(isnan(r->ratio));
	bench_results_free(&results);
}

static void a_case_that_ends_in_the_middle_has_failed(void **state)
{
	static const struct role warm_up = { .log = &logs[0],
					     .ns = 5,
					     .fail_at_round = 1 };
	static const struct role later = { .log = &logs[1],
					   .ns = 5,
					   .fail_at_round = 12 };
	static const struct role works = { .log = &logs[2], .ns = 10 };
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };

	(void)state;
	add_role(&plan, "warm-up", "ns", NULL, &warm_up);
	add_role(&plan, "later", "ns", NULL, &later);
	add_role(&plan, "works", "ns", NULL, &works);
	run_plan(&plan, &results);
	for (int i = 0; i < 2; i++) {
		const struct bench_result *r = results.all[i];

		assert_int_equal(r->failures, 1);
		assert_string_equal(r->text, "the round went wrong");
		assert_int_equal(logs[i].teardowns, 1);
		assert_int_equal(logs[i].enters, logs[i].leaves);
		/* It is not asked again. */
		assert_int_equal(logs[i].rounds, i ? 12 : 1);
	}
	assert_near(results.all[2]->median, 10);
	assert_int_equal(results.all[2]->run_count, RUNS);
	bench_results_free(&results);
}

static void failed_operations_are_counted_with_the_first_reason(void **state)
{
	static const struct role role = { .log = &logs[0], .ns = 10, .failures = 2 };
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };

	(void)state;
	add_role(&plan, "only", "ns", NULL, &role);
	run_plan(&plan, &results);
	assert_int_equal(results.all[0]->failures, 2 * (uint64_t)logs[0].rounds);
	assert_string_equal(results.all[0]->text, "an operation went wrong");
	bench_results_free(&results);
}

/* A rate of no time at all is no rate, and no infinity. */
static void a_rate_of_no_time_is_no_figure(void **state)
{
	static const struct role role = { .log = &logs[0], .ns = 0 };
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };

	(void)state;
	add_role(&plan, "only", "1/s", NULL, &role);
	run_plan(&plan, &results);
	assert_true(isnan(results.all[0]->median) && isnan(results.all[0]->max));
	bench_results_free(&results);
}

static uint64_t work_of_a_run(const struct role *role)
{
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };
	uint64_t work;

	clear_logs(NULL);
	add_role(&plan, "only", "ns", NULL, role);
	run_plan(&plan, &results);
	work = results.work;
	bench_results_free(&results);
	return work;
}

static void the_checksum_is_of_the_work_and_not_of_its_time(void **state)
{
	static const struct role once = { .log = &logs[0], .ns = 10 };
	static const struct role again = { .log = &logs[0], .ns = 99 };

	(void)state;
	assert_true(work_of_a_run(&once) == work_of_a_run(&again));
	assert_true(work_of_a_run(&once) != 0);
}

static void a_plan_of_nothing_has_no_results(void **state)
{
	struct bench_results results = { 0 };
	struct bench_plan plan = { 0 };

	(void)state;
	run_plan(&plan, &results);
	assert_int_equal(results.count, 0);
}

#define RUN_TEST(name) cmocka_unit_test_setup(name, clear_logs)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_TEST(what_the_samples_say_comes_out_in_the_unit_of_the_case),
		RUN_TEST(each_case_is_set_up_once_entered_and_left_and_torn_down),
		RUN_TEST(a_case_that_can_not_be_set_up_costs_its_own_line),
		RUN_TEST(a_case_that_ends_in_the_middle_has_failed),
		RUN_TEST(failed_operations_are_counted_with_the_first_reason),
		RUN_TEST(a_rate_of_no_time_is_no_figure),
		RUN_TEST(the_checksum_is_of_the_work_and_not_of_its_time),
		RUN_TEST(a_plan_of_nothing_has_no_results),
	};

	return cmocka_run_group_tests_name("bench_runner", tests, NULL, NULL);
}
