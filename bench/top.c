/* SPDX-License-Identifier: MIT */
/* rpbench top: what the workers of a live process count, read from outside. */
#include "top.h"

#include <errno.h>
#include <limits.h>
#include <popt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringplane/stats.h>

#include "base/error.h"

/* Room for a worker's counters in any format. */
#define TEXT_BYTES  32768

#define SECONDS_MAX 1e9

enum {
	EXIT_OK = 0,
	EXIT_FAILURES = 1,
	EXIT_USAGE = 2
};

struct top_options {
	int json, prometheus, count;
	double seconds;
	int pid;
};

static int complain(int status)
{
	fprintf(stderr, "rpbench: %s\n", rp_last_error());
	return status;
}

static int parse(int argc, const char **argv, struct top_options *o)
{
	const struct poptOption table[] = {
		{ "json", 0, POPT_ARG_NONE, &o->json, 0, "one JSON object a worker",
		  NULL },
		{ "prometheus", 0, POPT_ARG_NONE, &o->prometheus, 0,
		  "Prometheus text exposition", NULL },
		{ "every", 0, POPT_ARG_DOUBLE, &o->seconds, 0,
		  "again after so many seconds", "SECONDS" },
		{ "count", 0, POPT_ARG_INT, &o->count, 0,
		  "so many times; 0: until it ends (with --every)", "N" },
		POPT_AUTOHELP POPT_TABLEEND
	};
	poptContext context = poptGetContext("rpbench top", argc, argv, table, 0);
	const char *word;
	char *end = NULL;
	long pid;
	int ret;

	if (!context)
		return rpi_fail(-ENOMEM, "top: no memory for the command line");
	poptSetOtherOptionHelp(context, "PID");
	ret = poptGetNextOpt(context);
	word = poptGetArg(context);
	if (ret < -1)
		ret = rpi_fail(-EINVAL, "top: %s: %s", poptBadOption(context, 0),
			       poptStrerror(ret));
	else
		ret = 0;
	pid = word ? strtol(word, &end, 10) : 0;
	o->pid = pid > 0 && pid <= INT_MAX ? (int)pid : 0;
	if (!ret && (!word || *end || !o->pid || poptPeekArg(context)))
		ret = rpi_fail(-EINVAL, "top: \"%s\", expected one process id",
			       word ? word : "");
	if (!ret && (o->count < 0 || !(o->seconds >= 0 && o->seconds <= SECONDS_MAX)))
		ret = rpi_fail(-EINVAL,
			       "top: --count %d --every %g, expected 0 or more, and at "
			       "most %g seconds",
			       o->count, o->seconds, SECONDS_MAX);
	poptFreeContext(context);
	return ret;
}

/* What the workers of the process count. */
struct top_text {
	const char *at; /* what is to be printed next */
	char text[TEXT_BYTES];
};

struct top_texts {
	uint32_t count;
	struct top_text *texts;
};

static int add_worker(struct top_texts *all, const struct top_options *o,
		      const struct rp_worker_stats *stats,
		      const struct rp_latency *latency)
{
	enum rp_stats_format format = o->json	      ? RP_STATS_JSON
				      : o->prometheus ? RP_STATS_PROMETHEUS
						      : RP_STATS_TEXT;
	struct top_text *texts =
		realloc(all->texts, (all->count + 1) * sizeof(*all->texts));
	char labels[64], *text;
	size_t used = 0;
	int ret;

	if (!texts)
		return rpi_fail(-ENOMEM, "top: no memory");
	all->texts = texts;
	text = texts[all->count].text;
	rpi_format(labels, sizeof(labels), "pid=\"%d\",worker=\"%u\"", o->pid,
		   all->count);
	if (format == RP_STATS_TEXT)
		used = (size_t)rpi_format(
			text, TEXT_BYTES, "# process %d, worker %u%s\n", o->pid,
			all->count,
			latency->measured ? "" : ", latencies are not measured");
	ret = rp_stats_print(stats, latency, format, labels, text + used,
			     TEXT_BYTES - used);
	all->count += ret >= 0;
	return ret < 0 ? ret : 0;
}

/* Print the lines that come next and are comments, or are none; or only pass by them. */
static void print_lines(struct top_text *text, bool comments, bool shown)
{
	while (*text->at && (*text->at == '#') == comments) {
		size_t bytes = strcspn(text->at, "\n");

		bytes += text->at[bytes] == '\n';
		if (shown)
			fwrite(text->at, 1, bytes, stdout);
		text->at += bytes;
	}
}

/* A metric is described once, and what all workers have of it stands behind that: each
 * text has the same metrics in the same order. */
static void print_exposition(const struct top_texts *all)
{
	uint32_t i;

	for (i = 0; i < all->count; i++)
		all->texts[i].at = all->texts[i].text;
	while (*all->texts[0].at) {
		for (i = 0; i < all->count; i++) {
			print_lines(&all->texts[i], true, i == 0);
			print_lines(&all->texts[i], false, true);
		}
	}
}

/* Each worker once. -ENOENT: it has none. */
static int print_all(const struct top_options *o)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_latency latency = { .size = sizeof(latency) };
	struct top_texts all = { 0 };
	uint32_t i;
	int err;

	do {
		err = rp_stats_peek(o->pid, all.count, &stats, &latency);
		if (!err)
			err = add_worker(&all, o, &stats, &latency);
	} while (!err);
	if (o->prometheus && !o->json && all.count)
		print_exposition(&all);
	else
		for (i = 0; i < all.count; i++)
			fputs(all.texts[i].text, stdout);
	err = err == -ENOENT && all.count ? 0 : err;
	free(all.texts);
	/* After an error too: its line comes behind what was seen. */
	if ((fflush(stdout) || ferror(stdout)) && !err)
		err = rpi_fail(-EIO, "top: stdout: %s", strerror(errno));
	return err;
}

int bench_top(int argc, const char **argv)
{
	struct top_options o = { .count = 0 };
	struct timespec pause;
	int done = 0;
	int err;

	if (parse(argc, argv, &o))
		return complain(EXIT_USAGE);
	for (;;) {
		err = print_all(&o);
		if (err)
			return complain(EXIT_FAILURES);
		if (!(o.seconds > 0) || ++done == o.count)
			return EXIT_OK;
		pause.tv_sec = (time_t)o.seconds;
		pause.tv_nsec = (long)((o.seconds - (double)pause.tv_sec) * 1e9);
		nanosleep(&pause, NULL);
	}
}
