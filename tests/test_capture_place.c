/* SPDX-License-Identifier: MIT */
/* Where captures go: what they make, what they remove, and what they leave alone. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture_bed.h"
#include "noop.h"
#include "proc.h"

#define FILE_1 "chip_swimlane_records.json"

struct place_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
};

static const struct rp_entry nothing = { "nothing", noop_entry };

/* Each file of JSON says the name of the program: so long are they at least. */
static char name[6000] = "nothing";

/* Whether somebody had this directory for itself during the last dispatch. */
static char watched[256];
static bool was_taken;

/* Whether anything lay in 0..2 during the last dispatch. */
static bool standard_in_use;

/* The lock of a directory; -1: somebody else has it. */
static int lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	close(fd);
	return -1;
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct rp_task task = { 0 };

	(void)args, (void)nargs, (void)user;
	standard_in_use = false;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		standard_in_use |= fcntl(fd, F_GETFD) >= 0;
	if (watched[0]) {
		int fd = lock(watched);

		was_taken = fd < 0;
		if (!was_taken)
			close(fd);
	}
	return rp_run_task(run, &task);
}

static void worker_open(struct bed *bed)
{
	struct rp_worker_options options;

	bed_options(&options, 1);
	capture_prepare(bed,
			(struct rp_program_desc){ .name = name,
						  .entries = &nothing,
						  .orchestrate = orchestrate },
			&options);
}

static void place_open(struct place_bed *place)
{
	worker_open(&place->bed);
	capture_open(&place->files, &place->config);
	place->config.capture.enable_chip_swimlane = 1;
}

static void place_close(struct place_bed *place)
{
	bed_close(&place->bed);
	capture_close(&place->files);
}

static int run(struct place_bed *place)
{
	return rp_worker_run(place->bed.worker, NULL, NULL, 0, &place->config);
}

/* Another worker, which has not captured into the directory. */
static void again(struct place_bed *place)
{
	bed_close(&place->bed);
	worker_open(&place->bed);
}

static void a_directory_is_made_with_its_parents(void **state)
{
	struct place_bed place;
	char path[256];

	(void)state;
	place_open(&place);
	capture_path(&place.files, path, sizeof(path), "one/two//three/");
	place.config.capture.output_dir = path;
	assert_ok(run(&place));
	assert_true(capture_has(&place.files, "one/two/three/dispatch_1/" FILE_1));
	assert_true(capture_has(&place.files, "one/two/three/dispatch_1/rank0/" FILE_1));
	place_close(&place);
}

static void one_that_can_not_be_had_is_told(void **state)
{
	struct place_bed place;
	char path[256], longest[5000];

	(void)state;
	place_open(&place);
	capture_put(&place.files, "file", "not a directory\n");
	capture_path(&place.files, path, sizeof(path), "file/below");
	place.config.capture.output_dir = path;
	assert_int_equal(run(&place), -ENOTDIR);
	assert_says("rp_worker_submit", path);
	capture_path(&place.files, path, sizeof(path), "file");
	assert_int_equal(run(&place), -ENOTDIR);
	place.config.capture.output_dir = "/proc/ringplane";
	assert_int_equal(run(&place), -ENOENT);
	assert_says("/proc/ringplane");
	/* One name that no file system takes, and a path that no call does. */
	snprintf(longest, sizeof(longest), "/tmp/%0300d", 0);
	place.config.capture.output_dir = longest;
	assert_int_equal(run(&place), -ENAMETOOLONG);
	memset(longest, '/', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(run(&place), -ENAMETOOLONG);
	assert_says("rp_worker_submit");
	/* What was refused did not run, and the worker goes on. */
	place.config.capture.output_dir = place.files.dir;
	assert_ok(run(&place));
	assert_int_equal(bed_stats(&place.bed).dispatches, 1);
	place_close(&place);
}

static void prepare_tells_it_as_well(void **state)
{
	struct proc_census before;
	struct rp_worker_options options;
	struct rp_program_desc desc = { .size = sizeof(desc),
					.name = "nothing",
					.entries = &nothing,
					.entry_count = 1 };
	struct rp_program *program;
	struct rp_worker *worker;

	(void)state;
	assert_ok(rp_program_create(&desc, &program));
	bed_options(&options, 1);
	options.capture.enable_dep_gen = true;
	proc_census_take(&before);
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EINVAL);
	assert_says("rp_worker_prepare", "output_dir NULL");
	options.capture.output_dir = "/proc/ringplane";
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -ENOENT);
	assert_says("rp_worker_prepare", "/proc/ringplane");
	assert_true(proc_census_same(&before));
	rp_program_free(program);
}

static void nothing_of_an_earlier_capture_is_left(void **state)
{
	struct place_bed place;

	(void)state;
	place_open(&place);
	place.config.capture.enable_dep_gen = true;
	for (int i = 0; i < 3; i++)
		assert_ok(run(&place));
	assert_int_equal(capture_count(&place.files, ""), 3);
	assert_true(capture_has(&place.files, "dispatch_3/dep_gen.dot"));
	/* A capture that was cut short leaves a file with another name. */
	capture_put(&place.files, "dispatch_2/.new-" FILE_1, "half");
	again(&place);
	place.config.capture.enable_dep_gen = false;
	assert_ok(run(&place));
	assert_int_equal(capture_count(&place.files, ""), 1);
	assert_int_equal(capture_count(&place.files, "dispatch_1"), 2);
	assert_int_equal(capture_count(&place.files, "dispatch_1/rank0"), 1);
	place_close(&place);
}

static void what_no_capture_has_written_stays(void **state)
{
	struct place_bed place;
	char path[256];

	(void)state;
	place_open(&place);
	/* Names like ours, but not made by a capture. */
	capture_put(&place.files, "notes.txt", "mine\n");
	capture_put(&place.files, "dispatch_9", "mine\n");
	capture_path(&place.files, path, sizeof(path), "dispatch_8");
	assert_int_equal(mkdir(path, 0777), 0);
	capture_put(&place.files, "dispatch_8/" FILE_1, "mine\n");
	capture_path(&place.files, path, sizeof(path), "dispatch_7x");
	assert_int_equal(mkdir(path, 0777), 0);
	assert_ok(run(&place));
	again(&place);
	assert_ok(run(&place));
	assert_true(capture_has(&place.files, "notes.txt"));
	assert_true(capture_has(&place.files, "dispatch_9"));
	assert_true(capture_has(&place.files, "dispatch_8/" FILE_1));
	assert_true(capture_has(&place.files, "dispatch_7x"));
	/* It is in the way of a dispatch of that number. */
	for (int i = 2; i < 8; i++)
		assert_ok(run(&place));
	assert_int_equal(run(&place), -ENOTEMPTY);
	assert_says("dispatch_8");
	assert_true(capture_has(&place.files, "dispatch_8/" FILE_1));
	place_close(&place);
}

static void foreign_files_in_a_capture_are_refused(void **state)
{
	struct place_bed place;
	char path[256], target[256];

	(void)state;
	place_open(&place);
	assert_ok(run(&place));
	assert_ok(run(&place));
	capture_put(&place.files, "dispatch_2/rank0/mine.txt", "mine\n");
	again(&place);
	assert_int_equal(run(&place), -ENOTEMPTY);
	assert_says("dispatch_2", "mine.txt");
	assert_true(capture_has(&place.files, "dispatch_2/" FILE_1));
	assert_true(capture_has(&place.files, "dispatch_2/rank0/mine.txt"));
	capture_path(&place.files, path, sizeof(path), "dispatch_2/rank0/mine.txt");
	assert_int_equal(unlink(path), 0);
	/* A link where a directory should be leads nowhere. */
	capture_put(&place.files, FILE_1, "mine\n");
	capture_path(&place.files, path, sizeof(path), "dispatch_2/rank7");
	capture_path(&place.files, target, sizeof(target), ".");
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(run(&place), -ENOTEMPTY);
	assert_says("rank7");
	assert_true(capture_has(&place.files, FILE_1));
	assert_int_equal(unlink(path), 0);
	/* And one in place of a whole dispatch is none of ours. */
	capture_path(&place.files, path, sizeof(path), "dispatch_5");
	capture_path(&place.files, target, sizeof(target), "dispatch_2");
	assert_int_equal(symlink(target, path), 0);
	assert_ok(run(&place));
	assert_true(capture_has(&place.files, "dispatch_5"));
	assert_false(capture_has(&place.files, "dispatch_2"));
	place_close(&place);
}

/* The test is the other worker: it has a directory as one that captures has it. */
static void what_another_worker_writes_is_left_alone(void **state)
{
	struct place_bed place;
	char path[256];
	int fd;

	(void)state;
	place_open(&place);
	capture_path(&place.files, watched, sizeof(watched), "dispatch_1");
	assert_ok(run(&place));
	assert_true(was_taken);
	watched[0] = '\0';
	assert_ok(run(&place));
	capture_path(&place.files, path, sizeof(path), "dispatch_2");
	fd = lock(path);
	assert_true(fd >= 0);
	again(&place);
	assert_ok(run(&place));
	assert_true(capture_has(&place.files, "dispatch_2/" FILE_1));
	assert_true(capture_has(&place.files, "dispatch_2/rank0/" FILE_1));
	assert_int_equal(run(&place), -EBUSY);
	assert_says("rp_worker_submit: capture", "dispatch_2");
	assert_true(capture_has(&place.files, "dispatch_2/" FILE_1));
	/* It is done: what it has left is replaced as any other. */
	close(fd);
	assert_ok(run(&place));
	again(&place);
	assert_ok(run(&place));
	assert_int_equal(capture_count(&place.files, ""), 1);
	place_close(&place);
}

static void files_are_there_whole_or_not_at_all(void **state)
{
	struct place_bed place;
	char path[256];

	(void)state;
	place_open(&place);
	assert_ok(run(&place));
	capture_path(&place.files, path, sizeof(path), "dispatch_2");
	assert_int_equal(mkdir(path, 0777), 0);
	/* An empty directory is taken. */
	assert_ok(run(&place));
	assert_true(capture_has(&place.files, "dispatch_2/" FILE_1));
	assert_false(capture_has(&place.files, "dispatch_2/.new-" FILE_1));
	place_close(&place);
}

/* This process's files may not grow past so many bytes. */
static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Wherever there is no room for more, something says so, and the next one has its way. */
static void a_full_disk_leaves_nothing_in_the_way(void **state)
{
	(void)state;
	for (rlim_t room = 0; room < 24; room++) {
		struct place_bed place;
		int err;

		place_open(&place);
		limit_files(room);
		err = run(&place);
		limit_files(RLIM_INFINITY);
		assert_int_equal(err, room < 20 && room ? -ENOSPC : -EFBIG);
		assert_says("rp_worker_submit: capture", "dispatch_1/");
		/* A worker of the next day, when there is room again. */
		again(&place);
		assert_ok(run(&place));
		assert_int_equal(capture_count(&place.files, "dispatch_1"), 2);
		place_close(&place);
	}
}

/* What the system says of a file is what the dispatch says, of each kind of file. */
static void each_file_that_can_not_be_written_is_told(void **state)
{
	static const char *const files[] = { FILE_1, "dep_gen.", "dump_args.json",
					     "scope_stats.jsonl", "pmu.csv" };

	(void)state;
	/* Longer than what is held back before it goes to the file. */
	memset(name, 'n', sizeof(name) - 1);
	for (size_t i = 0; i < COUNT(files); i++) {
		/* At the end of the file, and before. */
		for (rlim_t room = 20; room < 200; room += 150) {
			struct place_bed place;
			int err;

			place_open(&place);
			place.config.capture.enable_chip_swimlane = i == 0;
			place.config.capture.enable_dep_gen = i == 1;
			place.config.capture.enable_dump_args = i == 2;
			place.config.capture.enable_scope_stats = i == 3;
			place.config.capture.enable_pmu = i == 4;
			limit_files(room);
			err = run(&place);
			limit_files(RLIM_INFINITY);
			if (err == -EOPNOTSUPP || (!err && i == 4)) {
				place_close(&place);
				continue;
			}
			assert_int_equal(err, -EFBIG);
			assert_says("rp_worker_submit: capture", files[i],
				    strerror(EFBIG));
			assert_int_equal(capture_count(&place.files, "dispatch_1"), 0);
			assert_ok(run(&place));
			place_close(&place);
		}
	}
	strcpy(name, "nothing");
}

static void captures_leave_no_descriptor_behind(void **state)
{
	struct proc_census before;
	struct place_bed place;

	(void)state;
	place_open(&place);
	place.config.capture.enable_dep_gen = true;
	assert_ok(run(&place));
	proc_census_take(&before);
	for (int i = 0; i < 20; i++)
		assert_ok(run(&place));
	assert_true(proc_census_same(&before));
	place_close(&place);
}

/* A service may have closed them; what somebody prints must not end up in a capture. */
static void captures_stay_out_of_the_standard_descriptors(void **state)
{
	int kept[STDERR_FILENO + 1], err;
	struct place_bed place;
	bool used;

	(void)state;
	place_open(&place);
	assert_ok(run(&place));
	assert_true(standard_in_use);
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
		close(fd);
	}
	err = run(&place);
	used = standard_in_use;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (kept[fd] >= 0) {
			dup2(kept[fd], fd);
			close(kept[fd]);
		}
	assert_ok(err);
	assert_false(used);
	assert_true(capture_has(&place.files, "dispatch_2/" FILE_1));
	place_close(&place);
}

static void a_program_has_no_capture_of_its_own(void **state)
{
	struct rp_program_desc desc = { .size = sizeof(desc),
					.name = "nothing",
					.entries = &nothing,
					.entry_count = 1 };
	struct rp_run_config config;
	struct rp_program *program;

	(void)state;
	rp_run_config_init(&config);
	config.capture.enable_dep_gen = true;
	config.capture.output_dir = "/tmp";
	desc.config = &config;
	assert_int_equal(rp_program_create(&desc, &program), -EINVAL);
	assert_says("rp_program_create", "captures");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_directory_is_made_with_its_parents),
		PROCESS_TEST(one_that_can_not_be_had_is_told),
		PROCESS_TEST(prepare_tells_it_as_well),
		PROCESS_TEST(nothing_of_an_earlier_capture_is_left),
		PROCESS_TEST(what_no_capture_has_written_stays),
		PROCESS_TEST(foreign_files_in_a_capture_are_refused),
		PROCESS_TEST(what_another_worker_writes_is_left_alone),
		PROCESS_TEST(files_are_there_whole_or_not_at_all),
		PROCESS_TEST(a_full_disk_leaves_nothing_in_the_way),
		PROCESS_TEST(each_file_that_can_not_be_written_is_told),
		PROCESS_TEST(captures_leave_no_descriptor_behind),
		PROCESS_TEST(captures_stay_out_of_the_standard_descriptors),
		PROCESS_TEST(a_program_has_no_capture_of_its_own),
	};

	return cmocka_run_group_tests_name("capture_place", tests, NULL, NULL);
}
