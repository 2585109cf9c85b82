/* SPDX-License-Identifier: MIT */
/* Spans as text and back: whole lines pass, anything else does not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/trace.h>

#include "check.h"

static const struct rp_span sample = {
	.name = "chip.run.runner_run.device_wall",
	.task_name = "decode [fast] 100%=1",
	.task_id = "0011223344556677-1a2b",
	.domain = RP_SPAN_DEVICE,
	.peer = 3,
	.pid = 4242,
	.tid = 4243,
	.run = 17,
	.task = UINT64_C(1) << 60,
	.begin_ns = UINT64_MAX,
	.duration_ns = 1234,
	.value = 5,
	.follows = -1,
};

static void assert_same(const struct rp_span *got, const struct rp_span *want)
{
	assert_string_equal(got->name, want->name);
	assert_string_equal(got->task_name, want->task_name);
	assert_string_equal(got->task_id, want->task_id);
	assert_int_equal(got->domain, want->domain);
	assert_int_equal(got->peer, want->peer);
	assert_int_equal(got->pid, want->pid);
	assert_int_equal(got->tid, want->tid);
	assert_true(got->run == want->run && got->task == want->task);
	assert_true(got->begin_ns == want->begin_ns);
	assert_true(got->duration_ns == want->duration_ns && got->value == want->value);
	assert_int_equal(got->follows, want->follows);
}

static void a_span_survives_the_way_through_text(void **state)
{
	struct rp_span plain = { .name = "host.run",
				 .peer = RP_SPAN_CALLER,
				 .follows = -1 };
	struct rp_span edge = sample;
	char line[RP_MARKER_BYTES];
	struct rp_span got;
	int length = rp_marker_format(&sample, line, sizeof(line));

	(void)state;
	assert_int_equal(length, strlen(line));
	assert_null(strchr(line, '\n'));
	assert_int_equal(strncmp(line, "[STRACE] v=1 pid=4242 ", 22), 0);
	assert_ok(rp_marker_parse(line, &got));
	assert_same(&got, &sample);
	rp_marker_format(&plain, line, sizeof(line));
	assert_ok(rp_marker_parse(line, &got));
	assert_same(&got, &plain);
	edge.follows = 63;
	memset(edge.task_name, 0xff, sizeof(edge.task_name) - 1);
	memset(edge.task_id, '%', sizeof(edge.task_id) - 1);
	memset(edge.name, 1, sizeof(edge.name) - 1);
	assert_in_range(rp_marker_format(&edge, line, sizeof(line)), 1,
			RP_MARKER_BYTES - 1);
	assert_ok(rp_marker_parse(line, &got));
	assert_same(&got, &edge);
}

static void every_cut_of_a_marker_is_told(void **state)
{
	char line[RP_MARKER_BYTES], cut[RP_MARKER_BYTES];
	struct rp_span got;
	int length = rp_marker_format(&sample, line, sizeof(line));

	(void)state;
	for (int at = 0; at < length; at++) {
		snprintf(cut, sizeof(cut), "%.*s", at, line);
		assert_int_equal(rp_marker_parse(cut, &got), at < 9 ? -ENOENT : -EINVAL);
	}
}

static void every_byte_that_changed_is_told(void **state)
{
	char line[RP_MARKER_BYTES];
	struct rp_span got;
	int length = rp_marker_format(&sample, line, sizeof(line));

	(void)state;
	for (int at = 0; at < length; at++) {
		char was = line[at];

		line[at] = was == '3' ? '4' : '3';
		assert_true(rp_marker_parse(line, &got) < 0);
		line[at] = was;
	}
	assert_ok(rp_marker_parse(line, &got));
}

static void a_marker_is_found_behind_other_text_and_behind_a_cut_one(void **state)
{
	char line[RP_MARKER_BYTES], both[3 * RP_MARKER_BYTES];
	struct rp_span got;

	(void)state;
	rp_marker_format(&sample, line, sizeof(line));
	snprintf(both, sizeof(both), "2026-11-30 INFO app: %s and more", line);
	assert_ok(rp_marker_parse(both, &got));
	assert_same(&got, &sample);
	snprintf(both, sizeof(both), "%.60s%s", line, line);
	assert_ok(rp_marker_parse(both, &got));
	assert_same(&got, &sample);
	/* One written into the middle of another: the outer one is lost. */
	snprintf(both, sizeof(both), "%.60s%s%s", line, line, line + 60);
	assert_ok(rp_marker_parse(both, &got));
	assert_int_equal(rp_marker_parse("no marker", &got), -ENOENT);
	assert_int_equal(rp_marker_parse("", &got), -ENOENT);
}

static void what_is_no_argument_is_refused(void **state)
{
	char line[RP_MARKER_BYTES];
	struct rp_span got;

	(void)state;
	assert_int_equal(rp_marker_format(NULL, line, sizeof(line)), -EINVAL);
	assert_int_equal(rp_marker_format(&sample, NULL, sizeof(line)), -EINVAL);
	assert_int_equal(rp_marker_format(&sample, line, 10), -EINVAL);
	assert_says("rp_marker_format", "at least 1024");
	assert_int_equal(rp_marker_parse(NULL, &got), -EINVAL);
	assert_int_equal(rp_marker_parse("x", NULL), -EINVAL);
	assert_says("rp_marker_parse", "span_out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_span_survives_the_way_through_text),
		cmocka_unit_test(every_cut_of_a_marker_is_told),
		cmocka_unit_test(every_byte_that_changed_is_told),
		cmocka_unit_test(
			a_marker_is_found_behind_other_text_and_behind_a_cut_one),
		cmocka_unit_test(what_is_no_argument_is_refused),
	};

	return cmocka_run_group_tests_name("marker", tests, NULL, NULL);
}
