/* SPDX-License-Identifier: MIT */
/* Records of swimlanes become what Perfetto shows: read back as JSON and judged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture_bed.h"

static int work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)nargs;
	return capture_count_up(chip, "count up", args, 2);
}

/* Both chips, one after the other. */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	int err = 0;

	(void)nargs, (void)user;
	for (int chip = 0; !err && chip < 2; chip++) {
		struct rp_arg arg = rp_inout(args[0].u.tensor);
		const struct rp_task task = {
			.entry = 0, .chip = chip, .args = &arg, .arg_count = 1
		};

		err = rp_run_task(run, &task);
	}
	return err;
}

/* One captured dispatch in `files`. */
static void capture(struct capture_bed *files, uint32_t level)
{
	static const struct rp_entry entry = { "work", work };
	struct rp_worker_options options;
	struct rp_run_config config;
	struct rp_arg arg;
	struct bed bed;
	int64_t *x;

	bed_options(&options, 2);
	capture_prepare(&bed,
			(struct rp_program_desc){ .name = "exported",
						  .params = &capture_words,
						  .param_count = 1,
						  .entries = &entry,
						  .orchestrate = orchestrate },
			&options);
	capture_open(files, &config);
	config.capture.enable_chip_swimlane = level;
	x = bed_shared(4096, 0);
	arg = rp_arg_tensor(TENSOR(x, RP_INT64, 8));
	assert_ok(rp_worker_run(bed.worker, NULL, &arg, 1, &config));
	assert_int_equal(x[0], 4);
	bed_close(&bed);
	rp_shared_free(x);
}

static json_t *convert(const struct capture_bed *files, const char *name)
{
	char from[256], to[256];
	json_error_t error;
	json_t *root;

	capture_path(files, from, sizeof(from), "%s", name);
	capture_path(files, to, sizeof(to), "perfetto.json");
	assert_ok(rp_capture_export(from, to));
	root = json_load_file(to, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("line %d: %s", error.line, error.text);
	return root;
}

/* Slices of that name, flows and names of tracks. */
struct counts {
	int chip_run, kernel, host_run, phases, flow_begins, flow_ends, names;
};

static struct counts count(const json_t *root)
{
	const json_t *event;
	struct counts out = { 0 };
	size_t i;

	json_array_foreach(capture_array(root, "traceEvents"), i, event)
	{
		const char *ph = capture_text(event, "ph");
		const char *name = capture_text(event, "name");

		capture_number(event, "pid");
		capture_number(event, "tid");
		out.names += !strcmp(ph, "M");
		if (!strcmp(ph, "M"))
			continue;
		assert_true(json_number_value(json_object_get(event, "ts")) >= 0);
		out.flow_begins += !strcmp(ph, "s");
		out.flow_ends += !strcmp(ph, "f");
		if (strcmp(ph, "X") != 0)
			continue;
		assert_true(json_number_value(json_object_get(event, "dur")) >= 0);
		out.chip_run += !strcmp(name, "chip.run");
		out.kernel += !strcmp(name, "count up");
		out.host_run += !strcmp(name, "host.run");
		out.phases += !strncmp(name, "chip.run.", 9);
	}
	return out;
}

static void all_levels_can_be_shown(void **state)
{
	(void)state;
	for (uint32_t level = 1; level <= RP_SWIMLANE_LEVEL_MAX; level++) {
		struct capture_bed files;
		struct counts all, one;
		json_t *root;

		capture(&files, level);
		root = convert(&files, "dispatch_1/chip_swimlane_records.json");
		all = count(root);
		json_decref(root);
		root = convert(&files, "dispatch_1/rank1/chip_swimlane_records.json");
		one = count(root);
		json_decref(root);
		assert_int_equal(all.chip_run, 2);
		assert_int_equal(one.chip_run, 1);
		assert_int_equal(all.host_run, 1);
		assert_int_equal(one.host_run, 0);
		assert_int_equal(all.kernel, level >= 3 ? 4 : 0);
		assert_int_equal(one.kernel, level >= 3 ? 2 : 0);
		assert_true(level >= 2 ? all.phases >= 2 * 4 : !all.phases);
		/* One chip follows the other; and submits, where those are there. */
		assert_int_equal(all.flow_begins, all.flow_ends);
		assert_int_equal(all.flow_begins, level >= 2 ? 3 : 1);
		assert_true(all.names > 0);
		capture_close(&files);
	}
}

#define RECORD(task, edge, more)                                                    \
	"{\"format\":\"ringplane.swimlane\",\"version\":1,\"run\":1,"               \
	"\"processes\":[{\"peer\":0,\"kind\":\"chip\",\"pid\":1}],\"tasks\":[" task \
	"],\"edges\":[" edge "]" more "}"

#define ONE_TASK(end_ns, thread, more)                                        \
	"{\"peer\":0,\"task\":1,\"entry\":\"e\",\"id\":\"i\",\"begin_ns\":2," \
	"\"end_ns\":" #end_ns ",\"thread\":" #thread more "}"

#define ONE_EDGE(from, to)                          \
	"{\"from_peer\":" #from ",\"from_task\":1," \
	"\"to_peer\":" #to ",\"to_task\":2}"

static void what_is_no_record_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"format\":\"ringplane.swimlane\"}",
		"{\"format\":\"ringplane.swimlane\",\"version\":2}",
		"{\"format\":\"ringplane.dep_gen\",\"version\":1}",
		"{\"format\":\"ringplane.swimlane\",\"version\":1,\"run\":1}",
		"{\"format\":\"ringplane.swimlane\",\"version\":1,\"run\":-1,"
		"\"processes\":[],\"tasks\":[],\"edges\":[]}",
		"{\"format\":\"ringplane.swimlane\",\"version\":1,\"run\":1,"
		"\"processes\":[],\"tasks\":[{\"peer\":9}],\"edges\":[]}",
		RECORD(ONE_TASK(1, 1, ""), "", ""),
		RECORD(ONE_TASK(3, -1, ""), "", ""),
		RECORD(ONE_TASK(3, 2147483647,
				",\"phases\":[{\"name\":\"a.device_wall\","
				"\"begin_ns\":2,\"end_ns\":3,"
				"\"thread\":2147483647}]"),
		       "", ""),
		RECORD(ONE_TASK(3, 4294967297, ""), "", ""),
		RECORD(ONE_TASK(3, 1, ",\"phases\":5"), "", ""),
		RECORD(ONE_TASK(3, 1, ",\"kernels\":{}"), "", ""),
		RECORD(ONE_TASK(3, 1, ",\"kernels\":[7]"), "", ""),
		RECORD(ONE_TASK(3, 1, ""), ONE_EDGE(4294967295, 0), ""),
		RECORD(ONE_TASK(3, 1, ""), ONE_EDGE(0, 4294967296), ""),
		RECORD(ONE_TASK(3, 1, ""), ONE_EDGE(0, 1.5), ""),
		RECORD(ONE_TASK(3, 1, ""), "", ",\"host\":\"none\""),
	};
	struct rp_run_config config;
	struct capture_bed files;
	char from[256], to[256];

	(void)state;
	capture_open(&files, &config);
	capture_path(&files, to, sizeof(to), "out.json");
	for (size_t i = 0; i < COUNT(bad); i++) {
		char name[32];

		snprintf(name, sizeof(name), "bad%zu.json", i);
		capture_put(&files, name, bad[i]);
		capture_path(&files, from, sizeof(from), "%s", name);
		assert_int_equal(rp_capture_export(from, to), -EINVAL);
		assert_says("rp_capture_export", from);
	}
	assert_false(capture_has(&files, "out.json"));
	capture_put(&files, "good.json", RECORD(ONE_TASK(3, 1, ""), ONE_EDGE(0, 0), ""));
	capture_path(&files, from, sizeof(from), "good.json");
	assert_ok(rp_capture_export(from, to));
	capture_path(&files, from, sizeof(from), "none.json");
	assert_int_equal(rp_capture_export(from, to), -ENOENT);
	assert_int_equal(rp_capture_export(NULL, to), -EINVAL);
	assert_int_equal(rp_capture_export(from, NULL), -EINVAL);
	capture_close(&files);
}

static void where_it_can_not_be_written_is_told(void **state)
{
	struct capture_bed files;
	char from[256];

	(void)state;
	capture(&files, 1);
	capture_path(&files, from, sizeof(from), "dispatch_1/chip_swimlane_records.json");
	assert_int_equal(rp_capture_export(from, "/proc/ringplane.json"), -ENOENT);
	assert_says("/proc/ringplane.json");
	capture_close(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(all_levels_can_be_shown),
		PROCESS_TEST(what_is_no_record_is_refused),
		PROCESS_TEST(where_it_can_not_be_written_is_told),
	};

	return cmocka_run_group_tests_name("capture_export", tests, NULL, NULL);
}
