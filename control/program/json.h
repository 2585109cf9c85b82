/* SPDX-License-Identifier: MIT */
/*
 * Members of JSON objects, each judged where it is read. A reader knows where it is, so
 * that an error line can say so; every call below returns 0, or -EINVAL with such a line.
 */
#ifndef RPI_PROGRAM_JSON_H
#define RPI_PROGRAM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct rpi_json {
	const char *call;
	const char *label; /* of the file */
	const char *path;  /* of this object inside it; "": the outermost */
	json_t *value;
};

/* Parse a whole text: one object. The caller json_decref()s root->value. */
int rpi_json_parse(const char *call, const char *label, const char *text, size_t bytes,
		   struct rpi_json *root_out);

#define RPI_JSON_PATH_BYTES 64

/* The i-th member of an array, as a reader; path must outlive it. */
struct rpi_json rpi_json_element(const struct rpi_json *at, const char *key,
				 json_t *array, size_t i, char path[RPI_JSON_PATH_BYTES]);

/* -EINVAL unless the value is an object with these keys and no others. */
int rpi_json_keys(const struct rpi_json *at, const char *const *keys, size_t count);

/* The member, which must be there and of this type. Borrowed. */
int rpi_json_text(const struct rpi_json *at, const char *key, const char **text_out);
int rpi_json_text_or_null(const struct rpi_json *at, const char *key,
			  const char **text_out);
int rpi_json_bool(const struct rpi_json *at, const char *key, bool *value_out);
int rpi_json_number(const struct rpi_json *at, const char *key, uint64_t max,
		    uint64_t *value_out);
int rpi_json_array(const struct rpi_json *at, const char *key, json_t **array_out);
int rpi_json_object(const struct rpi_json *at, const char *key, json_t **object_out);

/* 16 digits, no more and no fewer. */
int rpi_json_hex(const struct rpi_json *at, const char *key, uint64_t *value_out);

/* A line about the member. */
__attribute__((cold, format(printf, 3, 4))) int rpi_json_fail(const struct rpi_json *at,
							      const char *key,
							      const char *format, ...);

#endif
