/* SPDX-License-Identifier: MIT */
/* The export is what the trace event format asks for: read back as JSON and judged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "support.h"

static int both_chips(struct rp_run *run, void *arg)
{
	struct rp_tensor tensor = TENSOR(arg, RP_INT64, 8);
	int err = TASK(run, 0, ENTRY_ADD, rp_inout(tensor), rp_arg_u64(1));

	return err ? err : TASK(run, 1, ENTRY_ADD, rp_inout(tensor), rp_arg_u64(1));
}

static json_t *export(const struct rp_span *spans, size_t count)
{
	char path[] = "/tmp/rp-perfetto-XXXXXX";
	int fd = mkstemp(path);
	json_error_t error;
	json_t *root;

	assert_true(fd >= 0);
	close(fd);
	assert_ok(rp_trace_export(spans, count, path));
	root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("line %d: %s", error.line, error.text);
	unlink(path);
	assert_true(json_is_array(json_object_get(root, "traceEvents")));
	return root;
}

static const char *text(const json_t *event, const char *key)
{
	const char *value = json_string_value(json_object_get(event, key));

	assert_non_null(value);
	return value;
}

static double number(const json_t *event, const char *key)
{
	assert_true(json_is_number(json_object_get(event, key)));
	return json_number_value(json_object_get(event, key));
}

/* A flow's end lies in a slice of its own track. */
static bool in_a_slice(const json_t *events, const json_t *flow)
{
	size_t i;
	json_t *event;

	json_array_foreach(events, i, event)
	{
		double at;

		if (strcmp(text(event, "ph"), "X") != 0 ||
		    number(event, "pid") != number(flow, "pid") ||
		    number(event, "tid") != number(flow, "tid"))
			continue;
		at = number(flow, "ts") - number(event, "ts");
		if (at > -1e-6 && at < number(event, "dur") + 1e-6)
			return true;
	}
	return false;
}

static void a_dispatch_becomes_tracks_slices_and_flows(void **state)
{
	int64_t *data = bed_shared(4096, 0);
	size_t slices = 0, begins = 0, ends = 0, names = 0, i;
	json_t *root, *events, *event;
	struct rp_span spans[200];
	struct rp_trace *trace;
	size_t count;
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST | RP_TRACE_DEVICE, &trace));
	assert_ok(bed_run(&bed, both_chips, data));
	assert_ok(bed_run(&bed, both_chips, data));
	count = rp_trace_read(trace, spans, COUNT(spans));
	root = export(spans, count);
	events = json_object_get(root, "traceEvents");
	json_array_foreach(events, i, event)
	{
		const char *ph = text(event, "ph");

		assert_true(json_is_integer(json_object_get(event, "pid")));
		assert_true(json_is_integer(json_object_get(event, "tid")));
		text(event, "name");
		if (!strcmp(ph, "M")) {
			names++;
			text(json_object_get(event, "args"), "name");
			continue;
		}
		assert_true(number(event, "ts") >= 0);
		if (!strcmp(ph, "X")) {
			slices++;
			assert_true(number(event, "dur") >= 0);
			continue;
		}
		assert_true(json_is_integer(json_object_get(event, "id")));
		assert_true(in_a_slice(events, event));
		if (!strcmp(ph, "s"))
			begins++;
		else if (!strcmp(ph, "f"))
			ends++;
		else
			fail_msg("an event of type '%s'", ph);
	}
	/* Each run: seven of the caller, seven of each chip, and of chip 1's task that
	 * it followed; two submits to tasks and one task to another. */
	assert_int_equal(slices, 2 * 21);
	assert_int_equal(begins, ends);
	assert_in_range(begins, 2 * 3, 2 * 3 + 2);
	/* Three processes; a thread each, and two devices. */
	assert_int_equal(names, 3 + 5);
	json_decref(root);
	rp_trace_detach(trace);
	bed_close(&bed);
	rp_shared_free(data);
}

static void names_of_any_bytes_are_still_json(void **state)
{
	struct rp_span span = { .name = "a\"b\\c\n\x01\xff", .task = 1, .follows = -1 };
	json_t *root;

	(void)state;
	memset(span.task_name, '"', sizeof(span.task_name) - 1);
	root = export(&span, 1);
	json_decref(root);
	root = export(NULL, 0);
	assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 0);
	json_decref(root);
}

static void what_can_not_be_written_is_told(void **state)
{
	struct rp_span span = { .follows = -1 }, *spans;

	(void)state;
	assert_int_equal(rp_trace_export(NULL, 1, "/tmp/x"), -EINVAL);
	assert_int_equal(rp_trace_export(&span, 1, NULL), -EINVAL);
	assert_int_equal(rp_trace_export(&span, 1, "/nowhere/at/all"), -ENOENT);
	assert_int_equal(rp_trace_export(&span, 1, "/dev/full"), -ENOSPC);
	assert_says("rp_trace_export", "/dev/full");
	/* More than fits in a buffer: the disk is full long before the end. */
	spans = calloc(1000, sizeof(*spans));
	assert_non_null(spans);
	for (int i = 0; i < 1000; i++)
		spans[i] = span;
	assert_int_equal(rp_trace_export(spans, 1000, "/dev/full"), -ENOSPC);
	free(spans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_dispatch_becomes_tracks_slices_and_flows),
		PROCESS_TEST(names_of_any_bytes_are_still_json),
		PROCESS_TEST(what_can_not_be_written_is_told),
	};

	return cmocka_run_group_tests_name("perfetto", tests, NULL, NULL);
}
