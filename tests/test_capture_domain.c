/* SPDX-License-Identifier: MIT */
/* Captures of runs with comm domains, which take two runs on several chips: windows are
 * what they would be, and resets, which not every run has, don't confuse tasks. */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>

#include "capture_bed.h"
#include "rings.h"

#define FILE_1 "chip_swimlane_records.json"

static void open_captured(struct bed *bed, struct capture_bed *files,
			  struct rp_worker_options *options)
{
	struct rp_run_config config;

	capture_open(files, &config);
	options->capture = config.capture;
	options->capture.enable_chip_swimlane = 2;
	options->capture.enable_dep_gen = true;
	ring_open(bed, options);
}

static void check_run(const struct capture_bed *files, int run, size_t tasks)
{
	char name[64];
	json_t *root;

	snprintf(name, sizeof(name), "dispatch_%d/" FILE_1, run);
	root = capture_load(files, name, "ringplane.swimlane");
	capture_check_swimlane(root, 2);
	assert_true(json_is_true(json_object_get(root, "whole")));
	assert_int_equal(json_array_size(capture_array(root, "tasks")), tasks);
	json_decref(root);
	snprintf(name, sizeof(name), "dispatch_%d/dep_gen.json", run);
	root = capture_load(files, name, "ringplane.dep_gen");
	assert_true(json_is_true(json_object_get(root, "whole")));
	assert_int_equal(json_array_size(capture_array(root, "nodes")), tasks);
	json_decref(root);
}

static void windows_are_reset_before_each_of_the_runs(void **state)
{
	static const enum rp_window_reset resets[] = { RP_WINDOWS_RESET,
						       RP_WINDOWS_RESET_EAGER };

	(void)state;
	for (size_t i = 0; i < COUNT(resets); i++) {
		struct rp_worker_options options;
		struct capture_bed files;
		struct bed bed;
		int run = 1;

		ring_options(&options, 2);
		options.persistent = true;
		options.reset_windows = resets[i];
		open_captured(&bed, &files, &options);
		for (int round = 0; round < 3; round++) {
			/* All windows zero, also in the second run, then marks. */
			assert_ok(ring_run(&bed, ring_of("a", 8192, RING_MEET, 1)));
			check_run(&files, run, 2);
			run += 2;
			assert_ok(ring_run(&bed, ring_of("a", 8192, RING_EXPECT, 0)));
			check_run(&files, run, 2);
			run += 2;
		}
		bed_close(&bed);
		capture_close(&files);
	}
}

static void windows_of_one_run_are_new_in_each(void **state)
{
	struct rp_worker_options options;
	struct capture_bed files;
	struct bed bed;

	(void)state;
	ring_options(&options, 2);
	open_captured(&bed, &files, &options);
	for (int round = 0; round < 3; round++) {
		assert_ok(ring_run(&bed, ring_of("a", 8192, RING_MEET, 1)));
		check_run(&files, 1 + 2 * round, 2);
	}
	assert_int_equal(bed_stats(&bed).domains_allocated, 6);
	bed_close(&bed);
	capture_close(&files);
}

static void the_first_failure_ends_a_persistent_worker(void **state)
{
	struct rp_worker_options options;
	struct capture_bed files;
	struct bed bed;

	(void)state;
	ring_options(&options, 2);
	options.persistent = true;
	open_captured(&bed, &files, &options);
	assert_int_equal(ring_run(&bed, ring_of("a", 8192, RING_FAIL, 0)), -EIO);
	assert_true(capture_has(&files, "dispatch_1/" FILE_1));
	assert_int_equal(ring_run(&bed, ring_of("a", 8192, RING_EXPECT, 0)), -EIO);
	assert_int_equal(capture_count(&files, ""), 1);
	bed_close(&bed);
	capture_close(&files);
}

/* Two runs, but one dispatch: it is announced once, when its handle is done. */
static void its_end_is_announced_once(void **state)
{
	struct rp_worker_options options;
	struct rp_handle handle, reaped[4];
	struct capture_bed files;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	struct ring work = ring_of("a", 8192, RING_MEET, 1);
	struct bed bed;
	int err = io_uring_queue_init(16, &ring, 0);

	(void)state;
	if (err) {
		print_message("no io_uring here (%s)\n", strerror(-err));
		skip();
	}
	ring_options(&options, 2);
	options.ring_fd = ring.ring_fd;
	options.ring_user_data = 77;
	open_captured(&bed, &files, &options);
	assert_ok(ring_submit(bed.worker, bed.program, ring_script, &work, &handle));
	assert_int_equal(rp_handle_done(handle), 1);
	assert_int_equal(io_uring_wait_cqe(&ring, &cqe), 0);
	assert_int_equal(cqe->user_data, 77);
	io_uring_cqe_seen(&ring, cqe);
	bed_give_a_chance();
	assert_int_equal(io_uring_peek_cqe(&ring, &cqe), -EAGAIN);
	assert_int_equal(rp_worker_reap(bed.worker, reaped, COUNT(reaped)), 1);
	assert_int_equal(reaped[0].run, handle.run);
	assert_ok(rp_handle_release(handle));
	bed_close(&bed);
	capture_close(&files);
	io_uring_queue_exit(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(windows_are_reset_before_each_of_the_runs),
		PROCESS_TEST(windows_of_one_run_are_new_in_each),
		PROCESS_TEST(the_first_failure_ends_a_persistent_worker),
		PROCESS_TEST(its_end_is_announced_once),
	};

	return cmocka_run_group_tests_name("capture_domain", tests, NULL, NULL);
}
