/* SPDX-License-Identifier: MIT */
/* Names may hold any bytes; files are JSON, CSV and Graphviz, and say them all the same.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_bed.h"
#include "noop.h"

static const struct {
	const char *name, *shown;
} names[] = {
	{ "plain", "plain" },
	{ "a \"quote\", a \\ and a ' %s %n", "a \"quote\", a \\ and a ' %s %n" },
	{ "line\nbreak\r\ttab\x01\x1f\x7f", "line\nbreak\r\ttab\x01\x1f\x7f" },
	{ "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80",
	  "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80" },
	{ "\xc3\xa9 \xff\xc3z \xed\xa0\x80 \xf5", "\xc3\xa9 ??z ??? ?" },
};

static const char *name; /* of everything in the program */

static int work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)nargs;
	return capture_count_up(chip, name, args, 2);
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct rp_arg arg = rp_inout(args[0].u.tensor);
	const struct rp_task task = { .args = &arg, .arg_count = 1 };
	int err = rp_run_task(run, &task);

	(void)nargs, (void)user;
	if (!err)
		err = rp_run_task(run, &task);
	return err ? err : rp_run_callback(run, 0, &arg, 1);
}

/* One dispatch with all captures of a program whose names are all `name`. */
static void capture(struct capture_bed *files, bool *pmu_out)
{
	struct rp_param param = capture_words;
	const struct rp_entry entry = { name, work };
	const struct rp_callback callback = { .name = name, .fn = noop_callback };
	struct rp_worker_options options;
	struct rp_run_config config;
	struct rp_arg arg;
	struct bed bed;
	int64_t *x = bed_shared(4096, 0);
	int err;

	param.name = name;
	bed_options(&options, 1);
	capture_prepare(&bed,
			(struct rp_program_desc){ .name = name,
						  .params = &param,
						  .param_count = 1,
						  .entries = &entry,
						  .callbacks = &callback,
						  .callback_count = 1,
						  .orchestrate = orchestrate },
			&options);
	capture_open(files, &config);
	config.capture.enable_chip_swimlane = RP_SWIMLANE_LEVEL_MAX;
	config.capture.enable_dep_gen = true;
	config.capture.enable_dump_args = true;
	config.capture.enable_scope_stats = true;
	config.capture.enable_pmu = true;
	arg = rp_arg_tensor(TENSOR(x, RP_INT64, 8));
	err = rp_worker_run(bed.worker, NULL, &arg, 1, &config);
	*pmu_out = err != -EOPNOTSUPP;
	if (!*pmu_out) {
		config.capture.enable_pmu = false;
		err = rp_worker_run(bed.worker, NULL, &arg, 1, &config);
	}
	assert_ok(err);
	bed_close(&bed);
	rp_shared_free(x);
}

/* The bytes of a file, which are UTF-8; given to free(). */
static char *read_text(const struct capture_bed *files, const char *file)
{
	static const size_t room = 1 << 20;
	char path[256], *text = malloc(room);
	json_t *value;
	size_t bytes;
	FILE *in;

	capture_path(files, path, sizeof(path), "%s", file);
	in = fopen(path, "r");
	assert_non_null(text);
	assert_non_null(in);
	bytes = fread(text, 1, room, in);
	fclose(in);
	assert_in_range(bytes, 1, room - 1);
	text[bytes] = '\0';
	value = json_stringn(text, bytes);
	if (!value)
		fail_msg("%s is no UTF-8", path);
	json_decref(value);
	return text;
}

static const json_t *at(const json_t *root, const char *key, size_t i)
{
	const json_t *found = json_array_get(capture_array(root, key), i);

	assert_non_null(found);
	return found;
}

static void check_swimlane(const struct capture_bed *files, const char *shown)
{
	json_t *root = capture_load(files, "dispatch_1/chip_swimlane_records.json",
				    "ringplane.swimlane");
	const json_t *task = at(root, "tasks", 0);

	assert_string_equal(capture_text(root, "program"), shown);
	assert_string_equal(capture_text(task, "entry"), shown);
	assert_string_equal(capture_text(at(task, "kernels", 0), "name"), shown);
	assert_string_equal(capture_text(at(root, "tasks", 2), "entry"), shown);
	json_decref(root);
}

static void check_graph(const struct capture_bed *files, const char *shown)
{
	json_t *root =
		capture_load(files, "dispatch_1/dep_gen.json", "ringplane.dep_gen");
	const json_t *node = at(root, "nodes", 0);

	assert_string_equal(capture_text(node, "entry"), shown);
	assert_string_equal(capture_text(at(node, "kernels", 1), "name"), shown);
	assert_string_equal(capture_text(at(root, "edges", 0), "memory"), shown);
	json_decref(root);
	free(read_text(files, "dispatch_1/dep_gen.dot"));
}

static void check_args(const struct capture_bed *files, const char *shown)
{
	json_t *root =
		capture_load(files, "dispatch_1/dump_args.json", "ringplane.dump_args");
	const json_t *task = at(root, "tasks", 0);

	assert_string_equal(capture_text(task, "entry"), shown);
	assert_string_equal(capture_text(at(task, "args", 0), "memory"), shown);
	json_decref(root);
}

static void check_scopes(const struct capture_bed *files, const char *shown)
{
	char *text = read_text(files, "dispatch_1/scope_stats.jsonl"), *next = text;
	const char *line = strsep(&next, "\n");
	json_t *root = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

	assert_string_equal(capture_text(root, "program"), shown);
	json_decref(root);
	root = json_loads(strsep(&next, "\n"), JSON_REJECT_DUPLICATES, NULL);
	assert_string_equal(capture_text(root, "entry"), shown);
	json_decref(root);
	free(text);
}

/* Quotes are doubled; nothing else of a name is changed there. */
static void check_counts(const struct capture_bed *files, const char *shown)
{
	char *text = read_text(files, "dispatch_1/pmu.csv"), want[256], *to = want;

	*to++ = '"';
	for (; *shown; shown++) {
		if (*shown == '"')
			*to++ = '"';
		*to++ = *shown;
	}
	memcpy(to, "\",", 3);
	assert_non_null(strstr(text, want));
	free(text);
}

static void check_exported(const struct capture_bed *files, const char *shown)
{
	char from[256], to[256];
	int kernels = 0, entries = 0;
	const json_t *event;
	json_t *root;
	size_t i;

	capture_path(files, from, sizeof(from), "dispatch_1/chip_swimlane_records.json");
	capture_path(files, to, sizeof(to), "perfetto.json");
	assert_ok(rp_capture_export(from, to));
	free(read_text(files, "perfetto.json"));
	root = json_load_file(to, JSON_REJECT_DUPLICATES, NULL);
	json_array_foreach(capture_array(root, "traceEvents"), i, event)
	{
		const json_t *entry =
			json_object_get(json_object_get(event, "args"), "entry");

		kernels += !strcmp(capture_text(event, "name"), shown);
		entries += entry && !strcmp(json_string_value(entry), shown);
	}
	assert_int_equal(kernels, 4);
	assert_true(entries >= 7);
	json_decref(root);
}

static void every_file_says_every_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		struct capture_bed files;
		bool pmu;

		name = names[i].name;
		capture(&files, &pmu);
		check_swimlane(&files, names[i].shown);
		check_graph(&files, names[i].shown);
		check_args(&files, names[i].shown);
		check_scopes(&files, names[i].shown);
		if (pmu)
			check_counts(&files, names[i].shown);
		check_exported(&files, names[i].shown);
		capture_close(&files);
	}
}

/* At each length some table cuts in the middle of a character. */
static void a_name_that_is_cut_ends_with_a_character(void **state)
{
	static const char *const texts[] = { "dispatch_1/dep_gen.dot",
					     "dispatch_1/scope_stats.jsonl" };
	char longest[160];

	(void)state;
	for (size_t shift = 0; shift < 2; shift++) {
		struct capture_bed files;
		char from[256], to[256];
		json_t *root;
		bool pmu;

		memset(longest, 'a', shift);
		for (size_t i = shift; i + 2 < sizeof(longest); i += 2)
			memcpy(longest + i, "\xc3\xa9", 3);
		name = longest;
		capture(&files, &pmu);
		for (size_t i = 0; i < COUNT(texts); i++)
			free(read_text(&files, texts[i]));
		if (pmu)
			free(read_text(&files, "dispatch_1/pmu.csv"));
		root = capture_load(&files, "dispatch_1/chip_swimlane_records.json",
				    "ringplane.swimlane");
		/* All but the last of them is there. */
		assert_memory_equal(capture_text(at(root, "tasks", 0), "entry"), longest,
				    60);
		assert_memory_equal(
			capture_text(at(at(root, "tasks", 0), "kernels", 0), "name"),
			longest, 60);
		json_decref(root);
		capture_path(&files, from, sizeof(from),
			     "dispatch_1/chip_swimlane_records.json");
		capture_path(&files, to, sizeof(to), "perfetto.json");
		assert_ok(rp_capture_export(from, to));
		free(read_text(&files, "perfetto.json"));
		capture_close(&files);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(every_file_says_every_name),
		PROCESS_TEST(a_name_that_is_cut_ends_with_a_character),
	};

	return cmocka_run_group_tests_name("capture_names", tests, NULL, NULL);
}
