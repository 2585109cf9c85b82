/* SPDX-License-Identifier: MIT */
/* JSON of captures. A NULL member or array, for want of memory, makes NULL of all that it
 * goes into. */
#ifndef RPI_CAPTURE_JSON_H
#define RPI_CAPTURE_JSON_H

#include <stdio.h>

#include <jansson.h>

#include "capture/session.h"

/* What each file begins with: format, version, program, run, how it ended. `of`: whose
 * file it is (RPI_PLACE_ALL). */
json_t *rpi_cap_head(struct rpi_session *session, const char *format, uint32_t of);

json_t *rpi_cap_u64(uint64_t value);

/* A text that may hold any bytes: what is no UTF-8 becomes '?'. */
json_t *rpi_cap_text(const char *text);

/* Append. Without memory both are gone, and *array is NULL. */
void rpi_cap_add(json_t **array, json_t *value);

/* Set; false, and `value` is gone, without memory. */
bool rpi_cap_set(json_t *object, const char *key, json_t *value);

/* Into a file of rpi_place_write(), and a line's end; `flags` are jansson's. 0, or
 * -ENOMEM with an error line, also for NULL. */
int rpi_cap_put(FILE *file, json_t *root, size_t flags);

/* Write it, and give it up; NULL is -ENOMEM. 0, or an error with its line. */
int rpi_cap_write(struct rpi_session *session, uint32_t peer, const char *name,
		  json_t *root);

#endif
