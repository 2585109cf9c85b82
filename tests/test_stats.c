/* SPDX-License-Identifier: MIT */
/* Counters as this process, other processes and their tools see them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static void failures_are_counted_by_kind(void **state)
{
	static const struct {
		int err;
		size_t field;
	} cases[] = {
		{ EPROTO, offsetof(struct rp_worker_stats, failed_process) },
		{ ENOMEM, offsetof(struct rp_worker_stats, failed_memory) },
		{ ENOSPC, offsetof(struct rp_worker_stats, failed_memory) },
		{ EDEADLK, offsetof(struct rp_worker_stats, failed_deadlock) },
		{ ETIMEDOUT, offsetof(struct rp_worker_stats, failed_timeout) },
		{ EFAULT, offsetof(struct rp_worker_stats, failed_argument) },
		{ EIO, offsetof(struct rp_worker_stats, failed_other) },
	};
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rp_worker_stats before = bed_stats(&bed), after;
		uint64_t *was = (uint64_t *)((char *)&before + cases[i].field);
		uint64_t *is = (uint64_t *)((char *)&after + cases[i].field);

		assert_int_equal(
			RUN_ONE(&bed, ENTRY_FAIL, rp_arg_i64(-(int64_t)cases[i].err)),
			-cases[i].err);
		after = bed_stats(&bed);
		assert_int_equal(*is, *was + 1);
		assert_int_equal(after.dispatches_failed, i + 1);
	}
	bed_close(&bed);
}

static void latencies_are_measured_when_that_is_asked_for(void **state)
{
	struct rp_latency latency = { .size = sizeof(latency) };
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	assert_ok(bed_run_one(&bed, ENTRY_EMPTY, NULL, 0));
	assert_ok(rp_worker_get_latency(bed.worker, &latency));
	assert_int_equal(latency.count, 0);
	assert_false(latency.measured);
	assert_ok(rp_worker_measure_latency(bed.worker, true));
	for (int i = 0; i < 50; i++)
		assert_ok(bed_run_one(&bed, ENTRY_EMPTY, NULL, 0));
	assert_ok(rp_worker_get_latency(bed.worker, &latency));
	assert_true(latency.measured);
	assert_int_equal(latency.count, 50);
	assert_true(latency.p50_ns > 0 && latency.p50_ns <= latency.p90_ns);
	assert_true(latency.p90_ns <= latency.p99_ns &&
		    latency.p99_ns <= latency.p999_ns);
	assert_true(latency.p999_ns <= latency.max_ns + latency.max_ns / 127);
	assert_true(latency.mean_ns <= latency.max_ns);
	assert_ok(rp_worker_measure_latency(bed.worker, false));
	assert_ok(bed_run_one(&bed, ENTRY_EMPTY, NULL, 0));
	assert_ok(rp_worker_get_latency(bed.worker, &latency));
	assert_int_equal(latency.count, 50);
	assert_false(latency.measured);
	assert_int_equal(rp_worker_measure_latency(NULL, true), -EINVAL);
	assert_int_equal(rp_worker_get_latency(bed.worker, NULL), -EINVAL);
	assert_int_equal(rp_worker_get_latency(NULL, &latency), -EINVAL);
	latency.size = 1;
	assert_int_equal(rp_worker_get_latency(bed.worker, &latency), -EINVAL);
	assert_says("rp_worker_get_latency", "size 1");
	bed_close(&bed);
}

/* --- From another process ------------------------------------------------- */

/* 0 when a child sees the counters that this process has. */
static int peek_in_a_child(uint32_t nth, const struct rp_worker_stats *want,
			   uint64_t latencies)
{
	pid_t parent = getpid(), child = fork();
	int status;

	if (!child) {
		struct rp_worker_stats stats = { .size = sizeof(stats) };
		struct rp_latency latency = { .size = sizeof(latency) };
		int err = rp_stats_peek(parent, nth, &stats, &latency);

		/* Of other threads and processes that go on meanwhile. */
		stats.caller_sleeps = want->caller_sleeps;
		stats.worker_sleeps = want->worker_sleeps;
		stats.caller_wakes = want->caller_wakes;
		stats.worker_wakes = want->worker_wakes;
		if (err)
			_exit(-err);
		if (memcmp(&stats, want, sizeof(stats)) != 0)
			_exit(201);
		_exit(latency.count == latencies ? 0 : 202);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void another_process_reads_a_live_worker(void **state)
{
	struct rp_worker_stats one, two;
	struct bed bed, other;

	(void)state;
	assert_int_equal(rp_stats_peek(getpid(), 0, NULL, NULL), -EINVAL);
	one = (struct rp_worker_stats){ .size = sizeof(one) };
	assert_int_equal(rp_stats_peek(getpid(), 0, &one, NULL), -ENOENT);
	assert_says("rp_stats_peek", "has 0 workers");
	bed_open(&bed, 2);
	assert_ok(rp_worker_measure_latency(bed.worker, true));
	for (int i = 0; i < 7; i++)
		assert_ok(RUN_ONE(&bed, ENTRY_NOTE, rp_arg_u64(1)));
	assert_int_equal(RUN_ONE(&bed, ENTRY_FAIL, rp_arg_i64(-EIO)), -EIO);
	bed_open(&other, 1);
	assert_ok(RUN_ONE(&other, ENTRY_NOTE, rp_arg_u64(1)));
	one = bed_stats(&bed);
	two = bed_stats(&other);
	assert_int_equal(one.dispatches, 8);
	/* Either may lie first. */
	if (peek_in_a_child(0, &one, 8)) {
		assert_int_equal(peek_in_a_child(1, &one, 8), 0);
		assert_int_equal(peek_in_a_child(0, &two, 0), 0);
	} else {
		assert_int_equal(peek_in_a_child(1, &two, 0), 0);
	}
	assert_int_equal(peek_in_a_child(2, &one, 8), ENOENT);
	bed_close(&other);
	bed_close(&bed);
	one.size = 3;
	assert_int_equal(rp_stats_peek(getpid(), 0, &one, NULL), -EINVAL);
	one.size = sizeof(one);
	assert_int_equal(rp_stats_peek(0x7ffffff0, 0, &one, NULL), -ESRCH);
	assert_says("rp_stats_peek", "2147483632");
}

/* --- As text -------------------------------------------------------------- */

static void every_format_names_every_counter(void **state)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_latency latency = {
		.size = sizeof(latency), .count = 3, .mean_ns = 2000000000, .p99_ns = 5
	};
	static char text[16384];
	int length;

	(void)state;
	/* Each field another number. */
	for (size_t i = 1; i < sizeof(stats) / sizeof(uint64_t); i++)
		((uint64_t *)&stats)[i] = 1000 + i;
	length = rp_stats_print(&stats, NULL, RP_STATS_TEXT, NULL, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	for (size_t i = 1; i < sizeof(stats) / sizeof(uint64_t); i++) {
		char number[24];

		snprintf(number, sizeof(number), " %zu\n", 1000 + i);
		assert_non_null(strstr(text, number));
	}
	assert_null(strstr(text, "latency"));
	rp_stats_print(&stats, &latency, RP_STATS_JSON, NULL, text, sizeof(text));
	assert_int_equal(strncmp(text, "{\"dispatches\":1001,", 19), 0);
	assert_non_null(strstr(text, "\"latency\":{\"measured\":false,\"count\":3,"));
	rp_stats_print(&stats, &latency, RP_STATS_PROMETHEUS, "worker=\"a\"", text,
		       sizeof(text));
	assert_non_null(strstr(text, "# TYPE ringplane_dispatches_total counter\n"
				     "ringplane_dispatches_total{worker=\"a\"} 1001\n"));
	assert_non_null(strstr(text, "# TYPE ringplane_arena_bytes gauge\n"));
	assert_non_null(strstr(text, "ringplane_dispatch_seconds{worker=\"a\",quantile="
				     "\"0.99\"} 0.000000005\n"));
	assert_non_null(strstr(text, "ringplane_dispatch_seconds_sum{worker=\"a\"} 6.0"));
	length = rp_stats_print(&stats, &latency, RP_STATS_PROMETHEUS, NULL, text,
				sizeof(text));
	assert_non_null(strstr(text, "\nringplane_tasks_total 10"));
	assert_int_equal(
		rp_stats_print(&stats, &latency, RP_STATS_PROMETHEUS, "", NULL, 0),
		length);
	/* Cut, never written past. */
	memset(text, 'x', sizeof(text));
	assert_int_equal(
		rp_stats_print(&stats, &latency, RP_STATS_PROMETHEUS, "", text, 100),
		length);
	assert_int_equal(strlen(text), 99);
	assert_int_equal(text[100], 'x');
	assert_int_equal(rp_stats_print(NULL, NULL, RP_STATS_TEXT, NULL, text, 9),
			 -EINVAL);
	assert_int_equal(rp_stats_print(&stats, NULL, 7, NULL, text, 9), -EINVAL);
	assert_says("rp_stats_print", "format 7");
	assert_int_equal(rp_stats_print(&stats, NULL, RP_STATS_TEXT, NULL, NULL, 9),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(failures_are_counted_by_kind),
		PROCESS_TEST(latencies_are_measured_when_that_is_asked_for),
		PROCESS_TEST(another_process_reads_a_live_worker),
		PROCESS_TEST(every_format_names_every_counter),
	};

	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
