/* SPDX-License-Identifier: MIT */
/*
 * Random programs of kernels, each run with no compute thread, one, and more, in several
 * sizes of rings, and compared byte by byte with a serial execution.
 *
 * graph_stress [--seconds S] [--seed N] [--ops N] [--once] [--break] [--crowd]
 *
 *   --seed    the first program's seed; the next ones count up
 *   --once    that one program only
 *   --break   leave the dependencies out: must fail
 *   --crowd   all threads on one CPU: several times as many as there are CPUs
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph.h"

static const struct graph_setting settings[] = {
	{ .threads = 0 },
	{ .threads = 0, .window = GRAPH_WINDOW_MIN, .heap = GRAPH_HEAP_MIN, .pool = 6 },
	{ .threads = 1 },
	{ .threads = 1, .window = GRAPH_WINDOW_MIN, .heap = GRAPH_HEAP_MIN, .pool = 6 },
	{ .threads = 3 },
	{ .threads = 2, .window = 32, .heap = 2 * GRAPH_HEAP_MIN, .pool = 7 },
	{ .threads = 4, .window = GRAPH_WINDOW_MIN, .heap = GRAPH_HEAP_MIN, .pool = 6 },
	{ .threads = 3, .window = 1024, .heap = 1 << 20, .pool = 64 },
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static int try_seed(uint64_t seed, uint32_t ops, bool break_it)
{
	static struct graph graph;

	graph_make(&graph, seed, ops);
	for (size_t i = 0; i < SETTINGS; i++) {
		struct graph_setting setting = settings[i];

		setting.break_it = break_it;
		if (!graph_differs(&graph, &setting, 1))
			continue;
		printf("graph_stress: seed %" PRIu64 " ops %u differs with %u threads, "
		       "window %" PRIu64 ", heap %" PRIu64 ", pool %" PRIu64 "\n",
		       seed, ops, setting.threads, setting.window, setting.heap,
		       setting.pool);
		graph_shrink(&graph, &setting);
		return 1;
	}
	return 0;
}

static void crowd(void)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu < 0 ? 0 : (size_t)cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		perror("graph_stress: sched_setaffinity");
}

int main(int argc, char **argv)
{
	uint64_t seed = (uint64_t)time(NULL), seconds = 2, count = 0;
	bool once = false, break_it = false;
	uint32_t ops = 400;
	time_t end;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--once"))
			once = true;
		else if (!strcmp(argv[i], "--break"))
			break_it = true;
		else if (!strcmp(argv[i], "--crowd"))
			crowd();
		else if (i + 1 < argc && !strcmp(argv[i], "--seconds"))
			seconds = strtoull(argv[++i], NULL, 0);
		else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
			seed = strtoull(argv[++i], NULL, 0);
		else if (i + 1 < argc && !strcmp(argv[i], "--ops"))
			ops = (uint32_t)strtoul(argv[++i], NULL, 0);
		else
			return 2;
	}
	printf("graph_stress: seed %" PRIu64 " ops %u\n", seed, ops);
	fflush(stdout);
	end = time(NULL) + (time_t)seconds;
	do {
		if (try_seed(seed + count++, ops, break_it))
			return 1;
	} while (!once && time(NULL) < end);
	printf("graph_stress: %" PRIu64 " programs, each in %zu settings\n", count,
	       SETTINGS);
	return 0;
}
