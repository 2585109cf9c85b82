/* SPDX-License-Identifier: MIT */
/* Swimlanes of real dispatches: each level, one chip and several, and what goes wrong. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture_bed.h"

#define FORMAT "ringplane.swimlane"
#define FILE_1 "chip_swimlane_records.json"
#define GATE   3

/* --- A program: kernels on each chip, one chip after the other, then a callback ----- */

enum how {
	HOW_WELL,
	HOW_FAIL,   /* the second task fails */
	HOW_DIE,    /* the process of the last chip ends itself in its task */
	HOW_GATE,   /* it waits at the gate */
	HOW_REFUSE, /* the orchestration fails, after the first task */
};

static int work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const uint64_t how = args[1].u.scalar.value.u64;
	int err = capture_count_up(chip, "add one, with a name of some length", args, 3);

	(void)nargs;
	if (how == HOW_GATE) {
		atomic_fetch_add(&board->entered[GATE], 1);
		while (!atomic_load(&board->gates[GATE]) && !rp_chip_cancelled(chip))
			bed_breathe();
	}
	if (how == HOW_DIE)
		kill(getpid(), SIGKILL);
	return how == HOW_FAIL ? rp_chip_fail(chip, -EBADMSG, "as it was told") : err;
}

/* What the orchestration saw of the passes. */
static uint32_t passes_seen[8], pass_count;

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const uint64_t how = args[1].u.scalar.value.u64;
	const uint32_t chips = rp_run_chip_count(run);
	struct rp_arg seen = rp_in(args[0].u.tensor);
	int err = 0;

	(void)nargs, (void)user;
	if (pass_count < COUNT(passes_seen))
		passes_seen[pass_count++] = rp_run_pass(run);
	for (uint32_t chip = 0; !err && chip < chips; chip++) {
		const bool last = chip + 1 == chips;
		const struct rp_arg task_args[] = {
			rp_inout(args[0].u.tensor),
			rp_arg_u64(last ? how : HOW_WELL),
		};
		const struct rp_task task = { .entry = 0,
					      .chip = (int32_t)chip,
					      .args = task_args,
					      .arg_count = 2 };

		err = rp_run_task(run, &task);
	}
	if (!err && how == HOW_REFUSE)
		return rp_run_fail(run, -EXFULL, "orchestration: as it was told");
	return err ? err : rp_run_callback(run, 0, &seen, 1);
}

struct work_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
	int64_t *x;
	struct rp_arg args[2];
};

static void work_open_with(struct work_bed *work_bed, struct rp_worker_options *options)
{
	const struct rp_param params[] = {
		capture_words,
		{ .name = "how", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	};
	static const struct rp_entry entry = { "work", work };

	capture_prepare(&work_bed->bed,
			(struct rp_program_desc){ .name = "captured",
						  .params = params,
						  .param_count = COUNT(params),
						  .entries = &entry,
						  .callbacks = &capture_look,
						  .callback_count = 1,
						  .orchestrate = orchestrate },
			options);
	capture_open(&work_bed->files, &work_bed->config);
	work_bed->x = bed_shared(4096, 0);
	work_bed->args[0] = rp_arg_tensor(TENSOR(work_bed->x, RP_INT64, 8));
	work_bed->args[1] = rp_arg_u64(HOW_WELL);
	pass_count = 0;
}

static void work_open(struct work_bed *work_bed, uint32_t chips, uint32_t threads)
{
	struct rp_worker_options options;

	bed_options(&options, chips);
	options.compute_threads = threads;
	work_open_with(work_bed, &options);
}

static void work_close(struct work_bed *work_bed)
{
	bed_close(&work_bed->bed);
	capture_close(&work_bed->files);
	rp_shared_free(work_bed->x);
}

static int work_run(struct work_bed *work_bed, enum how how)
{
	work_bed->args[1] = rp_arg_u64(how);
	return rp_worker_run(work_bed->bed.worker, work_bed->bed.program, work_bed->args,
			     2, &work_bed->config);
}

static json_t *load(const struct work_bed *work_bed, const char *name)
{
	return capture_load(&work_bed->files, name, FORMAT);
}

/* --- Tests ------------------------------------------------------------------ */

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
			all = load(&bed, name);
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
			one = load(&bed, name);
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
			one = load(&bed, name);
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
	all = load(&bed, "dispatch_1/" FILE_1);
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
	all = load(&bed, "dispatch_1/" FILE_1);
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
	all = load(&bed, "dispatch_3/" FILE_1);
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
	all = load(&bed, "dispatch_1/" FILE_1);
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
	all = load(&bed, "dispatch_2/" FILE_1);
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
	all = load(&bed, "dispatch_1/" FILE_1);
	assert_int_equal(capture_number(all, "status"), -EOWNERDEAD);
	json_decref(all);
	assert_int_equal(work_run(&bed, HOW_WELL), -ESHUTDOWN);
	assert_int_equal(capture_count(&bed.files, ""), 1);
	work_close(&bed);
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
	all = load(&(struct work_bed){ .files = files }, "dispatch_2/" FILE_1);
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
		all = load(&bed, "dispatch_1/" FILE_1);
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
		PROCESS_TEST(earlier_dispatches_end_first),
		PROCESS_TEST(an_attached_trace_is_not_disturbed),
		PROCESS_TEST(a_dispatcher_captures_too),
		PROCESS_TEST(captures_and_other_dispatches_take_turns),
		PROCESS_TEST(a_close_that_comes_to_its_end_ends_a_capture),
		PROCESS_TEST(a_chip_worker_captures_calls_but_not_loading),
		PROCESS_TEST(no_kernel_is_lost),
		PROCESS_TEST(many_dispatches_have_a_place_each),
		PROCESS_TEST(one_call_captures_too),
		PROCESS_TEST(recordings_and_benchmarks_refuse),
		PROCESS_TEST(what_is_asked_for_wrongly_is_refused),
	};

	return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
