/* SPDX-License-Identifier: MIT */
/*
 * test_bench_report [RPBENCH]
 *
 * What stands on stdout in the end, made from results that are known, and made by rpbench
 * itself, whose path is the argument.
 */
#include "report.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "proc.h"
#include "shell.h"

static const char *rpbench;

struct scene {
	struct bench_options options;
	struct bench_machine machine;
	struct bench_pace pace;
	struct bench_results results;
	struct bench_report report;
};

static void scene_new(struct scene *scene)
{
	memset(scene, 0, sizeof(*scene));
	scene->options = (struct bench_options){ .run_count = 2, .seed = 42 };
	scene->machine = (struct bench_machine){ .version = "1.2.3",
						 .revision = "",
						 .build_flags = "-O3",
						 .compiler = "gcc 12.2",
						 .cpu_model = "some \"cpu\", \\ 2 GHz",
						 .kernel = "Linux 6.1",
						 .cpu_count = 2,
						 .cpu_quota = (double)NAN,
						 .pages = "4k",
						 .relation = "core",
						 .clock = "tsc",
						 .clock_ns = 12.5 };
	scene->pace = (struct bench_pace){ .run_count = 2, .run_ms = 150, .warm_ms = 50 };
	scene->report = (struct bench_report){ .options = &scene->options,
					       .machine = &scene->machine,
					       .pace = &scene->pace,
					       .results = &scene->results };
}

static struct bench_result *scene_add(struct scene *scene, const char *name,
				      const char *limits, size_t run_count, double p50)
{
	struct bench_run run = { p50, 2 * p50, (double)NAN, 4 * p50 };
	struct bench_result *result =
		bench_result_add(&scene->results, name, "ns", limits);

	assert_non_null(result);
	for (size_t i = 0; i < run_count; i++)
		assert_ok(bench_result_run(result, &run));
	return result;
}

/* A line of each kind: judged, without a limit, empty, failed, skipped. */
static void scene_fill(struct scene *scene)
{
	struct bench_result *skipped, *failed;

	scene_new(scene);
	scene_add(scene, "floor", NULL, 2, 50);
	scene_add(scene, "judged", "floor|judged.not", 2, 200);
	scene_add(scene, "alone", NULL, 1, 7.25);
	scene_add(scene, "empty", "floor", 0, 0);
	failed = scene_add(scene, "failed", "floor", 0, 0);
	bench_result_fail(failed, "a \"reason\"");
	skipped = scene_add(scene, "skipped", "floor", 0, 0);
	skipped->skipped = true;
	snprintf(skipped->text, sizeof(skipped->text), "not on this machine");
	assert_ok(bench_results_summarise(&scene->results));
}

/* Where a stream puts its text and its length. */
static char *stream_text;
static size_t stream_bytes;

static char *write_report(int (*report)(const struct bench_report *, FILE *),
			  const struct scene *scene)
{
	FILE *out = open_memstream(&stream_text, &stream_bytes);

	assert_non_null(out);
	assert_ok(report(&scene->report, out));
	assert_int_equal(fclose(out), 0);
	return stream_text;
}

/* One JSON object, the whole of the text; the caller's. */
static json_t *parse_all(const char *text)
{
	json_error_t error;
	/* Without JSON_DISABLE_EOF_CHECK nothing may follow it. */
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fail_msg("line %d: %s in:\n%s", error.line, error.text, text);
	assert_true(json_is_object(root));
	return root;
}

static const json_t *find(const json_t *root, const char *name)
{
	const json_t *results = json_object_get(root, "results"), *result;
	size_t i;

	json_array_foreach(
		results, i,
		result) if (!strcmp(json_string_value(json_object_get(result, "name")),
				    name)) return result;
	fail_msg("no result has the name %s", name);
	return NULL;
}

static double number(const json_t *object, const char *field)
{
	const json_t *value = json_object_get(object, field);

	assert_true(json_is_number(value));
	return json_number_value(value);
}

static void assert_null_field(const json_t *object, const char *field)
{
	if (!json_is_null(json_object_get(object, field)))
		fail_msg("%s is not null", field);
}

static void the_json_has_the_figures_of_each_result(void **state)
{
	struct scene scene;
	const json_t *judged;
	json_t *root;
	char *text;

	(void)state;
	scene_fill(&scene);
	text = write_report(bench_report_json, &scene);
	root = parse_all(text);
	assert_int_equal(json_object_size(root), 2);
	assert_int_equal(json_array_size(json_object_get(root, "results")), 5);
	judged = find(root, "judged");
	assert_string_equal(json_string_value(json_object_get(judged, "unit")), "ns");
	assert_near(number(judged, "median"), 200);
	assert_near(number(judged, "p99"), 400);
	assert_near(number(judged, "max"), 800);
	assert_near(number(judged, "limit"), 50);
	assert_near(number(judged, "ratio"), 4);
	assert_near(number(judged, "runs"), 2);
	assert_int_equal(json_array_size(json_object_get(judged, "run_p50")), 2);
	assert_string_equal(json_string_value(json_object_get(judged, "limit_name")),
			    "floor");
	assert_near(number(find(root, "alone"), "median"), 7.25);
	assert_near(number(find(root, "failed"), "failures"), 1);
	assert_string_equal(
		json_string_value(json_object_get(find(root, "failed"), "remark")),
		"a \"reason\"");
	json_decref(root);
	free(text);
	bench_results_free(&scene.results);
}

static void what_does_not_exist_is_null_in_the_json(void **state)
{
	static const char *const of_empty[] = { "median",  "p99",     "p999", "max",
						"p50_min", "p50_max", "ratio" };
	static const char *const of_alone[] = { "limit", "ratio", "limit_name", "remark",
						"p999" };
	struct scene scene;
	json_t *root;
	char *text;

	(void)state;
	scene_fill(&scene);
	text = write_report(bench_report_json, &scene);
	root = parse_all(text);
	for (size_t i = 0; i < COUNT(of_empty); i++)
		assert_null_field(find(root, "empty"), of_empty[i]);
	for (size_t i = 0; i < COUNT(of_alone); i++)
		assert_null_field(find(root, "alone"), of_alone[i]);
	assert_null_field(json_object_get(root, "machine"), "cpu_quota");
	assert_null_field(json_object_get(root, "machine"), "revision");
	json_decref(root);
	free(text);
	bench_results_free(&scene.results);
}

static void what_was_skipped_is_told_with_its_reason_and_has_no_line(void **state)
{
	const json_t *skipped;
	struct scene scene;
	json_t *root;
	char *text;

	(void)state;
	scene_fill(&scene);
	text = write_report(bench_report_json, &scene);
	root = parse_all(text);
	skipped = json_object_get(json_object_get(root, "machine"), "skipped");
	assert_int_equal(json_object_size(skipped), 1);
	assert_string_equal(json_string_value(json_object_get(skipped, "skipped")),
			    "not on this machine");
	json_decref(root);
	free(text);
	text = write_report(bench_report_text, &scene);
	assert_non_null(strstr(text, "# skipped: skipped, not on this machine\n"));
	assert_null(strstr(text, "\nskipped "));
	free(text);
	bench_results_free(&scene.results);
}

static void a_report_of_nothing_is_an_object_as_well(void **state)
{
	struct scene scene;
	json_t *root;
	char *text;

	(void)state;
	scene_new(&scene);
	text = write_report(bench_report_json, &scene);
	root = parse_all(text);
	assert_int_equal(json_array_size(json_object_get(root, "results")), 0);
	json_decref(root);
	free(text);
}

/* Whether a word "nan" or "inf" stands in it, alone. */
static bool has_no_number(const char *text)
{
	static const char *const words[] = { "nan", "inf", "infinity" };

	while (*text) {
		size_t length = 0;

		while (isalpha((unsigned char)text[length]))
			length++;
		for (size_t i = 0; i < COUNT(words); i++)
			if (length == strlen(words[i]) &&
			    !strncasecmp(text, words[i], length))
				return true;
		text += length ? length : 1;
	}
	return false;
}

static void no_report_has_a_nan(void **state)
{
	static int (*const reports[])(const struct bench_report *,
				      FILE *) = { bench_report_json, bench_report_csv,
						  bench_report_text };
	struct scene scene;

	(void)state;
	assert_true(has_no_number("1,-nan,2") && has_no_number("Infinity"));
	assert_false(has_no_number("nanosecond, info"));
	scene_fill(&scene);
	/* Also a clock that could not be read and a pace that is not known. */
	scene.machine.clock_ns = 0;
	for (size_t i = 0; i < COUNT(reports); i++) {
		char *text = write_report(reports[i], &scene);

		if (has_no_number(text))
			fail_msg("in report %zu:\n%s", i, text);
		free(text);
	}
	bench_results_free(&scene.results);
}

static void a_csv_line_has_a_field_for_each_column(void **state)
{
	struct scene scene;
	int columns = 0, lines = 0;
	char *text, *next, *line;

	(void)state;
	scene_fill(&scene);
	text = next = write_report(bench_report_csv, &scene);
	while ((line = strsep(&next, "\n")) && next) {
		int commas = 0;

		if (line[0] == '#')
			continue;
		for (const char *at = line; *at; at++)
			commas += *at == ',';
		if (!lines++)
			columns = commas;
		assert_int_equal(commas, columns);
	}
	assert_int_equal(columns, 14);
	assert_int_equal(lines, 1 + 5);
	free(text);
	bench_results_free(&scene.results);
}

static void the_text_shows_a_dash_for_what_there_is_not(void **state)
{
	struct scene scene;
	char columns[8][16];
	char *text;

	(void)state;
	scene_fill(&scene);
	text = write_report(bench_report_text, &scene);
	assert_non_null(strstr(text, "pages=4k"));
	assert_non_null(strstr(text, "\n# failed: 1 failure, a \"reason\"\n"));
	assert_non_null(strstr(text, "# judged: the limit is floor"));
	assert_non_null(strstr(text, " 4.00  200..200\n"));
	assert_non_null(strstr(text, "\nempty "));
	assert_int_equal(sscanf(strstr(text, "\nempty "),
				" empty %15s %15s %15s %15s %15s %15s %15s %15s",
				columns[0], columns[1], columns[2], columns[3],
				columns[4], columns[5], columns[6], columns[7]),
			 8);
	assert_string_equal(columns[0], "ns");
	/* It has a limit, and nothing to hold against it. */
	for (size_t i = 1; i < 8; i++)
		assert_string_equal(columns[i], i == 5 ? "50.0" : "-");
	free(text);
	bench_results_free(&scene.results);
}

/* All that rpbench writes to stdout; the caller's. */
static char *run_rpbench(const char *words)
{
	char command[512], *text;
	int status;

	snprintf(command, sizeof(command), "'%s' %s", rpbench, words);
	text = shell_run(command, &status);
	assert_int_equal(status, 0);
	return text;
}

static void rpbench_writes_one_object_to_stdout_and_nothing_else(void **state)
{
	const json_t *machine, *result;
	json_t *root;
	char *text;

	(void)state;
	if (!rpbench) {
		print_message("skipped: the argument, a path of rpbench, is missing\n");
		skip();
	}
	text = run_rpbench("limits --quick --runs 1 --ops 20 --only limits.syscall "
			   "--json");
	root = parse_all(text);
	machine = json_object_get(root, "machine");
	assert_true(json_is_true(json_object_get(machine, "quick")));
	assert_near(number(machine, "run_ops"), 20);
	result = find(root, "limits.syscall");
	assert_true(number(result, "median") > 0);
	assert_null_field(result, "ratio");
	assert_int_equal(json_array_size(json_object_get(root, "results")), 1);
	json_decref(root);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_json_has_the_figures_of_each_result),
		cmocka_unit_test(what_does_not_exist_is_null_in_the_json),
		cmocka_unit_test(
			what_was_skipped_is_told_with_its_reason_and_has_no_line),
		cmocka_unit_test(a_report_of_nothing_is_an_object_as_well),
		cmocka_unit_test(no_report_has_a_nan),
		cmocka_unit_test(a_csv_line_has_a_field_for_each_column),
		cmocka_unit_test(the_text_shows_a_dash_for_what_there_is_not),
		cmocka_unit_test(rpbench_writes_one_object_to_stdout_and_nothing_else),
	};

	rpbench = argc > 1 ? argv[1] : NULL;
	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("bench_report", tests, NULL, NULL);
}
