/* SPDX-License-Identifier: MIT */
/* The spin budget over sequences of gaps, the tick clock, the CPU count. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "completion/spin.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define US(n)	 ((uint64_t)(n)*1000u)
#define S(n)	 ((uint64_t)(n)*1000000000u)

/* Would this gap end in a sleep, and what does the side learn from it? */
static bool meets(struct rpi_spin *spin, uint64_t gap_ns)
{
	bool spun = rpi_spin_budget(spin) >= gap_ns;

	rpi_spin_observe(spin, gap_ns);
	return spun;
}

static void a_gap_of_5_us_never_sleeps(void **state)
{
	static const uint64_t between[] = { 0,	     US(1), US(19), US(150),
					    US(900), S(1),  S(100) };
	struct rpi_spin spin;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, false);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < COUNT(between); i++) {
			for (unsigned n = 0; n <= round % 4; n++)
				rpi_spin_observe(&spin, between[i]);
			assert_true(meets(&spin, US(5)));
		}
	}
}

static void long_gaps_cost_no_more_than_the_minimum(void **state)
{
	struct rpi_spin spin;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, false);
	/* From every state that quick dispatches leave behind. */
	for (unsigned i = 0; i < 100; i++)
		rpi_spin_observe(&spin, US(100));
	for (unsigned i = 0; i < 4; i++)
		rpi_spin_observe(&spin, S(1));
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(rpi_spin_budget(&spin), RPI_SPIN_MIN_NS);
		rpi_spin_observe(&spin, S(1));
	}
}

static void the_first_wait_spins_the_minimum(void **state)
{
	struct rpi_spin spin;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, false);
	assert_int_equal(rpi_spin_budget(&spin), RPI_SPIN_MIN_NS);
}

static void gaps_within_the_maximum_are_covered(void **state)
{
	static const uint64_t gaps[] = { US(21),  US(50),  US(100),
					 US(150), US(199), US(200) };

	(void)state;
	for (unsigned i = 0; i < COUNT(gaps); i++) {
		struct rpi_spin spin;
		unsigned asleep = 0;

		rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, false);
		for (unsigned n = 0; n < 100; n++)
			asleep += !meets(&spin, gaps[i]);
		/* "A few": it may only learn at the beginning. */
		assert_true(asleep <= 6);
		assert_true(rpi_spin_budget(&spin) >= gaps[i]);
		assert_true(rpi_spin_budget(&spin) <= RPI_SPIN_MAX_NS);
	}
}

static void jittering_gaps_are_covered(void **state)
{
	struct rpi_spin spin;
	unsigned asleep = 0, seed = 1;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, US(400), false);
	for (unsigned n = 0; n < 1000; n++) {
		seed = seed * 1103515245u + 12345u;
		asleep += !meets(&spin, US(60) + (seed >> 8) % US(80));
	}
	assert_true(asleep <= 5);
}

static void one_odd_gap_flips_nothing(void **state)
{
	struct rpi_spin spin;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, false);
	for (unsigned n = 0; n < 20; n++)
		rpi_spin_observe(&spin, US(100));
	rpi_spin_observe(&spin, S(1));
	assert_true(meets(&spin, US(100)));

	for (unsigned n = 0; n < 20; n++)
		rpi_spin_observe(&spin, S(1));
	rpi_spin_observe(&spin, US(100));
	assert_int_equal(rpi_spin_budget(&spin), RPI_SPIN_MIN_NS);
}

static void it_turns_within_a_few_dispatches(void **state)
{
	struct rpi_spin spin;
	unsigned n;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, false);
	for (unsigned round = 0; round < 3; round++) {
		for (n = 0; n < 50; n++)
			rpi_spin_observe(&spin, US(100));
		for (n = 0; rpi_spin_budget(&spin) != RPI_SPIN_MIN_NS; n++)
			rpi_spin_observe(&spin, S(1));
		assert_in_range(n, 2, 4);
		for (n = 0; n < 50; n++)
			rpi_spin_observe(&spin, S(1));
		for (n = 0; rpi_spin_budget(&spin) < US(100); n++)
			rpi_spin_observe(&spin, US(100));
		assert_in_range(n, 2, 4);
	}
}

static void the_budget_stays_within_its_bounds(void **state)
{
	static const struct {
		uint64_t min, max;
	} bounds[] = { { 1, 1 },
		       { 1, US(1) },
		       { US(50), US(10) },
		       { US(20), UINT64_MAX },
		       { UINT64_MAX, UINT64_MAX } };
	static const uint64_t gaps[] = { 0,	    1,	  US(3),
					 US(70),    S(2), UINT64_MAX / 8,
					 UINT64_MAX };

	(void)state;
	for (unsigned i = 0; i < COUNT(bounds); i++) {
		struct rpi_spin spin;

		rpi_spin_init(&spin, RPI_SPIN_HYBRID, bounds[i].min, bounds[i].max,
			      false);
		for (unsigned n = 0; n < 2000; n++) {
			rpi_spin_observe(&spin, gaps[n * 7 / 3 % COUNT(gaps)]);
			assert_true(rpi_spin_budget(&spin) >= spin.min_ns);
			assert_true(rpi_spin_budget(&spin) <= spin.max_ns);
			assert_true(rpi_spin_budget(&spin) != RPI_SPIN_FOREVER);
		}
	}
}

static void fixed_policies_learn_nothing(void **state)
{
	struct rpi_spin always, never;

	(void)state;
	rpi_spin_init(&always, RPI_SPIN_ALWAYS, 0, 0, true);
	rpi_spin_init(&never, RPI_SPIN_NEVER, US(20), US(200), false);
	for (unsigned n = 0; n < 20; n++) {
		assert_true(rpi_spin_budget(&always) == RPI_SPIN_FOREVER);
		assert_int_equal(rpi_spin_budget(&never), 0);
		rpi_spin_observe(&always, S(1));
		rpi_spin_observe(&never, 0);
	}
}

/* It gives its CPU away while it spins, so there is no need to sleep any earlier. */
static void a_crowded_machine_has_the_same_bounds(void **state)
{
	struct rpi_spin spin;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, true);
	for (unsigned n = 0; n < 50; n++) {
		assert_int_equal(rpi_spin_budget(&spin), RPI_SPIN_MIN_NS);
		rpi_spin_observe(&spin, US(1));
	}
	for (unsigned n = 0; n < 20; n++)
		rpi_spin_observe(&spin, US(50));
	assert_in_range(rpi_spin_budget(&spin), US(90), US(100));
	for (unsigned n = 0; n < 20; n++)
		rpi_spin_observe(&spin, RPI_SPIN_MAX_NS);
	assert_int_equal(rpi_spin_budget(&spin), RPI_SPIN_MAX_NS);
	for (unsigned n = 0; n < 20; n++)
		rpi_spin_observe(&spin, RPI_SPIN_MAX_NS + 1);
	assert_int_equal(rpi_spin_budget(&spin), RPI_SPIN_MIN_NS);
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, US(30), US(90), true);
	assert_int_equal(rpi_spin_budget(&spin), US(30));
	assert_int_equal(spin.max_ns, US(90));
}

/* Real time, but only lower bounds. */
static void the_loop_spins_for_its_budget(void **state)
{
	struct rpi_spin_wait wait;
	struct rpi_spin spin;
	uint64_t begin_ns;

	(void)state;
	rpi_clock_setup();
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, US(300), US(300), false);
	begin_ns = rpi_now_ns();
	rpi_spin_begin(&wait, &spin);
	while (rpi_spin_again(&wait))
		;
	/* One part in a hundred for the calibration. */
	assert_true(rpi_now_ns() - begin_ns >= US(297));
	rpi_spin_end(&wait, true);
	assert_true(spin.trust < 2); /* it lasted longer than the maximum */

	rpi_spin_init(&spin, RPI_SPIN_NEVER, 0, 0, false);
	rpi_spin_begin(&wait, &spin);
	assert_false(rpi_spin_again(&wait));
	rpi_spin_end(&wait, true);

	rpi_spin_init(&spin, RPI_SPIN_ALWAYS, 0, 0, true);
	rpi_spin_begin(&wait, &spin);
	for (unsigned n = 0; n < 1000; n++)
		assert_true(rpi_spin_again(&wait));
	rpi_spin_end(&wait, true);
}

static void the_clock_agrees_with_the_kernels(void **state)
{
	uint64_t ns, ticks, measured;

	(void)state;
	rpi_clock_setup();
	rpi_clock_setup();
	print_message("clock: %s, %llu Hz\n", rpi_clock.source,
		      (unsigned long long)rpi_clock.frequency);
	/* Preempted between the two readings it would be wrong; a few tries. */
	for (unsigned i = 0; i < 20; i++) {
		ns = rpi_now_ns();
		ticks = rpi_clock_ticks();
		usleep(20000);
		measured = rpi_clock_to_ns(rpi_clock_ticks() - ticks);
		ns = rpi_now_ns() - ns;
		if (measured > ns - ns / 100 && measured < ns + ns / 100)
			return;
	}
	fail_msg("%llu ns by the counter, %llu ns by the kernel",
		 (unsigned long long)measured, (unsigned long long)ns);
}

static void lengths_survive_the_way_there_and_back(void **state)
{
	static const uint64_t ns[] = { 0, 1000, US(20), US(200), S(1), S(100000) };

	(void)state;
	rpi_clock_setup();
	for (unsigned i = 0; i < COUNT(ns); i++) {
		uint64_t back = rpi_clock_to_ns(rpi_clock_from_ns(ns[i]));

		assert_true(back <= ns[i] + 2);
		assert_true(back + 2 + ns[i] / 1000000 >= ns[i]);
	}
	assert_true(rpi_clock_from_ns(UINT64_MAX) == UINT64_MAX);
}

static void a_frequency_is_believed_only_if_measured(void **state)
{
	static const struct {
		const char *name;
		uint64_t told, first, second, want;
	} cases[] = {
		{ "nothing told", 0, 2100000000, 2100200000, 2100100000 },
		{ "told and true", 2100000000, 2100100000, 2100200000, 2100000000 },
		{ "told and wrong", 1000000000, 2100000000, 2100000000, 2100000000 },
		{ "uneven", 2100000000, 2100000000, 2300000000, 0 },
		{ "uneven, falling", 0, 2300000000, 2100000000, 0 },
		{ "stopped", 0, 0, 0, 0 },
		{ "too slow", 0, 32768, 32768, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		uint64_t got =
			rpi_clock_judge(cases[i].told, cases[i].first, cases[i].second);

		if (got != cases[i].want)
			fail_msg("%s: %llu", cases[i].name, (unsigned long long)got);
	}
}

static void cpus_allowed_follows_the_affinity_mask(void **state)
{
	cpu_set_t all, one;
	unsigned cpu = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	assert_in_range(rpi_cpu_allowed(), 1, (unsigned)CPU_COUNT(&all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(rpi_cpu_allowed(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* A file with its directories below the test's own root. */
static void put(const char *root, const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(full, 0700);
		*at = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void remove_tree(const char *root)
{
	char command[600];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	assert_int_equal(system(command), 0);
}

#define V2_MOUNT "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define V1_MOUNT "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_SET	 "33 25 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"

static void a_cgroup_quota_is_rounded_up_and_the_tightest_counts(void **state)
{
	static const struct {
		const char *name, *cgroup, *mounts;
		struct {
			const char *path, *text;
		} files[3];
		unsigned want;
	} cases[] = {
		{ "nothing there", "", "", { { 0 } }, 0 },
		{ "v2 no limit",
		  "0::/a\n",
		  V2_MOUNT,
		  { { "/sys/fs/cgroup/a/cpu.max", "max 100000\n" } },
		  0 },
		{ "v2 one and a half",
		  "0::/a\n",
		  V2_MOUNT,
		  { { "/sys/fs/cgroup/a/cpu.max", "150000 100000\n" } },
		  2 },
		{ "v2 below one",
		  "0::/a\n",
		  V2_MOUNT,
		  { { "/sys/fs/cgroup/a/cpu.max", "1000 100000\n" } },
		  1 },
		{ "v2 the parent is tighter",
		  "0::/a/b/c\n",
		  V2_MOUNT,
		  { { "/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n" },
		    { "/sys/fs/cgroup/a/cpu.max", "300000 100000\n" } },
		  3 },
		{ "v2 own namespace",
		  "0::/\n",
		  V2_MOUNT,
		  { { "/sys/fs/cgroup/cpu.max", "200000 100000\n" } },
		  2 },
		{ "v2 inherited namespace",
		  "0::/docker/x\n",
		  "30 25 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		  { { "/sys/fs/cgroup/cpu.max", "400000 100000\n" } },
		  4 },
		{ "v1",
		  "4:memory:/m\n3:cpu,cpuacct:/a\n0::/\n",
		  V1_SET V1_MOUNT,
		  { { "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n" },
		    { "/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "10000\n" } },
		  5 },
		{ "v1 no limit",
		  "3:cpu:/a\n",
		  V1_MOUNT,
		  { { "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n" },
		    { "/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n" } },
		  0 },
		{ "v1 cpuset is not cpu",
		  "3:cpuset:/a\n",
		  V1_SET,
		  { { "/sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "50000\n" },
		    { "/sys/fs/cgroup/cpuset/a/cpu.cfs_period_us", "10000\n" } },
		  0 },
		{ "nonsense",
		  "0::/a\n",
		  V2_MOUNT "garbage\n - \n",
		  { { "/sys/fs/cgroup/a/cpu.max", "12\n" } },
		  0 },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		char root[] = "/tmp/rpi_cpus_XXXXXX";
		unsigned got;

		assert_non_null(mkdtemp(root));
		put(root, "/proc/self/cgroup", cases[i].cgroup);
		put(root, "/proc/self/mountinfo", cases[i].mounts);
		for (unsigned f = 0; f < COUNT(cases[i].files); f++)
			if (cases[i].files[f].path)
				put(root, cases[i].files[f].path, cases[i].files[f].text);
		got = rpi_cpu_quota_under(root);
		remove_tree(root);
		if (got != cases[i].want)
			fail_msg("%s: %u, expected %u", cases[i].name, got,
				 cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest spin[] = {
		cmocka_unit_test(a_gap_of_5_us_never_sleeps),
		cmocka_unit_test(long_gaps_cost_no_more_than_the_minimum),
		cmocka_unit_test(the_first_wait_spins_the_minimum),
		cmocka_unit_test(gaps_within_the_maximum_are_covered),
		cmocka_unit_test(jittering_gaps_are_covered),
		cmocka_unit_test(one_odd_gap_flips_nothing),
		cmocka_unit_test(it_turns_within_a_few_dispatches),
		cmocka_unit_test(the_budget_stays_within_its_bounds),
		cmocka_unit_test(fixed_policies_learn_nothing),
		cmocka_unit_test(a_crowded_machine_has_the_same_bounds),
		cmocka_unit_test(the_loop_spins_for_its_budget),
		cmocka_unit_test(the_clock_agrees_with_the_kernels),
		cmocka_unit_test(lengths_survive_the_way_there_and_back),
		cmocka_unit_test(a_frequency_is_believed_only_if_measured),
		cmocka_unit_test(cpus_allowed_follows_the_affinity_mask),
		cmocka_unit_test(a_cgroup_quota_is_rounded_up_and_the_tightest_counts),
	};

	return cmocka_run_group_tests(spin, NULL, NULL);
}
