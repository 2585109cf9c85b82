/* SPDX-License-Identifier: MIT */
/* What rpbench says of the machine, where something else can be asked as well. */
#include "machine.h"

#include <string.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "pages.h"
#include "topology.h"

static void the_pages_are_those_that_a_shared_region_gets(void **state)
{
	struct bench_options options = { .cpu = { 0, 0 } };
	struct bench_machine machine;

	(void)state;
	bench_clock_init();
	bench_machine_probe(&machine, &options);
	print_message("pages=%s\n", machine.pages);
	if (pages_in_pool(1))
		assert_string_equal(machine.pages, "huge");
	else if (!pages_thp_allowed())
		assert_string_equal(machine.pages, "4k");
	else /* allowed is not given: the kernel may have had none */
		assert_true(!strcmp(machine.pages, "thp") ||
			    !strcmp(machine.pages, "4k"));
}

static void the_rest_is_filled_in(void **state)
{
	struct bench_options options;
	struct bench_machine machine;

	(void)state;
	assert_ok(bench_cpus_choose(options.cpu));
	bench_clock_init();
	bench_machine_probe(&machine, &options);
	assert_string_not_equal(machine.version, "");
	assert_string_not_equal(machine.compiler, "");
	assert_string_not_equal(machine.cpu_model, "");
	assert_string_not_equal(machine.kernel, "");
	assert_int_equal(machine.cpu_count, bench_cpu_count());
	assert_true(machine.cpu_count >= 1);
	assert_true(machine.clock_ns > 0);
	/* A reason where there is none, and none where there is one. */
	assert_int_equal(machine.uring, machine.uring_reason[0] == '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_pages_are_those_that_a_shared_region_gets),
		cmocka_unit_test(the_rest_is_filled_in),
	};

	return cmocka_run_group_tests_name("bench_machine", tests, NULL, NULL);
}
