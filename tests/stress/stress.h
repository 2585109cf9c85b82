/* SPDX-License-Identifier: MIT */
/* What stress programs share: options, and rounds with one seed after the other. */
#ifndef RPI_TESTS_STRESS_H
#define RPI_TESTS_STRESS_H

#include <stddef.h>
#include <stdint.h>

/* An option of the program's own; every program has --seconds and --seed. */
struct stress_option {
	const char *name;
	int *value;    /* holds the default */
	int low, high; /* both 0: a flag, which sets 1 */
};

/* Read the options (exits with 2), then one round after the other, at least one, until
 * the seconds are over. The seed is printed before its round, so that a hang shows it. */
int stress_run(int argc, char **argv, const char *name,
	       const struct stress_option *options, size_t option_count,
	       void (*round)(uint64_t seed));

#endif
