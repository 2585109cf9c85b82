/* SPDX-License-Identifier: MIT */
/* Swimlanes of real dispatches: each level, one chip and several, and what goes wrong. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work_bed.h"

static void each_level_has_what_it_says(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads <= 2; threads += 2) {
		struct work_bed bed;

		work_open(&bed, 1, threads);
		for (int level = 1; level <= RP_SWIMLANE_LEVEL_MAX; level++) {
			char name[64];
			json_t *all, *one;

			bed.config.capture.enable_chip_swimlane = (uint32_t)level;
			assert_ok(work_run(&bed, HOW_WELL));
			snprintf(name, sizeof(name), "dispatch_%d", level);
			/* The merged one, and a directory of each process. */
			assert_int_equal(capture_count(&bed.files, name), 3);
			snprintf(name, sizeof(name), "dispatch_%d/" FILE_1, level);
			all = work_load(&bed, name);
			capture_check_swimlane(all, level);
			assert_int_equal(capture_number(all, "passes"), 1);
			assert_int_equal(capture_number(all, "run"), level);
			assert_true(json_is_true(json_object_get(all, "whole")));
			assert_string_equal(capture_text(all, "program"), "captured");
			assert_int_equal(json_array_size(capture_array(all, "tasks")), 2);
			/* The callback reads what the chip writes. */
			assert_int_equal(json_array_size(capture_array(all, "edges")), 1);
			assert_true(json_array_size(capture_array(all, "host")) >=
				    (level >= 2 ? 6u : 1u));
			json_decref(all);
			snprintf(name, sizeof(name), "dispatch_%d/rank0/" FILE_1, level);
			one = work_load(&bed, name);
			capture_check_swimlane(one, level);
			assert_int_equal(json_array_size(capture_array(one, "tasks")), 1);
			if (level >= 3) {
				const json_t *kernels = capture_array(
					json_array_get(capture_array(one, "tasks"), 0),
					"kernels");

				assert_int_equal(json_array_size(kernels), 3);
				assert_string_equal(
					capture_text(json_array_get(kernels, 2), "name"),
					"add one, with a name of some length");
			}
			json_decref(one);
			snprintf(name, sizeof(name), "dispatch_%d/callback0/" FILE_1,
				 level);
			one = work_load(&bed, name);
			capture_check_swimlane(one, level);
			json_decref(one);
		}
		assert_int_equal(bed.x[0], 3 * RP_SWIMLANE_LEVEL_MAX);
		assert_int_equal(capture_count(&bed.files, ""), RP_SWIMLANE_LEVEL_MAX);
		work_close(&bed);
	}
}

static void two_runs_leave_what_one_does(void **state)
{
	struct work_bed bed;
	struct rp_handle handle;
	json_t *all;

	(void)state;
	work_open(&bed, 2, 0);
	bed.config.capture.enable_chip_swimlane = 4;
	bed.x[0] = 100;
	assert_ok(rp_worker_submit(bed.bed.worker, bed.bed.program, bed.args, 2,
				   &bed.config, &handle));
	assert_int_equal(rp_handle_done(handle), 1);
	assert_ok(rp_handle_wait(handle, 0));
	assert_ok(rp_handle_release(handle));
	assert_int_equal(bed.x[0], 100 + 2 * 3);
	assert_int_equal(pass_count, 2);
	assert_int_equal(passes_seen[0], 1);
	assert_int_equal(passes_seen[1], 2);
	assert_int_equal(bed_stats(&bed.bed).dispatches, 1);
	assert_int_equal(capture_count(&bed.files, ""), 1);
	all = work_load(&bed, "dispatch_1/" FILE_1);
	capture_check_swimlane(all, 4);
	assert_int_equal(capture_number(all, "passes"), 2);
	assert_int_equal(capture_number(all, "run"), 2);
	assert_true(json_is_true(json_object_get(all, "whole")));
	assert_int_equal(json_array_size(capture_array(all, "tasks")), 3);
	/* Chip 1 follows chip 0, and the callback the last writer. */
	assert_int_equal(json_array_size(capture_array(all, "edges")), 2);
	json_decref(all);
	/* Not captured, it runs once, and knows. */
	bed.config.capture.enable_chip_swimlane = 0;
	assert_ok(work_run(&bed, HOW_WELL));
	assert_int_equal(pass_count, 3);
	assert_int_equal(passes_seen[2], 0);
	assert_int_equal(capture_count(&bed.files, ""), 1);
	work_close(&bed);
}

static void a_failed_run_leaves_its_files(void **state)
{
	struct work_bed bed;
	struct rp_handle handle;
	json_t *all;

	(void)state;
	work_open(&bed, 2, 0);
	bed.config.capture.enable_chip_swimlane = 3;
	bed.args[1] = rp_arg_u64(HOW_FAIL);
	assert_ok(rp_worker_submit(bed.bed.worker, bed.bed.program, bed.args, 2,
				   &bed.config, &handle));
	assert_int_equal(rp_handle_wait(handle, 0), -EBADMSG);
	assert_says("work", "as it was told");
	assert_ok(rp_handle_release(handle));
	assert_int_equal(pass_count, 1);
	all = work_load(&bed, "dispatch_1/" FILE_1);
	assert_int_equal(capture_number(all, "status"), -EBADMSG);
	assert_non_null(strstr(capture_text(all, "error"), "as it was told"));
	json_decref(all);
	/* The orchestration's own error is the submit's. */
	assert_int_equal(work_run(&bed, HOW_REFUSE), -EXFULL);
	assert_says("as it was told");
	assert_true(capture_has(&bed.files, "dispatch_2/" FILE_1));
	assert_int_equal(bed_stats(&bed.bed).dispatches_failed, 2);
	/* And it goes on. */
	assert_ok(work_run(&bed, HOW_WELL));
	all = work_load(&bed, "dispatch_3/" FILE_1);
	capture_check_swimlane(all, 3);
	json_decref(all);
	work_close(&bed);
}

static void a_chip_that_dies_leaves_what_was_seen_of_it(void **state)
{
	struct work_bed bed;
	json_t *all;

	(void)state;
	work_open(&bed, 2, 0);
	bed.config.capture.enable_chip_swimlane = 4;
	assert_int_equal(work_run(&bed, HOW_DIE), -EOWNERDEAD);
	all = work_load(&bed, "dispatch_1/" FILE_1);
	assert_int_equal(capture_number(all, "status"), -EOWNERDEAD);
	/* Chip 0's, and the kernels of chip 1's. */
	assert_int_equal(json_array_size(capture_array(all, "tasks")), 2);
	json_decref(all);
	work_close(&bed);
}

static void a_worker_captures_what_has_no_capture_of_its_own(void **state)
{
	struct rp_worker_options options;
	struct work_bed bed;
	struct capture_bed files;
	struct rp_run_config config;

	(void)state;
	capture_open(&files, &config);
	bed_options(&options, 1);
	options.capture.enable_chip_swimlane = 1;
	options.capture.output_dir = files.dir;
	work_open_with(&bed, &options);
	options.capture.output_dir = NULL;
	assert_ok(rp_worker_run(bed.bed.worker, NULL, bed.args, 2, NULL));
	assert_true(capture_has(&files, "dispatch_1/" FILE_1));
	/* No flag, but a directory: nothing is captured. */
	assert_ok(work_run(&bed, HOW_WELL));
	assert_int_equal(capture_count(&files, ""), 1);
	assert_int_equal(capture_count(&bed.files, ""), 0);
	/* One of its own takes the other's place. */
	bed.config.capture.enable_chip_swimlane = 2;
	assert_ok(work_run(&bed, HOW_WELL));
	assert_int_equal(capture_count(&files, ""), 1);
	assert_true(capture_has(&bed.files, "dispatch_3/" FILE_1));
	/* A config without any. */
	rp_run_config_init(&config);
	assert_ok(rp_worker_run(bed.bed.worker, NULL, bed.args, 2, &config));
	assert_int_equal(capture_count(&files, ""), 2);
	work_close(&bed);
	capture_close(&files);
}

static int plain_work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)nargs;
	return capture_count_up(chip, "plain", args, 1);
}

static void a_chip_worker_captures_calls_but_not_loading(void **state)
{
	static const struct rp_entry entry = { "plain", plain_work };
	const struct rp_program_desc desc = { .size = sizeof(desc),
					      .name = "plain",
					      .params = &capture_words,
					      .param_count = 1,
					      .entries = &entry,
					      .entry_count = 1 };
	struct rp_chip_worker_options options;
	struct rp_worker_options base;
	struct rp_chip_worker *worker;
	struct rp_run_config config;
	struct rp_program *program;
	struct capture_bed files;
	struct rp_arg arg;
	json_t *all;

	(void)state;
	capture_open(&files, &config);
	bed_options(&base, 1);
	base.capture = config.capture;
	base.capture.enable_chip_swimlane = 3;
	rp_chip_worker_options_init(&options);
	options.worker = &base;
	assert_ok(rp_program_create(&desc, &program));
	assert_ok(rp_chip_worker_open(&options, &worker));
	arg = rp_arg_tensor(TENSOR(bed_shared(4096, 0), RP_INT64, 8));
	assert_ok(rp_chip_worker_run(worker, program, &arg, 1, NULL, NULL));
	assert_int_equal(capture_count(&files, ""), 1);
	/* The first was the loading. */
	all = work_load(&(struct work_bed){ .files = files }, "dispatch_2/" FILE_1);
	capture_check_swimlane(all, 3);
	assert_string_equal(capture_text(all, "program"), "plain");
	assert_string_equal(
		capture_text(json_array_get(capture_array(all, "tasks"), 0), "entry"),
		"plain");
	json_decref(all);
	assert_ok(rp_chip_worker_close(worker, RP_WAIT_FOREVER));
	rp_chip_worker_free(worker);
	rp_program_free(program);
	capture_close(&files);
	rp_shared_free(arg.u.tensor.data);
}

#define MANY 9000

static int many_kernels(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)nargs;
	return capture_count_up(chip, "one of many", args, MANY);
}

/* Four times what a ring holds, and quickly made. */
static void no_kernel_is_lost(void **state)
{
	static const struct rp_entry entry = { "many", many_kernels };

	(void)state;
	for (uint32_t threads = 0; threads <= 2; threads += 2) {
		struct rp_worker_options options;
		struct work_bed bed = { 0 };
		const json_t *task;
		json_t *all;

		bed_options(&options, 1);
		options.compute_threads = threads;
		capture_prepare(&bed.bed,
				(struct rp_program_desc){ .name = "many",
							  .params = &capture_words,
							  .param_count = 1,
							  .entries = &entry },
				&options);
		capture_open(&bed.files, &bed.config);
		bed.config.capture.enable_chip_swimlane = 4;
		bed.x = bed_shared(4096, 0);
		bed.args[0] = rp_arg_tensor(TENSOR(bed.x, RP_INT64, 8));
		assert_ok(rp_worker_run(bed.bed.worker, NULL, bed.args, 1, &bed.config));
		assert_int_equal(bed.x[0], MANY);
		all = work_load(&bed, "dispatch_1/" FILE_1);
		capture_check_swimlane(all, 4);
		assert_true(json_is_true(json_object_get(all, "whole")));
		task = json_array_get(capture_array(all, "tasks"), 0);
		assert_int_equal(json_array_size(capture_array(task, "kernels")), MANY);
		json_decref(all);
		work_close(&bed);
	}
}

static void many_dispatches_have_a_place_each(void **state)
{
	struct work_bed bed;

	(void)state;
	work_open(&bed, 1, 0);
	bed.config.capture.enable_chip_swimlane = 1;
	for (int i = 1; i <= 60; i++)
		assert_ok(work_run(&bed, HOW_WELL));
	assert_int_equal(capture_count(&bed.files, ""), 60);
	assert_int_equal(bed.x[0], 60 * 3);
	work_close(&bed);
}

static void one_call_captures_too(void **state)
{
	struct work_bed bed;

	(void)state;
	work_open(&bed, 1, 0);
	bed.config.capture.enable_chip_swimlane = 2;
	assert_ok(rp_program_run(bed.bed.program, bed.args, 2, &bed.config, NULL));
	assert_int_equal(bed.x[0], 3);
	assert_true(capture_has(&bed.files, "dispatch_1/rank0/" FILE_1));
	work_close(&bed);
}

static void recordings_and_benchmarks_refuse(void **state)
{
	struct rp_benchmark_options options = { .size = sizeof(options) };
	struct rp_benchmark_stats *stats;
	struct rp_recording *recording;
	struct work_bed bed;

	(void)state;
	work_open(&bed, 1, 0);
	assert_ok(rp_worker_record(bed.bed.worker, NULL, bed.args, 2, NULL, &recording));
	bed.config.capture.enable_chip_swimlane = 1;
	assert_int_equal(rp_recording_run(recording, bed.args, 2, &bed.config, NULL),
			 -EOPNOTSUPP);
	assert_says("replay");
	rp_recording_free(recording);
	assert_int_equal(rp_worker_record(bed.bed.worker, NULL, bed.args, 2, &bed.config,
					  &recording),
			 -EOPNOTSUPP);
	options.config = &bed.config;
	assert_int_equal(
		rp_benchmark(bed.bed.program, bed.args, 2, 1, 0, &options, &stats),
		-EINVAL);
	assert_says("capture");
	assert_int_equal(capture_count(&bed.files, ""), 0);
	work_close(&bed);
}

static void what_is_asked_for_wrongly_is_refused(void **state)
{
	struct rp_run_config config;
	struct work_bed bed;

	(void)state;
	work_open(&bed, 1, 0);
	bed.config.capture.enable_chip_swimlane = RP_SWIMLANE_LEVEL_MAX + 1;
	assert_int_equal(work_run(&bed, HOW_WELL), -EINVAL);
	assert_says("enable_chip_swimlane 5", "0..4");
	assert_int_equal(rp_run_config_check(&bed.config), -EINVAL);
	bed.config.capture.enable_chip_swimlane = 1;
	bed.config.capture.output_dir = NULL;
	assert_int_equal(work_run(&bed, HOW_WELL), -EINVAL);
	assert_says("output_dir NULL");
	bed.config.capture.output_dir = "";
	assert_int_equal(work_run(&bed, HOW_WELL), -EINVAL);
	assert_says("output_dir ''");
	rp_run_config_init(&config);
	config.capture.enable_dep_gen = true;
	assert_int_equal(rp_run_config_check(&config), -EINVAL);
	assert_says("output_dir");
	assert_int_equal(bed.x[0], 0);
	work_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(each_level_has_what_it_says),
		PROCESS_TEST(two_runs_leave_what_one_does),
		PROCESS_TEST(a_failed_run_leaves_its_files),
		PROCESS_TEST(a_chip_that_dies_leaves_what_was_seen_of_it),
		PROCESS_TEST(a_worker_captures_what_has_no_capture_of_its_own),
		PROCESS_TEST(a_chip_worker_captures_calls_but_not_loading),
		PROCESS_TEST(no_kernel_is_lost),
		PROCESS_TEST(many_dispatches_have_a_place_each),
		PROCESS_TEST(one_call_captures_too),
		PROCESS_TEST(recordings_and_benchmarks_refuse),
		PROCESS_TEST(what_is_asked_for_wrongly_is_refused),
	};

	return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
