/* SPDX-License-Identifier: MIT */
#include "capture_bed.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "noop.h"

void capture_open(struct capture_bed *bed, struct rp_run_config *config)
{
	strcpy(bed->dir, "/tmp/rp-capture-XXXXXX");
	assert_non_null(mkdtemp(bed->dir));
	rp_run_config_init(config);
	config->capture.output_dir = bed->dir;
}

static int remove_one(const char *path, const struct stat *what, int flag,
		      struct FTW *walk)
{
	(void)what, (void)flag, (void)walk;
	return remove(path);
}

void capture_close(struct capture_bed *bed)
{
	assert_int_equal(nftw(bed->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void capture_path(const struct capture_bed *bed, char *buf, size_t bytes,
		  const char *format, ...)
{
	int length = snprintf(buf, bytes, "%s/", bed->dir);
	va_list args;

	va_start(args, format);
	length += vsnprintf(buf + length, bytes - (size_t)length, format, args);
	va_end(args);
	assert_in_range(length, 1, bytes - 1);
}

const struct rp_callback capture_look = { .name = "look", .fn = noop_callback };

int capture_each_chip(struct rp_run *run, struct rp_task task)
{
	int err = 0;

	for (uint32_t chip = 0; !err && chip < rp_run_chip_count(run); chip++) {
		task.chip = (int32_t)chip;
		err = rp_run_task(run, &task);
	}
	return err;
}

const struct rp_param capture_words = { .name = "words",
					.kind = RP_ARG_TENSOR,
					.dtype = RP_INT64,
					.access = RP_INOUT,
					.rank = 1,
					.shape = { 8 } };

void capture_prepare(struct bed *bed, struct rp_program_desc desc,
		     const struct rp_worker_options *options)
{
	desc.size = sizeof(desc);
	desc.entry_count = 1;
	bed_prepare(bed, &desc, options);
}

static int count_up(const struct rp_arg *args, size_t nargs)
{
	int64_t *words = args[0].u.tensor.data;

	(void)nargs;
	words[0]++;
	return 0;
}

int capture_count_up(struct rp_chip *chip, const char *name, const struct rp_arg *args,
		     int times)
{
	struct rp_arg arg = rp_inout(args[0].u.tensor);
	const struct rp_kernel kernel = {
		.fn = count_up, .name = name, .args = &arg, .arg_count = 1
	};
	int err = 0;

	while (!err && times--)
		err = rp_chip_submit(chip, &kernel, NULL);
	return err ? err : rp_chip_drain(chip);
}

bool capture_has(const struct capture_bed *bed, const char *name)
{
	char path[256];
	struct stat what;

	capture_path(bed, path, sizeof(path), "%s", name);
	return !lstat(path, &what);
}

int capture_count(const struct capture_bed *bed, const char *name)
{
	char path[256];
	struct dirent *entry;
	int count = 0;
	DIR *dir;

	capture_path(bed, path, sizeof(path), "%s", name);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

void capture_put(const struct capture_bed *bed, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	capture_path(bed, path, sizeof(path), "%s", name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

int64_t capture_number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fail_msg("'%s' is no number", key);
	return json_integer_value(value);
}

const char *capture_text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	if (!value)
		fail_msg("'%s' is no text", key);
	return value;
}

const json_t *capture_array(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_array(value))
		fail_msg("'%s' is no array", key);
	return value;
}

json_t *capture_load(const struct capture_bed *bed, const char *name, const char *format)
{
	char path[256];
	json_error_t error;
	json_t *root;

	capture_path(bed, path, sizeof(path), "%s", name);
	root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("%s: line %d: %s", path, error.line, error.text);
	assert_string_equal(capture_text(root, "format"), format);
	assert_int_equal(capture_number(root, "version"), 1);
	return root;
}

static void check_timed(const json_t *object, int64_t low, int64_t high)
{
	const int64_t begin = capture_number(object, "begin_ns");
	const int64_t end = capture_number(object, "end_ns");

	assert_true(begin > 0);
	assert_true(begin <= end);
	assert_true(begin >= low);
	assert_true(end <= high);
	assert_true(capture_number(object, "thread") > 0);
}

static void check_kernels(const json_t *kernels, int level, int64_t low, int64_t high)
{
	const json_t *kernel;
	size_t i;

	json_array_foreach(kernels, i, kernel)
	{
		assert_int_equal(capture_number(kernel, "kernel"), i);
		capture_text(kernel, "name");
		check_timed(kernel, low, high);
		assert_int_equal(json_object_get(kernel, "ready_ns") != NULL, level >= 4);
		if (level < 4)
			continue;
		assert_true(capture_number(kernel, "submitted_ns") >= low);
		assert_true(capture_number(kernel, "ready_ns") >=
			    capture_number(kernel, "submitted_ns"));
		assert_true(capture_number(kernel, "begin_ns") >=
			    capture_number(kernel, "ready_ns"));
	}
}

static void check_task(const json_t *task, int level, int64_t peers)
{
	const int64_t begin = capture_number(task, "begin_ns");
	const int64_t end = capture_number(task, "end_ns");
	const json_t *phase;
	size_t i;

	assert_in_range(capture_number(task, "peer"), 0, peers - 1);
	assert_true(capture_number(task, "task") > 0);
	assert_true(strlen(capture_text(task, "entry")) > 0);
	assert_true(strlen(capture_text(task, "id")) > 0);
	check_timed(task, 1, INT64_MAX);
	assert_int_equal(json_object_get(task, "phases") != NULL, level >= 2);
	assert_int_equal(json_object_get(task, "kernels") != NULL, level >= 3);
	json_array_foreach(json_object_get(task, "phases"), i, phase)
	{
		assert_true(strlen(capture_text(phase, "name")) > 0);
		check_timed(phase, begin, end);
	}
	check_kernels(json_object_get(task, "kernels"), level, begin, end);
}

static bool has_task(const json_t *tasks, int64_t peer, int64_t number)
{
	const json_t *task;
	size_t i;

	json_array_foreach(tasks, i,
			   task) if (capture_number(task, "peer") == peer &&
				     capture_number(task, "task") == number) return true;
	return false;
}

void capture_check_swimlane(const json_t *root, int level)
{
	const json_t *tasks = capture_array(root, "tasks"), *task, *edge;
	const bool all = !json_object_get(root, "of");
	/* The caller's process is one more. */
	const int64_t peers =
		(int64_t)json_array_size(capture_array(root, "processes")) - 1;
	size_t i;

	assert_int_equal(capture_number(root, "level"), level);
	assert_int_equal(capture_number(root, "dropped"), 0);
	json_array_foreach(tasks, i, task) check_task(task, level, peers);
	json_array_foreach(capture_array(root, "edges"), i, edge)
	{
		assert_true(has_task(tasks, capture_number(edge, "to_peer"),
				     capture_number(edge, "to_task")));
		assert_true(!all || has_task(tasks, capture_number(edge, "from_peer"),
					     capture_number(edge, "from_task")));
	}
	assert_int_equal(json_object_get(root, "host") != NULL, all);
	json_array_foreach(json_object_get(root, "host"), i, task)
	{
		assert_memory_equal(capture_text(task, "name"), "host.", 5);
		check_timed(task, 1, INT64_MAX);
	}
}
