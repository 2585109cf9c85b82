/* SPDX-License-Identifier: MIT */
/* rpbench top: what the workers of a live process count, read from outside. */
#include "top.h"

#include <errno.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringplane/stats.h>

#include "base/error.h"

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
	int ret;

	poptSetOtherOptionHelp(context, "PID");
	ret = poptGetNextOpt(context);
	word = poptGetArg(context);
	if (ret < -1)
		ret = rpi_fail(-EINVAL, "top: %s: %s", poptBadOption(context, 0),
			       poptStrerror(ret));
	else
		ret = 0;
	o->pid = word ? (int)strtol(word, &end, 10) : 0;
	if (!ret && (!word || *end || o->pid <= 0 || poptPeekArg(context)))
		ret = rpi_fail(-EINVAL, "top: \"%s\", expected one process id",
			       word ? word : "");
	if (!ret && (o->count < 0 || o->seconds < 0))
		ret = rpi_fail(-EINVAL, "top: --count %d --every %g, expected 0 or more",
			       o->count, o->seconds);
	poptFreeContext(context);
	return ret;
}

static int print_worker(const struct top_options *o, uint32_t nth,
			const struct rp_worker_stats *stats,
			const struct rp_latency *latency)
{
	enum rp_stats_format format = o->json	      ? RP_STATS_JSON
				      : o->prometheus ? RP_STATS_PROMETHEUS
						      : RP_STATS_TEXT;
	static char text[32768];
	char labels[64];
	int ret;

	rpi_format(labels, sizeof(labels), "pid=\"%d\",worker=\"%u\"", o->pid, nth);
	ret = rp_stats_print(stats, latency, format, labels, text, sizeof(text));
	if (ret < 0)
		return ret;
	if (format == RP_STATS_TEXT)
		printf("# process %d, worker %u%s\n", o->pid, nth,
		       latency->measured ? "" : ", latencies are not measured");
	fputs(text, stdout);
	return 0;
}

/* Each worker once. -ENOENT: it has none. */
static int print_all(const struct top_options *o)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_latency latency = { .size = sizeof(latency) };
	uint32_t nth;
	int err = 0;

	for (nth = 0; !err; nth++) {
		err = rp_stats_peek(o->pid, nth, &stats, &latency);
		if (!err)
			err = print_worker(o, nth, &stats, &latency);
	}
	fflush(stdout);
	return err == -ENOENT && nth > 1 ? 0 : err;
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
