/* SPDX-License-Identifier: MIT */
#include "runtime/sizing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#define NONE                      \
	{                         \
		{                 \
			{         \
				0 \
			}         \
		}                 \
	}

static struct rp_run_config config_of(enum rpi_resource resource,
				      struct rp_ring_sizes sizes)
{
	struct rp_run_config config = { .size = sizeof(config) };

	if (resource == RPI_TASK_WINDOW)
		config.ring_task_window = sizes;
	else if (resource == RPI_HEAP)
		config.ring_heap = sizes;
	else
		config.ring_dep_pool = sizes;
	return config;
}

static void each_rule_has_its_edges(void **state)
{
	static const struct {
		enum rpi_resource resource;
		uint64_t value;
		int want;
	} cases[] = {
		{ RPI_TASK_WINDOW, 0, 0 },
		{ RPI_TASK_WINDOW, 1, -EINVAL },
		{ RPI_TASK_WINDOW, 2, -EINVAL },
		{ RPI_TASK_WINDOW, 3, -EINVAL },
		{ RPI_TASK_WINDOW, 4, 0 },
		{ RPI_TASK_WINDOW, 5, -EINVAL },
		{ RPI_TASK_WINDOW, 1u << 30, 0 },
		{ RPI_TASK_WINDOW, 1u << 31, -EINVAL },
		{ RPI_TASK_WINDOW, UINT64_MAX, -EINVAL },
		{ RPI_HEAP, 512, -EINVAL },
		{ RPI_HEAP, 1000, -EINVAL },
		{ RPI_HEAP, 1023, -EINVAL },
		{ RPI_HEAP, 1024, 0 },
		{ RPI_HEAP, 1025, -EINVAL },
		{ RPI_HEAP, 1ull << 40, 0 },
		{ RPI_HEAP, 1ull << 63, -EINVAL },
		{ RPI_DEP_POOL, 3, -EINVAL },
		{ RPI_DEP_POOL, 4, 0 },
		{ RPI_DEP_POOL, 5, 0 },
		{ RPI_DEP_POOL, 1000, 0 },
		{ RPI_DEP_POOL, INT32_MAX, 0 },
		{ RPI_DEP_POOL, 1ull << 31, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rp_run_config all =
			config_of(cases[i].resource,
				  (struct rp_ring_sizes){ .all = cases[i].value });
		struct rp_run_config one = config_of(
			cases[i].resource,
			(struct rp_ring_sizes){ .ring = { 0, 0, cases[i].value, 0 } });
		char value[24];

		assert_int_equal(rpi_sizing_check("call", &all), cases[i].want);
		assert_int_equal(rp_run_config_check(&all), cases[i].want);
		if (cases[i].want) {
			snprintf(value, sizeof(value), "%" PRIu64, cases[i].value);
			assert_says("rp_run_config_check",
				    rpi_resource_name(cases[i].resource), "must be",
				    value);
		}
		assert_int_equal(rpi_sizing_check("call", &one), cases[i].want);
		if (cases[i].want)
			assert_says("call", "[2]", value);
	}
}

static void the_message_names_field_rule_and_value(void **state)
{
	struct rp_run_config config =
		config_of(RPI_HEAP, (struct rp_ring_sizes){ .all = 1000 });

	(void)state;
	assert_int_equal(rpi_sizing_check("call", &config), -EINVAL);
	assert_string_equal(rp_last_error(),
			    "call: ring_heap must be a power of 2 >= 1024 "
			    "(bytes per ring), got 1000");
}

static void heaps_that_no_address_space_holds_are_refused(void **state)
{
	struct rp_run_config config =
		config_of(RPI_HEAP, (struct rp_ring_sizes){ .all = 1ull << 45 });

	(void)state;
	assert_int_equal(rpi_sizing_check("call", &config), -EINVAL);
	assert_says("ring_heap", "adds up to");
}

static void one_ring_may_differ_from_the_others(void **state)
{
	struct rp_run_config config =
		config_of(RPI_TASK_WINDOW,
			  (struct rp_ring_sizes){ .all = 64, .ring = { 0, 512, 0, 0 } });
	struct rpi_sizing asked, out, none = NONE;

	(void)state;
	rpi_sizing_from_config(&config, &asked);
	rpi_sizing_resolve(&asked, &none, &out);
	for (int ring = 0; ring < RP_RING_COUNT; ring++) {
		assert_int_equal(out.size[RPI_TASK_WINDOW][ring], ring == 1 ? 512 : 64);
		assert_int_equal(out.size[RPI_HEAP][ring], 256 << 20);
		assert_int_equal(out.size[RPI_DEP_POOL][ring], 16384);
	}
}

static const char *fake_window, *fake_heap, *fake_pool;

static char *fake_env(const char *name)
{
	const char *value = !strcmp(name, "PTO2_RING_TASK_WINDOW") ? fake_window
			    : !strcmp(name, "PTO2_RING_HEAP")	   ? fake_heap
			    : !strcmp(name, "PTO2_RING_DEP_POOL")  ? fake_pool
								   : NULL;

	return (char *)(uintptr_t)value;
}

static char logged[512];
static int log_lines;

static void log_line(enum rp_log_level level, const char *line, void *user)
{
	(void)level;
	(void)user;
	log_lines++;
	snprintf(logged, sizeof(logged), "%s", line);
}

static void each_ring_takes_the_first_source_that_has_a_value(void **state)
{
	struct rp_run_config config = config_of(
		RPI_TASK_WINDOW, (struct rp_ring_sizes){ .ring = { 0, 512, 0, 0 } });
	struct rpi_sizing asked, env, out;

	(void)state;
	fake_window = "64,32,0,8";
	fake_heap = "2048";
	fake_pool = NULL;
	rpi_sizing_from_env(fake_env, &env);
	rpi_sizing_from_config(&config, &asked);
	rpi_sizing_resolve(&asked, &env, &out);
	assert_int_equal(out.size[RPI_TASK_WINDOW][0], 64);
	assert_int_equal(out.size[RPI_TASK_WINDOW][1], 512);
	assert_int_equal(out.size[RPI_TASK_WINDOW][2], 16384);
	assert_int_equal(out.size[RPI_TASK_WINDOW][3], 8);
	for (int ring = 0; ring < RP_RING_COUNT; ring++)
		assert_int_equal(out.size[RPI_HEAP][ring], 2048);
	rpi_sizing_from_config(NULL, &asked);
	rpi_sizing_resolve(&asked, &env, &out);
	assert_int_equal(out.size[RPI_TASK_WINDOW][1], 32);
}

static void nonsense_in_the_environment_is_ignored_with_one_line(void **state)
{
	static const char *const texts[] = { "abc",
					     "63",
					     "64,32,16",
					     "64,32,16,8,4",
					     "64,32,x,8",
					     "-4",
					     "0",
					     "64,",
					     "99999999999999999999999",
					     "4 4",
					     "0x40" };
	struct rpi_sizing env, none = NONE;

	(void)state;
	fake_heap = fake_pool = NULL;
	rp_log_set(log_line, NULL, RP_LOG_INFO);
	for (size_t i = 0; i < COUNT(texts); i++) {
		fake_window = texts[i];
		log_lines = 0;
		rpi_sizing_from_env(fake_env, &env);
		assert_true(rpi_sizing_equal(&env, &none));
		assert_int_equal(log_lines, 1);
		assert_non_null(strstr(logged, "PTO2_RING_TASK_WINDOW"));
		assert_non_null(strstr(logged, texts[i]));
	}
	fake_window = "";
	log_lines = 0;
	rpi_sizing_from_env(fake_env, &env);
	assert_int_equal(log_lines, 0);
	rp_log_set(NULL, NULL, RP_LOG_INFO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_has_its_edges),
		cmocka_unit_test(the_message_names_field_rule_and_value),
		cmocka_unit_test(heaps_that_no_address_space_holds_are_refused),
		cmocka_unit_test(one_ring_may_differ_from_the_others),
		cmocka_unit_test(each_ring_takes_the_first_source_that_has_a_value),
		cmocka_unit_test(nonsense_in_the_environment_is_ignored_with_one_line),
	};

	return cmocka_run_group_tests_name("runtime_sizing", tests, NULL, NULL);
}
