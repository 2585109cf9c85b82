/* SPDX-License-Identifier: MIT */
/* Captured dispatches beside others, a trace, a dispatcher, and a close. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "work_bed.h"

static void *open_later(void *arg)
{
	bed_give_a_chance();
	gate_open(GATE);
	return arg;
}

static void earlier_dispatches_end_first(void **state)
{
	struct rp_handle first;
	struct work_bed bed;
	pthread_t opener;

	(void)state;
	work_open(&bed, 1, 0);
	bed.args[1] = rp_arg_u64(HOW_GATE);
	assert_ok(rp_worker_submit(bed.bed.worker, NULL, bed.args, 2, NULL, &first));
	gate_await_entered(GATE, 1);
	assert_int_equal(pthread_create(&opener, NULL, open_later, NULL), 0);
	bed.config.capture.enable_chip_swimlane = 1;
	assert_ok(work_run(&bed, HOW_WELL));
	assert_int_equal(rp_handle_done(first), 1);
	assert_ok(rp_handle_release(first));
	assert_int_equal(pthread_join(opener, NULL), 0);
	/* It is of its own run alone. */
	assert_int_equal(capture_count(&bed.files, ""), 1);
	assert_true(capture_has(&bed.files, "dispatch_2/" FILE_1));
	work_close(&bed);
}

static void an_attached_trace_is_not_disturbed(void **state)
{
	struct rp_span spans[200];
	struct rp_trace *trace;
	struct work_bed bed;
	size_t count, runs = 0;

	(void)state;
	work_open(&bed, 1, 0);
	assert_ok(rp_trace_attach(bed.bed.worker, RP_TRACE_HOST, &trace));
	bed.config.capture.enable_chip_swimlane = 4;
	assert_ok(work_run(&bed, HOW_WELL));
	/* The bits that were wanted before are wanted still. */
	bed.config.capture.enable_chip_swimlane = 0;
	assert_ok(work_run(&bed, HOW_WELL));
	count = rp_trace_read(trace, spans, COUNT(spans));
	for (size_t i = 0; i < count; i++) {
		/* Nothing that it has not asked for. */
		assert_int_equal(spans[i].domain, RP_SPAN_HOST);
		runs += !strcmp(spans[i].name, "chip.run");
	}
	assert_int_equal(runs, 2);
	assert_int_equal(rp_trace_dropped(trace), 0);
	rp_trace_detach(trace);
	work_close(&bed);
}

static void a_dispatcher_captures_too(void **state)
{
	struct rp_worker_options options;
	struct rp_handle handles[4];
	struct work_bed bed;
	json_t *all;

	(void)state;
	bed_options(&options, 2);
	options.dispatcher = true;
	work_open_with(&bed, &options);
	for (int i = 0; i < 4; i++) {
		bed.config.capture.enable_chip_swimlane = i % 2 ? 2 : 0;
		bed.args[1] = rp_arg_u64(i == 3 ? HOW_FAIL : HOW_WELL);
		assert_ok(rp_worker_submit(bed.bed.worker, NULL, bed.args, 2, &bed.config,
					   &handles[i]));
		assert_true(!(i % 2) || rp_handle_done(handles[i]) == 1);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rp_handle_wait(handles[i], RP_WAIT_FOREVER),
				 i == 3 ? -EBADMSG : 0);
		assert_ok(rp_handle_release(handles[i]));
	}
	assert_int_equal(bed.x[0], 3 * 6 + 3);
	assert_int_equal(capture_count(&bed.files, ""), 2);
	all = work_load(&bed, "dispatch_2/" FILE_1);
	capture_check_swimlane(all, 2);
	json_decref(all);
	/* An orchestration's error is the handle's here; a captured one leaves files. */
	bed.config.capture.enable_chip_swimlane = 0;
	assert_int_equal(work_run(&bed, HOW_REFUSE), -EXFULL);
	bed.config.capture.enable_chip_swimlane = 1;
	assert_int_equal(work_run(&bed, HOW_REFUSE), -EXFULL);
	assert_int_equal(capture_count(&bed.files, ""), 3);
	assert_int_equal(bed_stats(&bed.bed).dispatches_failed, 3);
	assert_int_equal(bed_stats(&bed.bed).dispatches, 6);
	work_close(&bed);
}

/* --- Several threads ---------------------------------------------------------- */

#define THREADS 3
#define ROUNDS	12

struct thread {
	pthread_t thread;
	struct work_bed *bed;
	int64_t *x;
	int err;
};

/* One in three of its dispatches is captured. */
static void *dispatch_some(void *arg)
{
	struct thread *thread = arg;
	const struct rp_arg args[] = { rp_arg_tensor(TENSOR(thread->x, RP_INT64, 8)),
				       rp_arg_u64(HOW_WELL) };

	for (int i = 0; !thread->err && i < ROUNDS; i++) {
		struct rp_run_config config = thread->bed->config;

		config.capture.enable_chip_swimlane = i % 3 ? 0 : 2;
		thread->err =
			rp_worker_run(thread->bed->bed.worker, NULL, args, 2, &config);
	}
	return NULL;
}

static void captures_and_other_dispatches_take_turns(void **state)
{
	(void)state;
	for (int dispatcher = 0; dispatcher < 2; dispatcher++) {
		struct thread threads[THREADS] = { 0 };
		struct rp_worker_options options;
		struct work_bed bed;

		bed_options(&options, 2);
		options.dispatcher = dispatcher;
		work_open_with(&bed, &options);
		for (int i = 0; i < THREADS; i++) {
			threads[i].bed = &bed;
			threads[i].x = bed.x + 64 * (i + 1);
			assert_int_equal(pthread_create(&threads[i].thread, NULL,
							dispatch_some, &threads[i]),
					 0);
		}
		for (int i = 0; i < THREADS; i++) {
			assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
			assert_int_equal(threads[i].err, 0);
			assert_int_equal(threads[i].x[0], ROUNDS * 2 * 3);
		}
		assert_int_equal(capture_count(&bed.files, ""), THREADS * ROUNDS / 3);
		assert_int_equal(bed_stats(&bed.bed).dispatches, THREADS * ROUNDS);
		work_close(&bed);
	}
}

static void *run_gated(void *arg)
{
	struct thread *thread = arg;

	thread->err = work_run(thread->bed, HOW_GATE);
	return NULL;
}

static void a_close_that_comes_to_its_end_ends_a_capture(void **state)
{
	struct thread thread = { 0 };
	struct work_bed bed;
	json_t *all;

	(void)state;
	work_open(&bed, 1, 0);
	bed.config.capture.enable_chip_swimlane = 3;
	thread.bed = &bed;
	assert_int_equal(pthread_create(&thread.thread, NULL, run_gated, &thread), 0);
	gate_await_entered(GATE, 1);
	assert_int_equal(rp_worker_close(bed.bed.worker, 1000000), -ETIMEDOUT);
	assert_int_equal(pthread_join(thread.thread, NULL), 0);
	assert_int_equal(thread.err, -EOWNERDEAD);
	all = work_load(&bed, "dispatch_1/" FILE_1);
	assert_int_equal(capture_number(all, "status"), -EOWNERDEAD);
	json_decref(all);
	assert_int_equal(work_run(&bed, HOW_WELL), -ESHUTDOWN);
	assert_int_equal(capture_count(&bed.files, ""), 1);
	work_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(earlier_dispatches_end_first),
		PROCESS_TEST(an_attached_trace_is_not_disturbed),
		PROCESS_TEST(a_dispatcher_captures_too),
		PROCESS_TEST(captures_and_other_dispatches_take_turns),
		PROCESS_TEST(a_close_that_comes_to_its_end_ends_a_capture),
	};

	return cmocka_run_group_tests_name("capture_beside", tests, NULL, NULL);
}
