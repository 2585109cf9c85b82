/* SPDX-License-Identifier: MIT */
/* What scope_stats.jsonl says of entries whose use of the rings is known. */
#include <ringplane/kernel.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture_bed.h"

#define FILE_NAME "scope_stats.jsonl"
#define WINDOW	  16
#define HEAP	  16384
#define POOL	  4

/* --- Entries --------------------------------------------------------------- */

static int nothing(const struct rp_arg *args, size_t nargs)
{
	(void)args, (void)nargs;
	return 0;
}

/* `count` kernels, each with so many bytes of output; 0: none. */
static int submit(struct rp_chip *chip, int count, int64_t bytes)
{
	int err = 0;

	for (int i = 0; !err && i < count; i++) {
		struct rp_arg arg = rp_out_new(RP_UINT8, 1, &bytes);
		struct rp_kernel kernel = { .fn = nothing,
					    .name = "nothing",
					    .args = &arg,
					    .arg_count = bytes ? 1 : 0 };

		err = rp_chip_submit(chip, &kernel, NULL);
	}
	return err;
}

static int scope(struct rp_chip *chip, enum rp_scope_kind kind, int count, int64_t bytes)
{
	int err = rp_scope_begin(chip, kind);

	if (!err)
		err = submit(chip, count, bytes);
	return err ? err : rp_scope_end(chip);
}

/* Two that follow each other, then one inside another where both share a ring. */
static int nest(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_ring_state state;
	int err;

	(void)args, (void)nargs;
	err = submit(chip, 3, 0);
	if (!err)
		err = scope(chip, RP_SCOPE_AUTO, 5, 2048);
	if (!err)
		err = rp_scope_begin(chip, RP_SCOPE_MANUAL);
	if (!err)
		err = submit(chip, 2, 1000);
	if (!err)
		err = rp_chip_ring_state(chip, 1, &state);
	/* What the entry is told is since the rings were built. */
	if (!err && (state.task_window.peak < 5 || state.heap.peak < 5 * 2048))
		return rp_chip_fail(chip, -EBADMSG, "peaks %d and %d",
				    (int)state.task_window.peak, (int)state.heap.peak);
	for (int depth = 2; !err && depth <= 3; depth++)
		err = rp_scope_begin(chip, RP_SCOPE_MANUAL);
	if (!err)
		err = submit(chip, 2, 0);
	if (!err)
		err = scope(chip, RP_SCOPE_MANUAL, 3, 0);
	return err ? err : submit(chip, 1, 0); /* and leave all open */
}

/* Held back until the submitter itself asks, which it does when it waits. */
static bool asked_by_submitter(const struct rp_arg *args, size_t nargs)
{
	static _Atomic bool asked;

	(void)args, (void)nargs;
	if (syscall(SYS_gettid) == getpid())
		atomic_store(&asked, true);
	return atomic_load(&asked);
}

static int submit_held(struct rp_chip *chip, int64_t bytes, rp_kernel_id *id)
{
	struct rp_arg arg = rp_out_new(RP_UINT8, 1, &bytes);
	struct rp_kernel kernel = { .fn = nothing,
				    .name = "held",
				    .args = &arg,
				    .arg_count = 1,
				    .ready = asked_by_submitter };

	return rp_chip_submit(chip, &kernel, id);
}

/* The ring of scopes of depth 1 is full of what is held back. The scalar: of what. */
static int fill(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const uint64_t what = args[0].u.scalar.value.u64;
	rp_kernel_id id;
	int err;

	(void)nargs;
	err = rp_scope_begin(chip, RP_SCOPE_MANUAL);
	for (int i = 0; !err && i < (what == 0 ? WINDOW : 4); i++)
		err = submit_held(chip, what == 1 ? HEAP / 4 : 1, &id);
	for (int i = 0; !err && what == 2 && i < POOL + 1; i++) {
		struct rp_kernel kernel = {
			.fn = nothing, .name = "after", .deps = &id, .dep_count = 1
		};

		err = rp_chip_submit(chip, &kernel, NULL);
	}
	if (!err)
		err = rp_scope_end(chip);
	return err ? err : scope(chip, RP_SCOPE_MANUAL, 1, 1);
}

/* It ends its process in an open scope. */
static int die(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)args, (void)nargs;
	if (!scope(chip, RP_SCOPE_AUTO, 1, 0) && !rp_scope_begin(chip, RP_SCOPE_AUTO))
		kill(getpid(), SIGKILL);
	return 0;
}

/* More than there is room for. */
static int overfill(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)args, (void)nargs;
	return scope(chip, RP_SCOPE_AUTO, WINDOW + 1, 0);
}

/* --- The program ------------------------------------------------------------ */

enum {
	ENTRY_NEST,
	ENTRY_FILL,
	ENTRY_DIE,
	ENTRY_OVERFILL,
	ENTRY_IDLE
};

static int idle(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip, (void)args, (void)nargs;
	return 0;
}

struct scope_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
	json_t *lines[16];
	int count;
};

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct rp_arg what = rp_arg_u64(args[1].u.scalar.value.u64);
	const struct rp_task task = { .entry = (uint32_t)args[0].u.scalar.value.u64,
				      .args = &what,
				      .arg_count = 1 };

	(void)nargs, (void)user;
	return capture_each_chip(run, task);
}

static void open_bed(struct scope_bed *bed, uint32_t chips, uint32_t threads)
{
	static const struct rp_param params[] = {
		{ .name = "entry", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
		{ .name = "what", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	};
	static const struct rp_entry entries[] = { { "nest", nest },
						   { "fill", fill },
						   { "die", die },
						   { "overfill", overfill },
						   { "idle", idle } };
	struct rp_worker_options options;
	struct rp_program_desc desc;

	bed_options(&options, chips);
	options.compute_threads = threads;
	rp_program_desc_init(&desc);
	desc.name = "scopes";
	desc.params = params;
	desc.param_count = COUNT(params);
	desc.entries = entries;
	desc.entry_count = COUNT(entries);
	desc.orchestrate = orchestrate;
	bed_prepare(&bed->bed, &desc, &options);
	capture_open(&bed->files, &bed->config);
	bed->config.capture.enable_scope_stats = true;
	bed->config.ring_task_window.all = WINDOW;
	bed->config.ring_heap.all = HEAP;
	bed->config.ring_dep_pool.all = POOL;
	bed->count = 0;
}

static void drop_lines(struct scope_bed *bed)
{
	while (bed->count)
		json_decref(bed->lines[--bed->count]);
}

static void close_bed(struct scope_bed *bed)
{
	drop_lines(bed);
	bed_close(&bed->bed);
	capture_close(&bed->files);
}

static int run(struct scope_bed *bed, uint64_t entry, uint64_t what)
{
	const struct rp_arg args[] = { rp_arg_u64(entry), rp_arg_u64(what) };

	return rp_worker_run(bed->bed.worker, bed->bed.program, args, 2, &bed->config);
}

/* The lines of a file: the first says what it is, the others are scopes. */
static void load(struct scope_bed *bed, const char *name)
{
	char path[256], line[4096];
	FILE *file;

	drop_lines(bed);
	capture_path(&bed->files, path, sizeof(path), "%s", name);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		assert_in_range(bed->count, 0, COUNT(bed->lines) - 1);
		bed->lines[bed->count] = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(bed->lines[bed->count]);
		bed->count++;
	}
	fclose(file);
	assert_true(bed->count > 0);
	assert_string_equal(capture_text(bed->lines[0], "format"),
			    "ringplane.scope_stats");
	assert_int_equal(capture_number(bed->lines[0], "version"), 1);
	assert_int_equal(capture_number(bed->lines[0], "dropped"), 0);
	assert_true(json_is_true(json_object_get(bed->lines[0], "whole")));
}

static int64_t usage(const json_t *line, const char *ring, const char *what)
{
	return capture_number(json_object_get(line, ring), what);
}

struct expected {
	int depth, ring, kernels;
	const char *kind;
	int window, heap;
};

static void check_scope(const json_t *line, int number, const struct expected *want)
{
	assert_string_equal(capture_text(line, "process"), "chip");
	assert_string_equal(capture_text(line, "entry"), "nest");
	assert_int_equal(capture_number(line, "task"), 2);
	assert_int_equal(capture_number(line, "scope"), number);
	assert_int_equal(capture_number(line, "depth"), want->depth);
	assert_int_equal(capture_number(line, "ring"), want->ring);
	assert_int_equal(capture_number(line, "kernels"), want->kernels);
	assert_string_equal(capture_text(line, "kind"), want->kind);
	assert_true(capture_number(line, "begin_ns") <= capture_number(line, "end_ns"));
	assert_int_equal(usage(line, "task_window", "capacity"), WINDOW);
	assert_int_equal(usage(line, "task_window", "peak"), want->window);
	assert_int_equal(usage(line, "task_window", "waits"), 0);
	assert_int_equal(usage(line, "heap", "capacity"), HEAP);
	assert_int_equal(usage(line, "heap", "peak"), want->heap);
	assert_int_equal(usage(line, "heap", "waits"), 0);
	assert_int_equal(usage(line, "dep_pool", "capacity"), POOL);
	assert_int_equal(usage(line, "dep_pool", "peak"), 0);
	assert_int_equal(usage(line, "dep_pool", "waits"), 0);
	assert_true(usage(line, "overlap_map", "capacity") > 0);
	assert_int_equal(usage(line, "overlap_map", "waits"), 0);
}

/* --- Tests ------------------------------------------------------------------ */

static void each_scope_has_the_peaks_of_its_own_ring(void **state)
{
	static const struct expected want[] = {
		{ 0, 0, 3, "auto", 3, 0 },
		{ 1, 1, 5, "auto", 5, 5 * 2048 },
		{ 1, 1, 2, "manual", 2, 2 * 1024 },
		{ 2, 2, 0, "manual", 0, 0 },
		/* The inner one's kernels are in the same ring. */
		{ 3, 3, 6, "manual", 6, 0 },
		{ 4, 3, 3, "manual", 5, 0 },
	};
	struct scope_bed bed;
	char name[64];

	(void)state;
	open_bed(&bed, 2, 0);
	/* Peaks of an earlier run are none of this one's. */
	bed.config.capture.enable_scope_stats = false;
	bed.config.capture.output_dir = NULL;
	assert_int_equal(run(&bed, ENTRY_OVERFILL, 0), -EDEADLK);
	bed.config.capture.enable_scope_stats = true;
	bed.config.capture.output_dir = bed.files.dir;
	assert_ok(run(&bed, ENTRY_NEST, 0));
	assert_int_equal(capture_count(&bed.files, "dispatch_2"), 3);
	for (uint32_t chip = 0; chip < 2; chip++) {
		snprintf(name, sizeof(name), "dispatch_2/rank%u/" FILE_NAME, chip);
		load(&bed, name);
		assert_int_equal(bed.count, 1 + COUNT(want));
		for (int i = 0; i < (int)COUNT(want); i++) {
			check_scope(bed.lines[1 + i], i, &want[i]);
			assert_int_equal(capture_number(bed.lines[1 + i], "number"),
					 chip);
		}
	}
	load(&bed, "dispatch_2/" FILE_NAME);
	assert_int_equal(bed.count, 1 + 2 * COUNT(want));
	/* An entry without kernels. */
	assert_ok(run(&bed, ENTRY_IDLE, 0));
	load(&bed, "dispatch_3/" FILE_NAME);
	assert_int_equal(bed.count, 1);
	close_bed(&bed);
}

static void what_a_full_ring_made_wait_is_counted(void **state)
{
	static const char *const names[] = { "task_window", "heap", "dep_pool" };
	static const int64_t peaks[] = { WINDOW, HEAP, POOL };

	(void)state;
	for (uint64_t what = 0; what < COUNT(names); what++) {
		struct scope_bed bed;
		int64_t waits = 0;

		open_bed(&bed, 1, 1);
		assert_ok(run(&bed, ENTRY_FILL, what));
		load(&bed, "dispatch_1/rank0/" FILE_NAME);
		assert_int_equal(bed.count, 1 + 3);
		for (int i = 2; i <= 3; i++)
			for (size_t k = 0; k < COUNT(names); k++) {
				int64_t seen = usage(bed.lines[i], names[k], "waits");

				if (k == what)
					waits += seen;
				else
					assert_int_equal(seen, 0);
			}
		assert_true(waits > 0);
		assert_int_equal(usage(bed.lines[2], names[what], "peak"), peaks[what]);
		close_bed(&bed);
	}
}

static void a_failed_entry_has_its_scopes(void **state)
{
	struct scope_bed bed;

	(void)state;
	open_bed(&bed, 1, 0);
	assert_int_equal(run(&bed, ENTRY_OVERFILL, 0), -EDEADLK);
	load(&bed, "dispatch_1/" FILE_NAME);
	assert_int_equal(capture_number(bed.lines[0], "status"), -EDEADLK);
	assert_int_equal(bed.count, 1 + 2);
	assert_int_equal(usage(bed.lines[2], "task_window", "peak"), WINDOW);
	/* It is a capture like another. */
	assert_ok(run(&bed, ENTRY_NEST, 0));
	load(&bed, "dispatch_2/" FILE_NAME);
	assert_int_equal(bed.count, 1 + 6);
	close_bed(&bed);
}

static void a_chip_that_dies_leaves_the_scopes_that_had_ended(void **state)
{
	struct scope_bed bed;

	(void)state;
	open_bed(&bed, 1, 0);
	assert_int_equal(run(&bed, ENTRY_DIE, 0), -EOWNERDEAD);
	load(&bed, "dispatch_1/" FILE_NAME);
	assert_int_equal(capture_number(bed.lines[0], "status"), -EOWNERDEAD);
	assert_int_equal(bed.count, 1 + 1);
	assert_int_equal(capture_number(bed.lines[1], "scope"), 1);
	close_bed(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(each_scope_has_the_peaks_of_its_own_ring),
		PROCESS_TEST(what_a_full_ring_made_wait_is_counted),
		PROCESS_TEST(a_failed_entry_has_its_scopes),
		PROCESS_TEST(a_chip_that_dies_leaves_the_scopes_that_had_ended),
	};

	return cmocka_run_group_tests_name("capture_scopes", tests, NULL, NULL);
}
