/* SPDX-License-Identifier: MIT */
/* What the command line asked for; the same for every sub-command. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum bench_format {
	BENCH_FORMAT_TEXT,
	BENCH_FORMAT_JSON,
	BENCH_FORMAT_CSV
};

/* The two places of every hand-off. */
enum bench_side {
	BENCH_PARENT = 0,
	BENCH_PEER = 1
};

struct bench_command;

struct bench_options {
	enum bench_format format;
	bool quick;
	unsigned int run_count;
	uint64_t seed;
	uint64_t ops; /* per case and run; 0: as many as the time allows */
	int cpu[2];   /* by enum bench_side; equal where only one is allowed */
	char *only;   /* pattern on names, or NULL */
	char *plot;   /* file for the sub-command's figure, or NULL */
};

/*
 * Parse what stands behind the name of a sub-command; argv[0] is that name.
 * Prints help and exits 0 where that is asked for. -EINVAL: rp_last_error().
 */
int bench_options_parse(struct bench_options *options,
			const struct bench_command *command, int argc, const char **argv);
void bench_options_free(struct bench_options *options);

/* Both sides on one CPU: a wait has to give the processor away. */
static inline bool bench_one_cpu(const struct bench_options *options)
{
	return options->cpu[BENCH_PARENT] == options->cpu[BENCH_PEER];
}

#endif
