/* SPDX-License-Identifier: MIT */
/*
 * test_bench_top RPBENCH
 *
 * `rpbench top` of a live process that is not its own, and of one that has no workers, or
 * no longer.
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <jansson.h>

#include "check.h"
#include "deed.h"
#include "proc.h"
#include "shell.h"

static const char *rpbench;

/* What host and test tell each other, in words of the pad. */
enum word {
	WORD_STEP, /* what the host has done */
	WORD_GO,   /* how far it may go */
};

enum step {
	STEP_STARTED,
	STEP_READY,    /* its workers have dispatched */
	STEP_CHIPLESS, /* a chip of the second was killed in a dispatch */
	STEP_IDLE,     /* and the workers are gone */
};

static void host_await(uint64_t step)
{
	atomic_store(&deed_pad->words[WORD_STEP], step);
	while (atomic_load(&deed_pad->words[WORD_GO]) <= step)
		proc_pause_us(200);
}

static void end_worker(struct rp_worker *worker)
{
	rp_worker_close(worker, RP_WAIT_FOREVER);
	rp_worker_free(worker);
}

/* Six dispatches with latencies and one failure on the first, one on the second. */
static int host(void *arg)
{
	struct rp_worker_options options;
	struct rp_worker *first, *second;
	struct rp_handle handle;

	(void)arg;
	/* Where only a parent may look into a process. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	deed_options(&options, 2);
	PROC_MUST(!deed_prepare(&options, &first));
	PROC_MUST(!deed_prepare(NULL, &second));
	PROC_MUST(!rp_worker_measure_latency(first, true));
	for (int i = 0; i < 5; i++)
		PROC_MUST(!deed_run(first, (uint64_t)i % 2, DEED_NOTHING, 0));
	PROC_MUST(deed_run(first, 0, DEED_FAIL, EIO) == -EIO);
	PROC_MUST(!deed_run(second, 0, DEED_NOTHING, 0));
	host_await(STEP_READY);
	PROC_MUST(!deed_submit(second, 0, DEED_HANG, 0, &handle));
	PROC_MUST(!kill(rp_worker_pid(second, 0), SIGKILL));
	PROC_MUST(rp_handle_wait(handle, RP_WAIT_FOREVER) == -EOWNERDEAD);
	host_await(STEP_CHIPLESS);
	end_worker(second);
	end_worker(first);
	host_await(STEP_IDLE);
	return 0;
}

static bool has_come(void *step)
{
	return atomic_load(&deed_pad->words[WORD_STEP]) >= *(enum step *)step;
}

/* Let it go until it has done that. */
static void host_go(enum step step)
{
	atomic_store(&deed_pad->words[WORD_GO], step);
	assert_true(proc_await(has_come, &step));
}

static pid_t host_start(void)
{
	pid_t pid;

	deed_pad_reset();
	pid = proc_fork_host(host, NULL);
	assert_true(pid > 0);
	host_go(STEP_READY);
	return pid;
}

static void host_end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* `rpbench top` with these words; what it writes on both streams, the caller's. */
static char *top(const char *words, pid_t pid, int want)
{
	char command[512], *text;
	int status;

	if (pid)
		snprintf(command, sizeof(command), "'%s' top %s %d 2>&1", rpbench, words,
			 (int)pid);
	else
		snprintf(command, sizeof(command), "'%s' top %s 2>&1", rpbench, words);
	text = shell_run(command, &status);
	if (status != want)
		print_message("%s", text);
	assert_int_equal(status, want);
	return text;
}

/* The lines of the text that are a name and this value. */
static int count(const char *text, const char *name, unsigned long long value)
{
	int found = 0;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		unsigned long long seen;
		char word[128];

		found += sscanf(text, "%127s %llu", word, &seen) == 2 &&
			 !strcmp(word, name) && seen == value;
	}
	return found;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		print_message("%s", text);
	assert_non_null(strstr(text, part));
}

static void the_text_has_each_worker_with_its_counters(void **state)
{
	pid_t pid = host_start();
	char *text = top("", pid, 0), line[64];

	(void)state;
	for (int nth = 0; nth < 2; nth++) {
		snprintf(line, sizeof(line), "# process %d, worker %d", (int)pid, nth);
		assert_has(text, line);
	}
	assert_int_equal(count(text, "dispatches", 6), 1);
	assert_int_equal(count(text, "dispatches", 1), 1);
	assert_int_equal(count(text, "dispatches_failed", 1), 1);
	assert_int_equal(count(text, "dispatches_failed", 0), 1);
	assert_has(text, ", latencies are not measured\n");
	free(text);
	/* A dead chip takes nothing from what was counted. */
	host_go(STEP_CHIPLESS);
	text = top("", pid, 0);
	assert_int_equal(count(text, "dispatches", 2), 1);
	assert_int_equal(count(text, "failed_process", 1), 1);
	free(text);
	host_end(pid);
}

static json_int_t integer(const json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

static void the_json_is_an_object_a_worker(void **state)
{
	pid_t pid = host_start();
	char *text = top("--json", pid, 0), *line, *rest = text;
	json_int_t dispatches = 0, latencies = 0;
	int workers = 0;

	(void)state;
	while ((line = strsep(&rest, "\n")) && *line) {
		json_t *worker = json_loads(line, JSON_REJECT_DUPLICATES, NULL), *latency;

		assert_non_null(worker);
		latency = json_object_get(worker, "latency");
		assert_non_null(latency);
		assert_int_equal(json_is_true(json_object_get(latency, "measured")),
				 integer(worker, "dispatches") == 6);
		dispatches += integer(worker, "dispatches");
		latencies += integer(latency, "count");
		workers++;
		json_decref(worker);
	}
	assert_int_equal(workers, 2);
	assert_int_equal(dispatches, 7);
	assert_int_equal(latencies, 6);
	free(text);
	host_end(pid);
}

/* A name of the exposition format, and what follows it. */
static const char *skip_name(const char *at)
{
	while (isalnum((unsigned char)*at) || *at == '_' || *at == ':')
		at++;
	return at;
}

/* Each metric is described once, and its samples stand together behind that. */
static void assert_exposition(char *text, int workers)
{
	char described[64] = "", all[8192] = "\n", *line, *rest = text;
	int samples = 0;

	while ((line = strsep(&rest, "\n")) && *line) {
		char name[64], labels[128], key[80], *end;

		if (sscanf(line, "# HELP %63s %*s", name) == 1) {
			snprintf(key, sizeof(key), "\n%s\n", name);
			assert_null(strstr(all, key));
			strcat(all, key + 1);
			assert_true(!*described || samples % workers == 0);
			samples = 0;
			strcpy(described, name);
			continue;
		}
		if (sscanf(line, "# TYPE %63s %*s", name) == 1) {
			assert_string_equal(name, described);
			assert_int_equal(samples, 0);
			continue;
		}
		assert_int_equal(sscanf(line, "%63[a-z0-9_]{%127[^}]} ", name, labels),
				 2);
		assert_int_equal(strncmp(name, described, strlen(described)), 0);
		assert_true(skip_name(line) == line + strlen(name));
		assert_has(labels, "worker=\"");
		strtod(strchr(line, ' '), &end);
		assert_int_equal(*end, 0);
		samples++;
	}
	assert_string_equal(described, "ringplane_dispatch_seconds");
}

static void the_prometheus_text_describes_each_metric_once(void **state)
{
	pid_t pid = host_start();
	char *text = top("--prometheus", pid, 0), line[128];
	int found = 0;

	(void)state;
	for (int nth = 0; nth < 2; nth++) {
		for (int n = 1; n <= 6; n += 5) { /* either may lie first */
			snprintf(line, sizeof(line),
				 "ringplane_dispatches_total{pid=\"%d\",worker=\"%d\"}",
				 (int)pid, nth);
			found += count(text, line, (unsigned long long)n);
		}
	}
	assert_int_equal(found, 2);
	assert_exposition(text, 2);
	free(text);
	host_end(pid);
}

static void it_looks_as_often_as_it_is_told(void **state)
{
	pid_t pid = host_start();
	char *text = top("--every 0.01 --count 3", pid, 0);

	(void)state;
	assert_int_equal(count(text, "dispatches", 6), 3);
	free(text);
	host_end(pid);
}

static void a_process_without_workers_is_refused(void **state)
{
	pid_t pid = host_start(), gone;
	char *text;

	(void)state;
	host_go(STEP_IDLE);
	text = top("", pid, 1);
	assert_has(text, "has 0 workers");
	free(text);
	text = top("--json", getpid(), 1);
	assert_has(text, "has 0 workers");
	free(text);
	host_end(pid);
	gone = pid;
	text = top("", gone, 1);
	assert_has(text, "rp_stats_peek: process ");
	assert_has(text, "No such process");
	free(text);
}

/* The process is killed while it is looked at: what was there was shown, then an error
 * line, and the end. */
static void a_process_that_dies_meanwhile_ends_it(void **state)
{
	pid_t pid = host_start();
	char command[512], line[512], last[512] = "";
	int shown = 0, status;
	bool killed = false;
	FILE *pipe;

	(void)state;
	snprintf(command, sizeof(command), "'%s' top --every 0.001 %d 2>&1", rpbench,
		 (int)pid);
	fflush(NULL);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		shown += count(line, "dispatches", 6);
		if (shown == 3 && !killed) {
			host_end(pid);
			killed = true;
		}
		strcpy(last, line);
	}
	status = pclose(pipe);
	assert_true(killed);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_has(last, "rpbench: rp_stats_peek: ");
}

static void what_is_no_process_id_is_a_wrong_use(void **state)
{
	static const char *const words[] = {
		"",
		"abc",
		"7x",
		"-- -3",
		"1 2",
		"0",
		"--nothing 1",
		"--count -1 1",
		"--every -1 1",
		"--every nan 1",
		"--every inf 1",
		"--every 1e300 1",
		"4294967297" /* not process 1 */
	};

	(void)state;
	for (size_t i = 0; i < COUNT(words); i++) {
		char *text = top(words[i], 0, 2);

		assert_int_equal(strncmp(text, "rpbench: top: ", 14), 0);
		free(text);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_has_each_worker_with_its_counters),
		cmocka_unit_test(the_json_is_an_object_a_worker),
		cmocka_unit_test(the_prometheus_text_describes_each_metric_once),
		cmocka_unit_test(it_looks_as_often_as_it_is_told),
		cmocka_unit_test(a_process_without_workers_is_refused),
		cmocka_unit_test(a_process_that_dies_meanwhile_ends_it),
		cmocka_unit_test(what_is_no_process_id_is_a_wrong_use),
	};

	if (argc != 2)
		return fprintf(stderr, "usage: test_bench_top RPBENCH\n"), 2;
	rpbench = argv[1];
	alarm(PROC_WATCHDOG_S);
	return cmocka_run_group_tests_name("bench_top", tests, NULL, NULL);
}
