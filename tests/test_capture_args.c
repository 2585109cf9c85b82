/* SPDX-License-Identifier: MIT */
/* What dump_args writes is what entries saw, byte for byte. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/testing.h"
#include "capture_bed.h"
#include "child.h"
#include "noop.h"
#include "proc.h"

#define FORMAT	  "ringplane.dump_args"
#define FILE_NAME "dump_args.json"
#define BIG	  (3u << 20) /* more than a process can have on its way */

/* --- A program --------------------------------------------------------------- */

enum how {
	HOW_WELL,
	HOW_FAIL,
	HOW_DIE,
};

/* x: each element one more; y: its number as bytes; from z only is read. */
static int work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const uint64_t how = args[3].u.scalar.value.u64;
	int64_t *x = args[0].u.tensor.data;
	uint8_t *y = args[1].u.tensor.data;

	(void)nargs;
	for (int i = 0; i < 4; i++)
		x[i]++;
	for (int64_t i = 0; i < args[1].u.tensor.shape[0]; i++)
		y[i] = (uint8_t)(i * 7);
	if (how == HOW_DIE)
		kill(getpid(), SIGKILL);
	return how == HOW_FAIL ? rp_chip_fail(chip, -EBADMSG, "as it was told") : 0;
}

/* Rows 1 and 2, columns 0, 2 and 4. */
static struct rp_tensor part_of(const struct rp_tensor *z)
{
	struct rp_tensor part = *z;

	part.data = (int32_t *)z->data + 8;
	part.shape[0] = 2;
	part.shape[1] = 3;
	part.strides[1] = 2;
	return part;
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	struct rp_tensor z = args[2].u.tensor;
	const struct rp_arg task_args[] = {
		rp_inout(args[0].u.tensor), rp_out(args[1].u.tensor),
		rp_in(part_of(&z)),	    args[3],
		rp_arg_f32(1.5f),	    rp_arg_i32(-7),
		rp_arg_u64(UINT64_MAX),	    rp_arg_f32((float)NAN),
	};
	const struct rp_arg seen = rp_in(args[0].u.tensor);
	struct rp_task task = { .args = task_args, .arg_count = COUNT(task_args) };
	int err = 0;

	(void)nargs, (void)user;
	for (uint32_t chip = 0; !err && chip < rp_run_chip_count(run); chip++) {
		task.chip = (int32_t)chip;
		err = rp_run_task(run, &task);
	}
	/* A callback sees no device. */
	if (err || args[0].u.tensor.resident)
		return err;
	return rp_run_callback(run, 0, &seen, 1);
}

struct args_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
	uint8_t *memory;
	int64_t *x; /* [4] */
	uint8_t *y; /* [BIG] */
	int32_t *z; /* [8][8], of which a part is given */
	struct rp_arg args[4];
};

static void open_bed_with(struct args_bed *bed, const struct rp_worker_options *options)
{
	static const struct rp_param params[] = {
		{ .name = "x",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_INOUT,
		  .rank = 1,
		  .shape = { 4 } },
		{ .name = "y",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_UINT8,
		  .access = RP_OUT,
		  .rank = 1,
		  .shape = { RP_DIM_ANY } },
		{ .name = "z",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT32,
		  .access = RP_IN,
		  .rank = 2,
		  .shape = { RP_DIM_ANY, RP_DIM_ANY } },
		{ .name = "how", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	};
	static const struct rp_entry entries[] = { { "work", work } };
	static const struct rp_callback callbacks[] = { { .name = "look",
							  .fn = noop_callback } };

	capture_prepare(&bed->bed,
			(struct rp_program_desc){ .name = "dumped",
						  .params = params,
						  .param_count = COUNT(params),
						  .entries = entries,
						  .callbacks = callbacks,
						  .callback_count = COUNT(callbacks),
						  .orchestrate = orchestrate },
			options);
	capture_open(&bed->files, &bed->config);
	bed->config.capture.enable_dump_args = true;
	bed->memory = bed_shared(8192 + BIG, 0);
	bed->x = (int64_t *)bed->memory;
	bed->z = (int32_t *)(bed->memory + 4096);
	bed->y = bed->memory + 8192;
	for (int i = 0; i < 4; i++)
		bed->x[i] = 100 * i;
	for (int i = 0; i < 64; i++)
		bed->z[i] = i;
	bed->args[0] = rp_arg_tensor(TENSOR(bed->x, RP_INT64, 4));
	bed->args[1] = rp_arg_tensor(TENSOR(bed->y, RP_UINT8, 64));
	bed->args[2] = rp_arg_tensor(TENSOR(bed->z, RP_INT32, 8, 8));
	bed->args[3] = rp_arg_u64(HOW_WELL);
}

static void open_bed(struct args_bed *bed, uint32_t chips, bool unified)
{
	struct rp_worker_options options;

	bed_options(&options, chips);
	options.device_memory_bytes = (size_t)64 << 20;
	options.unified_memory = unified;
	open_bed_with(bed, &options);
}

static void close_bed(struct args_bed *bed)
{
	bed_close(&bed->bed);
	capture_close(&bed->files);
	rp_shared_free(bed->memory);
}

static int run(struct args_bed *bed, enum how how)
{
	bed->args[3] = rp_arg_u64(how);
	return rp_worker_run(bed->bed.worker, bed->bed.program, bed->args, 4,
			     &bed->config);
}

static json_t *load(const struct args_bed *bed, const char *name)
{
	return capture_load(&bed->files, name, FORMAT);
}

/* The file that an index names, in DIR/dir. */
static void assert_bytes(const struct args_bed *bed, const char *dir, const json_t *phase,
			 const void *want, size_t bytes)
{
	char path[256];
	uint8_t *got = malloc(bytes + 1);
	FILE *file;

	assert_non_null(got);
	capture_path(&bed->files, path, sizeof(path), "%s/%s", dir,
		     capture_text(phase, "file"));
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fread(got, 1, bytes + 1, file), bytes);
	fclose(file);
	assert_memory_equal(got, want, bytes);
	assert_int_equal(capture_number(phase, "bytes"), bytes);
	assert_int_equal(capture_number(phase, "status"), 0);
	free(got);
}

static const json_t *arg_of(const json_t *root, size_t task, size_t arg)
{
	const json_t *args =
		capture_array(json_array_get(capture_array(root, "tasks"), task), "args");
	const json_t *found = json_array_get(args, arg);

	assert_non_null(found);
	assert_int_equal(capture_number(found, "arg"), arg);
	return found;
}

static const json_t *phase_of(const json_t *root, size_t task, size_t arg,
			      const char *name)
{
	return json_object_get(arg_of(root, task, arg), name);
}

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
	const json_t *arg = arg_of(root, task, 3);

	assert_string_equal(capture_text(arg, "kind"), "scalar");
	assert_string_equal(capture_text(arg, "dtype"), rp_dtype_name(RP_UINT64));
	assert_int_equal(capture_number(arg, "value"), HOW_WELL);
	arg = arg_of(root, task, 4);
	assert_near(json_real_value(json_object_get(arg, "value")), 1.5);
	assert_string_equal(capture_text(arg, "bits"), "0x3fc00000");
	arg = arg_of(root, task, 5);
	assert_int_equal(capture_number(arg, "value"), -7);
	arg = arg_of(root, task, 6);
	assert_near(json_real_value(json_object_get(arg, "value")) / 0x1p64, 1.0);
	assert_string_equal(capture_text(arg, "bits"), "0xffffffffffffffff");
	arg = arg_of(root, task, 7);
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

		open_bed(&bed, 2, unified);
		assert_ok(run(&bed, HOW_WELL));
		all = load(&bed, "dispatch_1/" FILE_NAME);
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
			check_tensor(arg_of(all, task, 0), "x", rp_dtype_name(RP_INT64),
				     "inout");
			check_tensor(arg_of(all, task, 1), "y", rp_dtype_name(RP_UINT8),
				     "out");
			check_tensor(arg_of(all, task, 2), "z", rp_dtype_name(RP_INT32),
				     "in");
			assert_dims(arg_of(all, task, 2), "shape", (int64_t[]){ 2, 3 },
				    2);
			/* On a device of its own the entry sees a copy without gaps. */
			assert_dims(arg_of(all, task, 2), "strides",
				    unified ? (int64_t[]){ 8, 2 } : (int64_t[]){ 3, 1 },
				    2);
			assert_bytes(&bed, "dispatch_1", phase_of(all, task, 0, "before"),
				     before[task], 32);
			assert_bytes(&bed, "dispatch_1", phase_of(all, task, 0, "after"),
				     task ? after : before[1], 32);
			assert_true(json_is_null(phase_of(all, task, 1, "before")));
			assert_bytes(&bed, "dispatch_1", phase_of(all, task, 1, "after"),
				     y, 64);
			assert_bytes(&bed, "dispatch_1", phase_of(all, task, 2, "before"),
				     part, sizeof(part));
			assert_true(json_is_null(phase_of(all, task, 2, "after")));
			check_scalars(all, task);
		}
		/* The callback, in place. */
		assert_bytes(&bed, "dispatch_1", phase_of(all, 2, 0, "before"), after,
			     32);
		assert_true(json_is_null(phase_of(all, 2, 0, "after")));
		json_decref(all);
		one = load(&bed, "dispatch_1/rank1/" FILE_NAME);
		assert_int_equal(json_array_size(capture_array(one, "tasks")), 1);
		assert_bytes(&bed, "dispatch_1/rank1", phase_of(one, 0, 0, "after"),
			     after, 32);
		json_decref(one);
		/* The index, and four files of bytes. */
		assert_int_equal(capture_count(&bed.files, "dispatch_1/rank0"), 5);
		assert_int_equal(capture_count(&bed.files, "dispatch_1/callback0"), 2);
		close_bed(&bed);
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
	open_bed(&bed, 2, false);
	bed.args[1] = rp_arg_tensor(TENSOR(bed.y, RP_UINT8, BIG));
	assert_ok(run(&bed, HOW_WELL));
	all = load(&bed, "dispatch_1/" FILE_NAME);
	for (size_t task = 0; task < 2; task++) {
		phase = phase_of(all, task, 1, "after");
		assert_bytes(&bed, "dispatch_1", phase, want, BIG);
		assert_true(json_is_false(json_object_get(phase, "truncated")));
	}
	json_decref(all);
	/* Or as much of it as is wanted: then the file says so. */
	bed.config.capture.dump_args_max_bytes = 1000;
	assert_ok(run(&bed, HOW_WELL));
	all = load(&bed, "dispatch_2/" FILE_NAME);
	phase = phase_of(all, 0, 1, "after");
	assert_bytes(&bed, "dispatch_2", phase, want, 1000);
	assert_true(json_is_true(json_object_get(phase, "truncated")));
	assert_int_equal(capture_number(arg_of(all, 0, 1), "bytes"), BIG);
	phase = phase_of(all, 0, 0, "after");
	assert_true(json_is_false(json_object_get(phase, "truncated")));
	json_decref(all);
	/* In the middle of an element's row, and of a strided view. */
	bed.config.capture.dump_args_max_bytes = 10;
	assert_ok(run(&bed, HOW_WELL));
	all = load(&bed, "dispatch_3/" FILE_NAME);
	assert_bytes(&bed, "dispatch_3", phase_of(all, 0, 2, "before"),
		     (const int32_t[]){ 8, 10, 12 }, 10);
	json_decref(all);
	close_bed(&bed);
	free(want);
}

static void resident_tensors_are_read_where_they_are(void **state)
{
	struct args_bed bed;
	struct rp_tensor x;
	json_t *all;

	(void)state;
	open_bed(&bed, 1, false);
	assert_ok(rp_worker_alloc_tensor(bed.bed.worker, 0, RP_INT64, 1, (int64_t[]){ 4 },
					 &bed.args[0].u.tensor, &x));
	bed.args[0] = rp_arg_tensor(x);
	assert_ok(run(&bed, HOW_WELL));
	all = load(&bed, "dispatch_1/" FILE_NAME);
	assert_bytes(&bed, "dispatch_1", phase_of(all, 0, 0, "before"),
		     (const int64_t[]){ 0, 100, 200, 300 }, 32);
	assert_bytes(&bed, "dispatch_1", phase_of(all, 0, 0, "after"),
		     (const int64_t[]){ 1, 101, 201, 301 }, 32);
	json_decref(all);
	close_bed(&bed);
}

static void a_run_that_fails_has_what_its_entries_saw(void **state)
{
	struct args_bed bed;
	json_t *all;

	(void)state;
	open_bed(&bed, 1, false);
	assert_int_equal(run(&bed, HOW_FAIL), -EBADMSG);
	all = load(&bed, "dispatch_1/" FILE_NAME);
	assert_int_equal(capture_number(all, "status"), -EBADMSG);
	assert_bytes(&bed, "dispatch_1", phase_of(all, 0, 0, "after"),
		     (const int64_t[]){ 1, 101, 201, 301 }, 32);
	json_decref(all);
	/* Its process ends: nothing comes after. */
	assert_int_equal(run(&bed, HOW_DIE), -EOWNERDEAD);
	all = load(&bed, "dispatch_2/" FILE_NAME);
	assert_int_equal(capture_number(all, "status"), -EOWNERDEAD);
	assert_bytes(&bed, "dispatch_2", phase_of(all, 0, 0, "before"),
		     (const int64_t[]){ 0, 100, 200, 300 }, 32);
	assert_true(json_is_null(phase_of(all, 0, 0, "after")));
	json_decref(all);
	close_bed(&bed);
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
	open_bed_with(&bed, &options);
	assert_ok(rp_worker_run(bed.bed.worker, NULL, bed.args, 4, NULL));
	all = capture_load(&files, "dispatch_1/" FILE_NAME, FORMAT);
	phase = phase_of(all, 0, 0, "after");
	assert_int_equal(capture_number(phase, "bytes"), 16);
	assert_true(json_is_true(json_object_get(phase, "truncated")));
	json_decref(all);
	close_bed(&bed);
	capture_close(&files);
}

static void each_flag_needs_a_directory(void **state)
{
	struct args_bed bed;

	(void)state;
	open_bed(&bed, 1, false);
	bed.config.capture.output_dir = NULL;
	for (int which = 0; which < 3; which++) {
		bed.config.capture.enable_dump_args = which == 0;
		bed.config.capture.enable_pmu = which == 1;
		bed.config.capture.enable_scope_stats = which == 2;
		assert_int_equal(run(&bed, HOW_WELL), -EINVAL);
		assert_says("output_dir NULL");
	}
	bed.config.capture.enable_scope_stats = false;
	assert_ok(run(&bed, HOW_WELL));
	close_bed(&bed);
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
	open_bed(&bed, 2, false);
	bed.config.capture.enable_chip_swimlane = RP_SWIMLANE_LEVEL_MAX;
	bed.config.capture.enable_dep_gen = true;
	bed.config.capture.enable_scope_stats = true;
	bed.config.capture.enable_pmu = true;
	assert_ok(rp_trace_attach(bed.bed.worker, RP_TRACE_DEVICE, &trace));
	err = run(&bed, HOW_WELL);
	/* Where the machine has no counters nothing was run. */
	if (err == -EOPNOTSUPP) {
		assert_says("enable_pmu");
		bed.config.capture.enable_pmu = false;
		err = run(&bed, HOW_WELL);
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
	all = load(&bed, "dispatch_1/" FILE_NAME);
	assert_int_equal(capture_number(all, "run"), 1);
	assert_int_equal(capture_number(all, "passes"), 2);
	assert_int_equal(json_array_size(capture_array(all, "tasks")), 3);
	assert_bytes(&bed, "dispatch_1", phase_of(all, 1, 0, "after"),
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
	close_bed(&bed);
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
	open_bed(&bed, 2, true);
	bed.args[1] = rp_arg_tensor(TENSOR(bed.y, RP_UINT8, BIG));
	assert_int_equal(run(&bed, HOW_WELL), -EOWNERDEAD);
	all = load(&bed, "dispatch_1/" FILE_NAME);
	assert_true(json_is_false(json_object_get(all, "whole")));
	json_decref(all);
	close_bed(&bed);
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
	open_bed(&full, 1, false);
	PROC_MUST(!setrlimit(RLIMIT_FSIZE, &small));
	full.args[1] = rp_arg_tensor(TENSOR(full.y, RP_UINT8, BIG));
	PROC_MUST(run(&full, HOW_WELL) == -EFBIG);
	PROC_MUST(strstr(rp_last_error(), "task1.arg1.after.bin"));
	/* The run itself went well, and the worker goes on. */
	PROC_MUST(full.x[0] == 1 && full.y[100] == (uint8_t)700);
	PROC_MUST(!capture_has(&full.files, "dispatch_1/rank0/task1.arg1.after.bin"));
	PROC_MUST(capture_has(&full.files, "dispatch_1/rank0/task1.arg0.before.bin"));
	PROC_MUST(capture_has(&full.files, "dispatch_1/" FILE_NAME));
	full.config.capture.enable_dump_args = false;
	PROC_MUST(!run(&full, HOW_WELL));
	full.config.capture.enable_dump_args = true;
	full.args[1] = rp_arg_tensor(TENSOR(full.y, RP_UINT8, 64));
	PROC_MUST(!run(&full, HOW_WELL));
	x = full.x[0];
	close_bed(&full);
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
		PROCESS_TEST(each_task_has_its_arguments_before_and_after),
		PROCESS_TEST(a_tensor_of_any_size_is_written),
		PROCESS_TEST(resident_tensors_are_read_where_they_are),
		PROCESS_TEST(a_run_that_fails_has_what_its_entries_saw),
		PROCESS_TEST(a_worker_dumps_what_has_no_capture_of_its_own),
		PROCESS_TEST(each_flag_needs_a_directory),
		PROCESS_TEST(all_captures_at_once_are_of_one_dispatch),
		PROCESS_TEST(a_chip_that_dies_telling_is_not_waited_for),
		PROCESS_TEST(a_full_disk_is_the_outcome_and_no_more),
	};

	return cmocka_run_group_tests_name("capture_args", tests, NULL, NULL);
}
