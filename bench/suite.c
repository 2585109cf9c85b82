/* SPDX-License-Identifier: MIT */
#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cpu.h"
#include "base/error.h"
#include "spawn.h"
#include "stored.h"

#define WORDS_MAX 32

/* What a child is told, NULL at the end. */
static int command_line(const struct bench_suite *suite, const char *command,
			const char *words[WORDS_MAX])
{
	size_t n = 0;

	words[n++] = suite->program;
	words[n++] = command;
	words[n++] = "--json";
	for (size_t i = 0; suite->options[i]; i++) {
		if (n == WORDS_MAX - 1)
			return rpi_fail(-E2BIG, "report: more than %d options",
					WORDS_MAX - 4);
		words[n++] = suite->options[i];
	}
	words[n] = NULL;
	return 0;
}

/* Why a child that has ended is not as it should be; "" when it is. */
static void judge(const struct bench_spawn *spawn, int status, char *why, size_t bytes)
{
	char line[192];

	why[0] = '\0';
	bench_spawn_last_line(spawn, line, sizeof(line));
	if (WIFSIGNALED(status))
		rpi_format(why, bytes, "died of signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		rpi_format(why, bytes, "ended with status %d%s%s", WEXITSTATUS(status),
			   line[0] == '{' || !line[0] ? "" : ": ",
			   line[0] == '{' ? "" : line);
}

static void take(const struct bench_spawn *spawn, const char *command, const char *why,
		 double seconds, json_t *into)
{
	char *text = bench_spawn_text(spawn->out);
	json_t *report = text ? json_loads(text, 0, NULL) : NULL;

	free(text);
	if (json_is_array(json_object_get(report, "results")))
		bench_stored_add(into, command, report, seconds);
	else if (!why[0])
		why = "printed no report";
	if (why[0])
		bench_stored_fail(into, command, why);
	json_decref(report);
}

int bench_suite_run(const struct bench_suite *suite, const char *command, json_t *into)
{
	const char *words[WORDS_MAX];
	uint64_t begin = rpi_now_ns();
	struct bench_spawn spawn;
	char why[256];
	int status, err = command_line(suite, command, words);

	if (!err)
		err = bench_spawn_start(&spawn, words, NULL);
	if (err)
		return err;
	if (bench_spawn_wait(&spawn, suite->timeout_ns, &status))
		judge(&spawn, status, why, sizeof(why));
	else
		rpi_format(why, sizeof(why), "ended by us: not done after %d s",
			   (int)(suite->timeout_ns / 1000000000));
	take(&spawn, command, why, (double)(rpi_now_ns() - begin) * 1e-9, into);
	bench_spawn_stop(&spawn);
	return 0;
}
