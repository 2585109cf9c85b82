/* SPDX-License-Identifier: MIT */
/* What dump_args writes is what entries saw, byte for byte. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args_bed.h"

static void assert_dims(const json_t *arg, const char *key, const int64_t *want,
			size_t count)
{
	const json_t *dims = capture_array(arg, key);

	assert_int_equal(json_array_size(dims), count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(json_integer_value(json_array_get(dims, i)), want[i]);
}

static void check_tensor(const json_t *arg, const char *memory, const char *dtype,
			 const char *access)
{
	assert_string_equal(capture_text(arg, "kind"), "tensor");
	assert_string_equal(capture_text(arg, "memory"), memory);
	assert_string_equal(capture_text(arg, "dtype"), dtype);
	assert_string_equal(capture_text(arg, "access"), access);
}

/* --- Tests ------------------------------------------------------------------ */

static void check_scalars(const json_t *root, size_t task)
{
	const json_t *arg = args_arg(root, task, 3);

	assert_string_equal(capture_text(arg, "kind"), "scalar");
	assert_string_equal(capture_text(arg, "dtype"), rp_dtype_name(RP_UINT64));
	assert_int_equal(capture_number(arg, "value"), HOW_WELL);
	arg = args_arg(root, task, 4);
	assert_near(json_real_value(json_object_get(arg, "value")), 1.5);
	assert_string_equal(capture_text(arg, "bits"), "0x3fc00000");
	arg = args_arg(root, task, 5);
	assert_int_equal(capture_number(arg, "value"), -7);
	arg = args_arg(root, task, 6);
	assert_near(json_real_value(json_object_get(arg, "value")) / 0x1p64, 1.0);
	assert_string_equal(capture_text(arg, "bits"), "0xffffffffffffffff");
	arg = args_arg(root, task, 7);
	assert_true(json_is_null(json_object_get(arg, "value")));
}

static void each_task_has_its_arguments_before_and_after(void **state)
{
	static const int64_t before[2][4] = { { 0, 100, 200, 300 },
					      { 1, 101, 201, 301 } };
	static const int64_t after[] = { 2, 102, 202, 302 };
	static const int32_t part[] = { 8, 10, 12, 16, 18, 20 };
	uint8_t y[64];

	(void)state;
	for (int i = 0; i < 64; i++)
		y[i] = (uint8_t)(i * 7);
	for (int unified = 0; unified < 2; unified++) {
		struct args_bed bed;
		json_t *all, *one;

		args_open(&bed, 2, unified);
		assert_ok(args_run(&bed, HOW_WELL));
		all = args_load(&bed, "dispatch_1/" FILE_NAME);
		assert_true(json_is_true(json_object_get(all, "whole")));
		assert_int_equal(capture_number(all, "run"), 1);
		assert_int_equal(json_array_size(capture_array(all, "tasks")), 3);
		for (size_t task = 0; task < 2; task++) {
			const json_t *entry =
				json_array_get(capture_array(all, "tasks"), task);

			assert_string_equal(capture_text(entry, "entry"), "work");
			assert_string_equal(capture_text(entry, "process"), "chip");
			assert_int_equal(capture_number(entry, "number"), task);
			assert_int_equal(capture_number(entry, "task"), 1);
			check_tensor(args_arg(all, task, 0), "x", rp_dtype_name(RP_INT64),
				     "inout");
			check_tensor(args_arg(all, task, 1), "y", rp_dtype_name(RP_UINT8),
				     "out");
			check_tensor(args_arg(all, task, 2), "z", rp_dtype_name(RP_INT32),
				     "in");
			assert_dims(args_arg(all, task, 2), "shape", (int64_t[]){ 2, 3 },
				    2);
			/* On a device of its own the entry sees a copy without gaps. */
			assert_dims(args_arg(all, task, 2), "strides",
				    unified ? (int64_t[]){ 8, 2 } : (int64_t[]){ 3, 1 },
				    2);
			args_assert_bytes(&bed, "dispatch_1",
					  args_phase(all, task, 0, "before"),
					  before[task], 32);
			args_assert_bytes(&bed, "dispatch_1",
					  args_phase(all, task, 0, "after"),
					  task ? after : before[1], 32);
			assert_true(json_is_null(args_phase(all, task, 1, "before")));
			args_assert_bytes(&bed, "dispatch_1",
					  args_phase(all, task, 1, "after"), y, 64);
			args_assert_bytes(&bed, "dispatch_1",
					  args_phase(all, task, 2, "before"), part,
					  sizeof(part));
			assert_true(json_is_null(args_phase(all, task, 2, "after")));
			check_scalars(all, task);
		}
		/* The callback, in place. */
		args_assert_bytes(&bed, "dispatch_1", args_phase(all, 2, 0, "before"),
				  after, 32);
		assert_true(json_is_null(args_phase(all, 2, 0, "after")));
		json_decref(all);
		one = args_load(&bed, "dispatch_1/rank1/" FILE_NAME);
		assert_int_equal(json_array_size(capture_array(one, "tasks")), 1);
		args_assert_bytes(&bed, "dispatch_1/rank1",
				  args_phase(one, 0, 0, "after"), after, 32);
		json_decref(one);
		/* The index, and four files of bytes. */
		assert_int_equal(capture_count(&bed.files, "dispatch_1/rank0"), 5);
		assert_int_equal(capture_count(&bed.files, "dispatch_1/callback0"), 2);
		args_close(&bed);
	}
}

static void a_tensor_of_any_size_is_written(void **state)
{
	uint8_t *want = malloc(BIG);
	struct args_bed bed;
	const json_t *phase;
	json_t *all;

	(void)state;
	assert_non_null(want);
	for (uint32_t i = 0; i < BIG; i++)
		want[i] = (uint8_t)(i * 7);
	args_open(&bed, 2, false);
	bed.args[1] = rp_arg_tensor(TENSOR(bed.y, RP_UINT8, BIG));
	assert_ok(args_run(&bed, HOW_WELL));
	all = args_load(&bed, "dispatch_1/" FILE_NAME);
	for (size_t task = 0; task < 2; task++) {
		phase = args_phase(all, task, 1, "after");
		args_assert_bytes(&bed, "dispatch_1", phase, want, BIG);
		assert_true(json_is_false(json_object_get(phase, "truncated")));
	}
	json_decref(all);
	/* Or as much of it as is wanted: then the file says so. */
	bed.config.capture.dump_args_max_bytes = 1000;
	assert_ok(args_run(&bed, HOW_WELL));
	all = args_load(&bed, "dispatch_2/" FILE_NAME);
	phase = args_phase(all, 0, 1, "after");
	args_assert_bytes(&bed, "dispatch_2", phase, want, 1000);
	assert_true(json_is_true(json_object_get(phase, "truncated")));
	assert_int_equal(capture_number(args_arg(all, 0, 1), "bytes"), BIG);
	phase = args_phase(all, 0, 0, "after");
	assert_true(json_is_false(json_object_get(phase, "truncated")));
	json_decref(all);
	/* In the middle of an element's row, and of a strided view. */
	bed.config.capture.dump_args_max_bytes = 10;
	assert_ok(args_run(&bed, HOW_WELL));
	all = args_load(&bed, "dispatch_3/" FILE_NAME);
	args_assert_bytes(&bed, "dispatch_3", args_phase(all, 0, 2, "before"),
			  (const int32_t[]){ 8, 10, 12 }, 10);
	json_decref(all);
	args_close(&bed);
	free(want);
}

static void resident_tensors_are_read_where_they_are(void **state)
{
	struct args_bed bed;
	struct rp_tensor x;
	json_t *all;

	(void)state;
	args_open(&bed, 1, false);
	assert_ok(rp_worker_alloc_tensor(bed.bed.worker, 0, RP_INT64, 1, (int64_t[]){ 4 },
					 &bed.args[0].u.tensor, &x));
	bed.args[0] = rp_arg_tensor(x);
	assert_ok(args_run(&bed, HOW_WELL));
	all = args_load(&bed, "dispatch_1/" FILE_NAME);
	args_assert_bytes(&bed, "dispatch_1", args_phase(all, 0, 0, "before"),
			  (const int64_t[]){ 0, 100, 200, 300 }, 32);
	args_assert_bytes(&bed, "dispatch_1", args_phase(all, 0, 0, "after"),
			  (const int64_t[]){ 1, 101, 201, 301 }, 32);
	json_decref(all);
	args_close(&bed);
}

static void a_worker_dumps_what_has_no_capture_of_its_own(void **state)
{
	struct rp_worker_options options;
	struct rp_run_config config;
	struct capture_bed files;
	struct args_bed bed;
	const json_t *phase;
	json_t *all;

	(void)state;
	capture_open(&files, &config);
	bed_options(&options, 1);
	options.dispatcher = true;
	options.capture.enable_dump_args = true;
	options.capture.output_dir = files.dir;
	options.capture.dump_args_max_bytes = 16;
	args_open_with(&bed, &options);
	assert_ok(rp_worker_run(bed.bed.worker, NULL, bed.args, 4, NULL));
	all = capture_load(&files, "dispatch_1/" FILE_NAME, FORMAT);
	phase = args_phase(all, 0, 0, "after");
	assert_int_equal(capture_number(phase, "bytes"), 16);
	assert_true(json_is_true(json_object_get(phase, "truncated")));
	json_decref(all);
	args_close(&bed);
	capture_close(&files);
}

static void each_flag_needs_a_directory(void **state)
{
	struct args_bed bed;

	(void)state;
	args_open(&bed, 1, false);
	bed.config.capture.output_dir = NULL;
	for (int which = 0; which < 3; which++) {
		bed.config.capture.enable_dump_args = which == 0;
		bed.config.capture.enable_pmu = which == 1;
		bed.config.capture.enable_scope_stats = which == 2;
		assert_int_equal(args_run(&bed, HOW_WELL), -EINVAL);
		assert_says("output_dir NULL");
	}
	bed.config.capture.enable_scope_stats = false;
	assert_ok(args_run(&bed, HOW_WELL));
	args_close(&bed);
}

/* --- Beside others ------------------------------------------------------------ */

/* With a swimlane two chips run twice: the first run is the one that is dumped, and what
 * the caller has in the end is of one. */
static void all_captures_at_once_are_of_one_dispatch(void **state)
{
	static const char *const names[] = { "chip_swimlane_records.json", "dep_gen.json",
					     "dep_gen.dot", FILE_NAME,
					     "scope_stats.jsonl" };
	struct rp_span spans[200];
	struct args_bed bed;
	struct rp_trace *trace;
	json_t *all;
	size_t count;
	int err;

	(void)state;
	args_open(&bed, 2, false);
	bed.config.capture.enable_chip_swimlane = RP_SWIMLANE_LEVEL_MAX;
	bed.config.capture.enable_dep_gen = true;
	bed.config.capture.enable_scope_stats = true;
	bed.config.capture.enable_pmu = true;
	assert_ok(rp_trace_attach(bed.bed.worker, RP_TRACE_DEVICE, &trace));
	err = args_run(&bed, HOW_WELL);
	/* Where the machine has no counters nothing was run. */
	if (err == -EOPNOTSUPP) {
		assert_says("enable_pmu");
		bed.config.capture.enable_pmu = false;
		err = args_run(&bed, HOW_WELL);
	}
	assert_ok(err);
	assert_int_equal(bed.x[1], 102);
	for (size_t i = 0; i < COUNT(names); i++) {
		char name[64];

		snprintf(name, sizeof(name), "dispatch_1/%s", names[i]);
		assert_true(capture_has(&bed.files, name));
	}
	assert_int_equal(capture_has(&bed.files, "dispatch_1/pmu.csv"),
			 bed.config.capture.enable_pmu);
	all = args_load(&bed, "dispatch_1/" FILE_NAME);
	assert_int_equal(capture_number(all, "run"), 1);
	assert_int_equal(capture_number(all, "passes"), 2);
	assert_int_equal(json_array_size(capture_array(all, "tasks")), 3);
	args_assert_bytes(&bed, "dispatch_1", args_phase(all, 1, 0, "after"),
			  (const int64_t[]){ 2, 102, 202, 302 }, 32);
	json_decref(all);
	/* Who has attached sees both runs' device spans, and nothing else. */
	count = rp_trace_read(trace, spans, COUNT(spans));
	assert_int_equal(count, 2 * 2 * 2);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(spans[i].domain, RP_SPAN_DEVICE);
	rp_trace_detach(trace);
	/* A dispatch that is not captured writes nothing. */
	assert_ok(rp_worker_run(bed.bed.worker, bed.bed.program, bed.args, 4, NULL));
	assert_int_equal(capture_count(&bed.files, ""), 1);
	args_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(each_task_has_its_arguments_before_and_after),
		PROCESS_TEST(a_tensor_of_any_size_is_written),
		PROCESS_TEST(resident_tensors_are_read_where_they_are),
		PROCESS_TEST(a_worker_dumps_what_has_no_capture_of_its_own),
		PROCESS_TEST(each_flag_needs_a_directory),
		PROCESS_TEST(all_captures_at_once_are_of_one_dispatch),
	};

	return cmocka_run_group_tests_name("capture_args", tests, NULL, NULL);
}
