/* SPDX-License-Identifier: MIT */
/* Decodes that are known: a file of cases, each of lines "key<TAB>value". */
#ifndef RPI_TESTS_GOLDEN_H
#define RPI_TESTS_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

#define GOLDEN_IDS   512
#define GOLDEN_CASES 16

struct golden {
	char name[32];
	char prompt[256];
	char text[8192];
	int32_t prompt_ids[GOLDEN_IDS], ids[GOLDEN_IDS];
	size_t prompt_count, count;
	int32_t steps;
};

/* The path of a file beside the cases; RINGPLANE_MODELS in the environment says where
 * those are. */
void golden_path(const char *name, char *path_out, size_t bytes);

/* How many cases there are; 0 where the file is not, and a line on stdout says so. */
size_t golden_load(struct golden cases_out[GOLDEN_CASES]);

#endif
