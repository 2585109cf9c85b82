/* SPDX-License-Identifier: MIT */
#include "stress.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Ends a hang; never a limit on speed. */
#define WATCHDOG_S  300

#define OPTIONS_MAX 8

/* What getopt_long() returns for the two that all have; others are their index. */
#define SECONDS 100
#define SEED	101

static void refuse(const char *name, const struct stress_option *option)
{
	fprintf(stderr, "%s: --%s %d, expected %d..%d\n", name, option->name,
		*option->value, option->low, option->high);
	exit(2);
}

static void read_options(int argc, char **argv, const char *name,
			 const struct stress_option *options, size_t count,
			 double *seconds, uint64_t *seed)
{
	struct option all[OPTIONS_MAX + 3] = {
		{ "seconds", required_argument, NULL, SECONDS },
		{ "seed", required_argument, NULL, SEED },
	};
	int found;
	size_t i;

	for (i = 0; i < count && i < OPTIONS_MAX; i++)
		all[2 + i] = (struct option){ options[i].name,
					      options[i].high ? required_argument
							      : no_argument,
					      NULL, (int)i };
	while ((found = getopt_long(argc, argv, "", all, NULL)) != -1) {
		if (found == SECONDS)
			*seconds = atof(optarg);
		else if (found == SEED)
			*seed = strtoull(optarg, NULL, 0);
		else if (found >= 0 && (size_t)found < count)
			*options[found].value = options[found].high ? atoi(optarg) : 1;
		else
			exit(2);
	}
	for (i = 0; i < count; i++)
		if (options[i].high && (*options[i].value < options[i].low ||
					*options[i].value > options[i].high))
			refuse(name, &options[i]);
}

int stress_run(int argc, char **argv, const char *name,
	       const struct stress_option *options, size_t option_count,
	       void (*round)(uint64_t seed))
{
	struct timespec begin, now;
	double seconds = 1;
	uint64_t seed = 1;

	read_options(argc, argv, name, options, option_count, &seconds, &seed);
	alarm(WATCHDOG_S + (unsigned)seconds);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		printf("# seed %" PRIu64 "\n", seed);
		fflush(stdout);
		round(seed++);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - begin.tv_sec) +
			 (double)(now.tv_nsec - begin.tv_nsec) / 1e9 <
		 seconds);
	return 0;
}
