/* SPDX-License-Identifier: MIT */
/* What pmu.csv says of tasks that are known to have done something. */
#include <ringplane/kernel.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/testing.h"
#include "capture_bed.h"

#define FILE_NAME "pmu.csv"
#define COLUMNS	  32
#define ROWS	  8
#define PAGES	  200
#define BURN_NS	  3000000

static uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int burn(const struct rp_arg *args, size_t nargs)
{
	const uint64_t begin = thread_ns();

	(void)args, (void)nargs;
	while (thread_ns() - begin < BURN_NS)
		;
	return 0;
}

/* Touch fresh pages, and burn on this thread, or in as many kernels as the scalar says.
 */
static int work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const uint64_t kernels = args[0].u.scalar.value.u64;
	struct rp_kernel kernel = { .fn = burn, .name = "burn" };
	const size_t bytes = PAGES * 4096u;
	uint8_t *memory;
	int err = 0;

	(void)nargs;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (memory == MAP_FAILED)
		return -errno;
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < bytes; i += 4096)
		memory[i] = 1;
	munmap(memory, bytes);
	for (uint64_t i = 0; !err && i < kernels; i++)
		err = rp_chip_submit(chip, &kernel, NULL);
	return kernels ? err : burn(NULL, 0);
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct rp_task task = { .args = args, .arg_count = 1 };
	int err = capture_each_chip(run, task);

	(void)nargs, (void)user;
	return err ? err : rp_run_callback(run, 0, NULL, 0);
}

struct pmu_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
	char text[16384];
	char *cells[ROWS][COLUMNS];
	int rows, columns;
};

static void open_bed(struct pmu_bed *bed, uint32_t chips, uint32_t threads)
{
	static const struct rp_param params[] = {
		{ .name = "kernels", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	};
	static const struct rp_entry entry = { "work, \"hard\"", work };
	struct rp_worker_options options;

	bed_options(&options, chips);
	options.compute_threads = threads;
	capture_prepare(&bed->bed,
			(struct rp_program_desc){ .name = "counted",
						  .params = params,
						  .param_count = COUNT(params),
						  .entries = &entry,
						  .callbacks = &capture_look,
						  .callback_count = 1,
						  .orchestrate = orchestrate },
			&options);
	capture_open(&bed->files, &bed->config);
	bed->config.capture.enable_pmu = true;
}

static void close_bed(struct pmu_bed *bed)
{
	bed_close(&bed->bed);
	capture_close(&bed->files);
}

static int run(struct pmu_bed *bed, uint64_t kernels)
{
	const struct rp_arg arg = rp_arg_u64(kernels);

	return rp_worker_run(bed->bed.worker, bed->bed.program, &arg, 1, &bed->config);
}

/* Fields end at commas that stand in no quotes. */
static int split(char *line, char **cells)
{
	int count = 0;
	bool quoted = false;

	cells[count++] = line;
	for (; *line; line++) {
		if (*line == '"')
			quoted = !quoted;
		if (*line != ',' || quoted)
			continue;
		*line = '\0';
		assert_in_range(count, 1, COLUMNS - 1);
		cells[count++] = line + 1;
	}
	assert_false(quoted);
	return count;
}

/* Row 0 names the columns. */
static void load(struct pmu_bed *bed, const char *name)
{
	char path[256], *rest = bed->text, *line;
	size_t bytes;
	FILE *file;

	capture_path(&bed->files, path, sizeof(path), "%s", name);
	file = fopen(path, "r");
	assert_non_null(file);
	bytes = fread(bed->text, 1, sizeof(bed->text) - 1, file);
	bed->text[bytes] = '\0';
	fclose(file);
	bed->rows = 0;
	while ((line = strsep(&rest, "\n")) && *line) {
		assert_in_range(bed->rows, 0, ROWS - 1);
		bed->columns = split(line, bed->cells[bed->rows]);
		if (bed->rows++)
			continue;
		assert_string_equal(bed->cells[0][0], "process");
	}
}

static const char *cell(const struct pmu_bed *bed, int row, const char *column)
{
	for (int i = 0; i < bed->columns; i++)
		if (!strcmp(bed->cells[0][i], column))
			return bed->cells[row][i];
	fail_msg("no column %s", column);
	return NULL;
}

static uint64_t number(const struct pmu_bed *bed, int row, const char *column)
{
	const char *text = cell(bed, row, column);
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	assert_true(*text);
	assert_int_equal(*end, 0);
	return value;
}

/* What some machines do not count is empty in all rows, and never nonsense. */
static void check_events(const struct pmu_bed *bed)
{
	static const char *const columns[] = {
		"task_clock_ns",    "cycles",	      "instructions",  "cache_references",
		"cache_misses",	    "branches",	      "branch_misses", "page_faults",
		"context_switches", "cpu_migrations",
	};

	for (size_t i = 0; i < COUNT(columns); i++)
		for (int row = 1; row < bed->rows; row++)
			if (*cell(bed, row, columns[i]))
				number(bed, row, columns[i]);
}

/* A machine that counts nothing says so. */
static bool is_refused(int err)
{
	if (err != -EOPNOTSUPP) {
		assert_ok(err);
		return false;
	}
	assert_says("enable_pmu", "perf_event_open", "perf_event_paranoid");
	return true;
}

static void check_burnt(const struct pmu_bed *bed, int row, int burns)
{
	const uint64_t clock = number(bed, row, "task_clock_ns");

	assert_true(clock >= (uint64_t)burns * BURN_NS * 9 / 10);
	assert_true(number(bed, row, "page_faults") >= PAGES);
	if (*cell(bed, row, "instructions"))
		assert_true(number(bed, row, "instructions") > 1000);
	assert_true(number(bed, row, "counting_ns") <= number(bed, row, "on_ns"));
	assert_true(number(bed, row, "begin_ns") < number(bed, row, "end_ns"));
	assert_string_equal(cell(bed, row, "entry"), "\"work, \"\"hard\"\"\"");
}

static void each_task_has_what_was_counted_around_its_entry(void **state)
{
	struct pmu_bed bed;

	(void)state;
	open_bed(&bed, 2, 0);
	if (is_refused(run(&bed, 0))) {
		close_bed(&bed);
		skip();
	}
	assert_int_equal(capture_count(&bed.files, "dispatch_1"), 4);
	load(&bed, "dispatch_1/" FILE_NAME);
	assert_int_equal(bed.rows, 1 + 3);
	check_events(&bed);
	for (int row = 1; row <= 2; row++) {
		assert_string_equal(cell(&bed, row, "process"), "chip");
		assert_int_equal(number(&bed, row, "number"), row - 1);
		assert_int_equal(number(&bed, row, "run"), 1);
		assert_int_equal(number(&bed, row, "task"), 1);
		assert_int_equal(number(&bed, row, "threads"), 1);
		assert_int_equal(number(&bed, row, "counted"), 1);
		check_burnt(&bed, row, 1);
	}
	assert_string_equal(cell(&bed, 3, "process"), "callback");
	assert_string_equal(cell(&bed, 3, "entry"), "\"look\"");
	/* It did nothing. */
	assert_true(number(&bed, 3, "task_clock_ns") < BURN_NS);
	load(&bed, "dispatch_1/rank1/" FILE_NAME);
	assert_int_equal(bed.rows, 2);
	check_burnt(&bed, 1, 1);
	load(&bed, "dispatch_1/callback0/" FILE_NAME);
	assert_int_equal(bed.rows, 2);
	/* Counters go on from nothing. */
	assert_ok(run(&bed, 0));
	load(&bed, "dispatch_2/rank0/" FILE_NAME);
	check_burnt(&bed, 1, 1);
	assert_true(number(&bed, 1, "page_faults") < 2 * PAGES);
	close_bed(&bed);
}

static void compute_threads_are_counted_as_well(void **state)
{
	struct pmu_bed bed;

	(void)state;
	open_bed(&bed, 1, 2);
	if (is_refused(run(&bed, 4))) {
		close_bed(&bed);
		skip();
	}
	/* Threads have started by now, whatever the first run found. */
	assert_ok(run(&bed, 4));
	load(&bed, "dispatch_2/rank0/" FILE_NAME);
	assert_int_equal(bed.rows, 2);
	assert_int_equal(number(&bed, 1, "threads"), 3);
	assert_int_equal(number(&bed, 1, "counted"), 3);
	check_burnt(&bed, 1, 4);
	close_bed(&bed);
}

/* --- Refused ------------------------------------------------------------------ */

static pid_t caller;
static bool in_caller;

/* As a machine where nobody may count. */
static int refuse(const char *point)
{
	return !strcmp(point, "pmu.open") && (getpid() == caller) == in_caller ? -EACCES
									       : 0;
}

static void a_machine_that_counts_nothing_is_told_at_the_submit(void **state)
{
	struct pmu_bed bed;

	(void)state;
	open_bed(&bed, 1, 0);
	caller = getpid();
	in_caller = true;
	rpi_test_hook = refuse;
	assert_int_equal(run(&bed, 0), -EOPNOTSUPP);
	assert_says("enable_pmu", "perf_event_open", "Permission denied",
		    "/proc/sys/kernel/perf_event_paranoid");
	assert_int_equal(capture_count(&bed.files, ""), 0);
	rpi_test_hook = NULL;
	bed.config.capture.enable_pmu = false;
	assert_ok(run(&bed, 0));
	close_bed(&bed);
}

static void a_chip_that_can_not_count_is_the_outcome(void **state)
{
	struct pmu_bed bed;
	int err;

	(void)state;
	caller = getpid();
	in_caller = false;
	rpi_test_hook = refuse;
	open_bed(&bed, 1, 0);
	rpi_test_hook = NULL;
	err = run(&bed, 0);
	if (err == -EOPNOTSUPP) {
		close_bed(&bed);
		skip();
	}
	assert_int_equal(err, -EACCES);
	assert_says("enable_pmu", "chip 0", "Permission denied");
	load(&bed, "dispatch_1/rank0/" FILE_NAME);
	assert_int_equal(bed.rows, 2);
	assert_int_equal(number(&bed, 1, "counted"), 0);
	assert_string_equal(cell(&bed, 1, "task_clock_ns"), "");
	bed.config.capture.enable_pmu = false;
	assert_ok(run(&bed, 0));
	close_bed(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(each_task_has_what_was_counted_around_its_entry),
		PROCESS_TEST(compute_threads_are_counted_as_well),
		PROCESS_TEST(a_machine_that_counts_nothing_is_told_at_the_submit),
		PROCESS_TEST(a_chip_that_can_not_count_is_the_outcome),
	};

	return cmocka_run_group_tests_name("capture_pmu", tests, NULL, NULL);
}
