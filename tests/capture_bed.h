/* SPDX-License-Identifier: MIT */
/* What the tests of captures share: a directory of their own, and its files read back. */
#ifndef RPI_TESTS_CAPTURE_BED_H
#define RPI_TESTS_CAPTURE_BED_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "support.h"

struct capture_bed {
	char dir[64];
};

/* A new directory, and a config that captures into it; no flag is set yet. */
void capture_open(struct capture_bed *bed, struct rp_run_config *config);

/* With all that is in it. */
void capture_close(struct capture_bed *bed);

/* DIR/ and what the format makes. */
__attribute__((format(printf, 4, 5))) void capture_path(const struct capture_bed *bed,
							char *buf, size_t bytes,
							const char *format, ...);

/* A worker of the description's program, whose size and entry count need not be set:
 * there is one entry. */
void capture_prepare(struct bed *bed, struct rp_program_desc desc,
		     const struct rp_worker_options *options);

/* A callback that does nothing, and a task for each chip, one after the other. */
extern const struct rp_callback capture_look;
int capture_each_chip(struct rp_run *run, struct rp_task task);

/* What programs here have: an int64 tensor, written; and so often in an entry, a kernel
 * of that name that adds one to its first element. */
extern const struct rp_param capture_words;
int capture_count_up(struct rp_chip *chip, const char *name, const struct rp_arg *args,
		     int times);

/* Whether there is such a thing. */
bool capture_has(const struct capture_bed *bed, const char *name);

/* How many things there are in DIR/name, dots and hidden ones excluded. */
int capture_count(const struct capture_bed *bed, const char *name);

/* A file of that text, which no capture has written. */
void capture_put(const struct capture_bed *bed, const char *name, const char *text);

/* DIR/name, whole and of this format; to be given to json_decref(). */
json_t *capture_load(const struct capture_bed *bed, const char *name, const char *format);

/* Members that must be there. */
int64_t capture_number(const json_t *object, const char *key);
const char *capture_text(const json_t *object, const char *key);
const json_t *capture_array(const json_t *object, const char *key);

/* A file of a swimlane of that level holds together: times in order, parts inside their
 * tasks, names, and each edge between tasks that there are (of one process's file: the
 * end). */
void capture_check_swimlane(const json_t *root, int level);

#endif
