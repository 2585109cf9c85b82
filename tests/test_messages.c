/* SPDX-License-Identifier: MIT */
/* What an error line says: who, where, with what number, and what would do instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "base/testing.h"
#include "deed.h"
#include "noop.h"
#include "proc.h"
#include "support.h"

/* --- Memory ------------------------------------------------------------------ */

static int copy_from(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_COPY, rp_in(TENSOR(arg, RP_INT64, 4)));
}

static void memory_that_is_not_shared_is_refused_with_where_to_get_it(void **state)
{
	static const struct rp_param param = { .name = "x",
					       .kind = RP_ARG_TENSOR,
					       .dtype = RP_INT64,
					       .access = RP_IN,
					       .rank = 1,
					       .shape = { 4 } };
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct bed bed;
	void *heap = calloc(4, 8);

	(void)state;
	bed_options(&options, 1);
	bed_describe(&desc, "late", &param, 1);
	bed_prepare(&bed, &desc, &options);
	assert_int_equal(RUN(&bed, rp_arg_tensor(TENSOR(heap, RP_INT64, 4))), -EFAULT);
	assert_says("rp_worker_submit: 'x'", "32 bytes",
		    "expected memory from rp_shared_alloc()");
	bed_close(&bed);

	bed_open(&bed, 1);
	assert_int_equal(bed_run(&bed, copy_from, heap), -EFAULT);
	assert_says("rp_run_task: argument 0", "32 bytes",
		    "expected memory from rp_shared_alloc()");
	bed_close(&bed);
	free(heap);
}

/* --- Start-up ---------------------------------------------------------------- */

/* Fails a point with an errno, in the process of one name or in whichever is the
 * nth. Inherited by fork: a process counts for itself from there. */
static struct {
	const char *point;
	const char *process; /* NULL: whichever it is */
	int nth;
	int err;
	int hits;
} rig;

static int hook(const char *point)
{
	char name[16] = "";

	if (strcmp(point, rig.point))
		return 0;
	prctl(PR_GET_NAME, name);
	if (rig.process && strcmp(name, rig.process))
		return 0;
	return ++rig.hits == rig.nth ? rig.err : 0;
}

static void arm(const char *point, const char *process, int nth, int err)
{
	rig.point = point;
	rig.process = process;
	rig.nth = nth;
	rig.err = err;
	rig.hits = 0;
	rpi_test_hook = hook;
}

/* Two chips and a callback worker. */
static int prepare_three(struct rp_worker **worker_out)
{
	static const struct rp_callback callback = { .name = "look",
						     .fn = noop_callback };
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_program *program;
	int err;

	bed_describe(&desc, "trio", NULL, 0);
	desc.callbacks = &callback;
	desc.callback_count = 1;
	bed_options(&options, 2);
	assert_ok(rp_program_create(&desc, &program));
	err = rp_worker_prepare(&program, 1, &options, worker_out);
	rp_program_free(program);
	return err;
}

static void a_start_that_fails_names_the_process_its_phase_and_the_errno(void **state)
{
	static const struct {
		const char *process;
		const char *who;
	} peers[] = {
		{ "rp-chip0", "chip 0 (rp-chip0)" },
		{ "rp-chip1", "chip 1 (rp-chip1)" },
		{ "rp-call0", "callback worker 0 (rp-call0)" },
	};
	static const struct {
		const char *point;
		const char *phase;
		bool chips_only;
	} points[] = {
		{ "child.clean", "failed while touching its memory", false },
		{ "child.memory", "failed while opening its device", false },
		{ "sim.open", "failed while opening its device: sim: ", true },
		{ "child.backend", "failed while becoming ready", false },
	};
	struct rp_worker *worker;

	(void)state;
	for (size_t i = 0; i < COUNT(points); i++) {
		for (size_t peer = 0; peer < COUNT(peers); peer++) {
			if (points[i].chips_only && peer == 2)
				continue;
			arm(points[i].point, peers[peer].process, 1, -EXFULL);
			assert_int_equal(prepare_three(&worker), -EXFULL);
			assert_says("rp_worker_prepare: ", peers[peer].who,
				    points[i].phase, strerror(EXFULL));
			/* Once. */
			assert_null(strstr(strstr(rp_last_error(), strerror(EXFULL)) + 1,
					   strerror(EXFULL)));
		}
	}
}

static void a_fork_that_fails_names_the_process(void **state)
{
	static const char *const who[] = { "chip 0 (rp-chip0)", "chip 1 (rp-chip1)",
					   "callback worker 0 (rp-call0)" };
	struct rp_worker *worker;

	(void)state;
	for (int nth = 1; nth <= 3; nth++) {
		arm("process.fork", NULL, nth, -EAGAIN);
		assert_int_equal(prepare_three(&worker), -EAGAIN);
		assert_says("rp_worker_prepare: ", who[nth - 1], "fork",
			    strerror(EAGAIN));
	}
}

static void a_cpu_that_can_not_be_had_is_no_matter_of_memory(void **state)
{
	static const int cpus[] = { -1, 1023 };
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	if (sysconf(_SC_NPROCESSORS_CONF) > 1023) {
		print_message("skipped: this machine has a CPU 1023\n");
		skip();
	}
	deed_options(&options, 2);
	options.chip_cpus = cpus;
	assert_int_equal(deed_prepare(&options, &worker), -EINVAL);
	assert_says("chip 1 (rp-chip1) failed while setting itself up", "CPU 1023",
		    strerror(EINVAL));
}

/* --- Programs that disagree --------------------------------------------------- */

static struct rp_program *program_for(const char *name, uint32_t chip_count)
{
	struct rp_program_desc desc;
	struct rp_program *program;

	bed_describe(&desc, name, NULL, 0);
	desc.chip_count = chip_count;
	assert_ok(rp_program_create(&desc, &program));
	return program;
}

/* Whatever the options say, and in whichever place the two are. */
static void programs_of_other_chip_counts_are_both_named_with_both_counts(void **state)
{
	struct rp_program *programs[] = { program_for("any", 0), program_for("two", 2),
					  program_for("three", 3) };
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	for (uint32_t chip_count = 1; chip_count <= 4; chip_count++) {
		bed_options(&options, chip_count);
		assert_int_equal(rp_worker_prepare(programs, 3, &options, &worker),
				 -EINVAL);
		assert_says("'two' needs 2 chips", "'three' needs 3 chips");
		assert_int_equal(rp_worker_prepare(programs + 1, 2, &options, &worker),
				 -EINVAL);
		assert_says("'two' needs 2 chips", "'three' needs 3 chips");
	}
	bed_options(&options, 4);
	assert_int_equal(rp_worker_prepare(programs, 2, &options, &worker), -EINVAL);
	assert_says("'two' needs 2 chips", "chip_count is 4");
	for (size_t i = 0; i < COUNT(programs); i++)
		rp_program_free(programs[i]);
}

/* --- Limits ------------------------------------------------------------------- */

static void allow_descriptors(rlim_t count)
{
	struct rlimit limit;

	PROC_MUST(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = count;
	PROC_MUST(!setrlimit(RLIMIT_NOFILE, &limit));
}

static rlim_t descriptors_allowed(void)
{
	struct rlimit limit;

	PROC_MUST(!getrlimit(RLIMIT_NOFILE, &limit));
	return limit.rlim_cur;
}

/* The numbers that are free then are below those that the library takes. */
static int limit_ends_among_closed_standard_descriptors(void *arg)
{
	rlim_t full = descriptors_allowed();
	rlim_t allowed;
	void *block;
	int err = -EMFILE;

	(void)arg;
	close(0);
	close(1);
	close(2);
	for (allowed = 0; err && allowed < 200; allowed++) {
		struct rp_worker *worker = NULL;

		allow_descriptors(allowed);
		err = prepare_three(&worker);
		if (err && err != -EMFILE)
			return (int)allowed + 10;
		if (err && !strstr(rp_last_error(), strerror(EMFILE)))
			return 2;
		if (allowed <= 3 && rp_shared_alloc((size_t)2 << 20, &block) != -EMFILE)
			return 3;
		allow_descriptors(full);
		if (!err)
			rp_worker_free(worker);
	}
	return err ? 4 : 0;
}

static void a_limit_below_the_first_number_of_ours_is_a_limit(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(limit_ends_among_closed_standard_descriptors, NULL),
			 0);
}

/* The rings of three processes and of the caller; the nth can't be had. */
static void futexes_for_want_of_a_ring_say_so_and_are_no_error(void **state)
{
	struct rp_worker *worker;
	const char *reason;
	char before[512];

	(void)state;
	assert_ok(prepare_three(&worker));
	if (rp_worker_sleep_engine(worker, &reason) == RP_SLEEP_FUTEX) {
		print_message("skipped: there is no io_uring (%s)\n", reason);
		rp_worker_free(worker);
		skip();
	}
	rp_worker_free(worker);
	assert_int_equal(rp_worker_close(NULL, 0), -EINVAL);
	snprintf(before, sizeof(before), "%s", rp_last_error());
	for (int nth = 1; nth <= 4; nth++) {
		arm("park.ring", NULL, nth, -EMFILE);
		assert_ok(prepare_three(&worker));
		assert_true(rig.hits >= nth);
		/* A success leaves the line as it was. */
		assert_string_equal(rp_last_error(), before);
		assert_int_equal(rp_worker_sleep_engine(worker, &reason), RP_SLEEP_FUTEX);
		assert_non_null(strstr(reason, "EMFILE"));
		rp_worker_free(worker);
	}
}

static int unhook(void **state)
{
	rpi_test_hook = NULL;
	return bed_teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, unhook)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_that_is_not_shared_is_refused_with_where_to_get_it),
		TEST(a_start_that_fails_names_the_process_its_phase_and_the_errno),
		TEST(a_fork_that_fails_names_the_process),
		TEST(a_cpu_that_can_not_be_had_is_no_matter_of_memory),
		TEST(programs_of_other_chip_counts_are_both_named_with_both_counts),
		TEST(a_limit_below_the_first_number_of_ours_is_a_limit),
		TEST(futexes_for_want_of_a_ring_say_so_and_are_no_error),
	};

	return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
