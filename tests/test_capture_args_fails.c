/* SPDX-License-Identifier: MIT */
/* What dump_args has of a run that fails, of a chip that dies, and where there is no
 * room. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "args_bed.h"
#include "base/testing.h"
#include "child.h"
#include "proc.h"

static void a_run_that_fails_has_what_its_entries_saw(void **state)
{
	struct args_bed bed;
	json_t *all;

	(void)state;
	args_open(&bed, 1, false);
	assert_int_equal(args_run(&bed, HOW_FAIL), -EBADMSG);
	all = args_load(&bed, "dispatch_1/" FILE_NAME);
	assert_int_equal(capture_number(all, "status"), -EBADMSG);
	args_assert_bytes(&bed, "dispatch_1", args_phase(all, 0, 0, "after"),
			  (const int64_t[]){ 1, 101, 201, 301 }, 32);
	json_decref(all);
	/* Its process ends: nothing comes after. */
	assert_int_equal(args_run(&bed, HOW_DIE), -EOWNERDEAD);
	all = args_load(&bed, "dispatch_2/" FILE_NAME);
	assert_int_equal(capture_number(all, "status"), -EOWNERDEAD);
	args_assert_bytes(&bed, "dispatch_2", args_phase(all, 0, 0, "before"),
			  (const int64_t[]){ 0, 100, 200, 300 }, 32);
	assert_true(json_is_null(args_phase(all, 0, 0, "after")));
	json_decref(all);
	args_close(&bed);
}

/* --- A death on the way ----------------------------------------------------------- */

static _Atomic int32_t *victim; /* the first chip that has something to tell */

/* It dies in the middle of a tensor, and until then the other tells nothing. */
static int die_telling(const char *point)
{
	int32_t nobody = 0;

	if (!strcmp(point, "dump.more") && atomic_load(victim) == getpid())
		kill(getpid(), SIGKILL);
	if (strcmp(point, "dump.args") != 0)
		return 0;
	atomic_compare_exchange_strong(victim, &nobody, getpid());
	while (atomic_load(victim) != getpid() && !proc_is_gone(atomic_load(victim)))
		usleep(1000);
	return 0;
}

static void a_chip_that_dies_telling_is_not_waited_for(void **state)
{
	struct args_bed bed;
	json_t *all;

	(void)state;
	victim = bed_shared(4096, 0);
	rpi_test_hook = die_telling;
	args_open(&bed, 2, true);
	bed.args[1] = rp_arg_tensor(TENSOR(bed.y, RP_UINT8, BIG));
	assert_int_equal(args_run(&bed, HOW_WELL), -EOWNERDEAD);
	all = args_load(&bed, "dispatch_1/" FILE_NAME);
	assert_true(json_is_false(json_object_get(all, "whole")));
	json_decref(all);
	args_close(&bed);
	rpi_test_hook = NULL;
	rp_shared_free(victim);
}

/* --- No room on the disk ------------------------------------------------------ */

static struct args_bed full;

/* Files may not grow past a limit: in a process of its own, since nothing takes it back
 * for the chips. */
static int write_too_much(void)
{
	const struct rlimit small = { 65536, 65536 };
	int64_t x;

	signal(SIGXFSZ, SIG_IGN);
	args_open(&full, 1, false);
	PROC_MUST(!setrlimit(RLIMIT_FSIZE, &small));
	full.args[1] = rp_arg_tensor(TENSOR(full.y, RP_UINT8, BIG));
	PROC_MUST(args_run(&full, HOW_WELL) == -EFBIG);
	PROC_MUST(strstr(rp_last_error(), "task1.arg1.after.bin"));
	/* The run itself went well, and the worker goes on. */
	PROC_MUST(full.x[0] == 1 && full.y[100] == (uint8_t)700);
	PROC_MUST(!capture_has(&full.files, "dispatch_1/rank0/task1.arg1.after.bin"));
	PROC_MUST(capture_has(&full.files, "dispatch_1/rank0/task1.arg0.before.bin"));
	PROC_MUST(capture_has(&full.files, "dispatch_1/" FILE_NAME));
	full.config.capture.enable_dump_args = false;
	PROC_MUST(!args_run(&full, HOW_WELL));
	full.config.capture.enable_dump_args = true;
	full.args[1] = rp_arg_tensor(TENSOR(full.y, RP_UINT8, 64));
	PROC_MUST(!args_run(&full, HOW_WELL));
	x = full.x[0];
	args_close(&full);
	return x == 3 ? CHILD_OK : CHILD_BAD;
}

static void a_full_disk_is_the_outcome_and_no_more(void **state)
{
	(void)state;
	assert_child(write_too_much, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_run_that_fails_has_what_its_entries_saw),
		PROCESS_TEST(a_chip_that_dies_telling_is_not_waited_for),
		PROCESS_TEST(a_full_disk_is_the_outcome_and_no_more),
	};

	return cmocka_run_group_tests_name("capture_args_fails", tests, NULL, NULL);
}
