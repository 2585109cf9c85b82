/* SPDX-License-Identifier: MIT */
/*
 * Reports of --json, read back, and several of them in one: {"report", "machine",
 * "commands": [...], "results": [...]}. What a file says is not trusted: any field may be
 * missing or of another type.
 */
#ifndef BENCH_STORED_H
#define BENCH_STORED_H

#include <jansson.h>
#include <stdbool.h>

/* A report, of a sub-command or of several. NULL: rp_last_error(), which begins with
 * `who`. */
json_t *bench_stored_load(const char *path, const char *who);

/* An empty one of several. NULL: no memory. */
json_t *bench_stored_new(void);

/*
 * Add a report. Of results of one name the first stays: a limit is measured by many
 * sub-commands, and each figure keeps the limit that it was held against.
 *
 * name     of the sub-command or file
 * seconds  that it took; below 0: not known
 */
void bench_stored_add(json_t *into, const char *name, json_t *report, double seconds);

/* Note a sub-command that has no report, or failures in the one that has been added. */
void bench_stored_fail(json_t *into, const char *name, const char *why);

/* NULL: there is none of that name. */
json_t *bench_stored_find(const json_t *results, const char *name);

/* "" where there is no such text; NAN where there is no such number. */
const char *bench_stored_text(const json_t *object, const char *key);
/* For a report: a text that may hold any bytes, of which those that are no UTF-8 become
 * '?'. */
json_t *bench_stored_string(const char *text);
double bench_stored_number(const json_t *object, const char *key);

/* Of a result: whether it is a rate rather than a time. */
bool bench_stored_is_rate(const json_t *result);

#endif
