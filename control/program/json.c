/* SPDX-License-Identifier: MIT */
#include "program/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

int rpi_json_fail(const struct rpi_json *at, const char *key, const char *format, ...)
{
	char text[RPI_ERROR_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return rpi_fail(-EINVAL, "%s: %s: %s%s%s %s", at->call, at->label, at->path,
			*at->path && *key ? "." : "", key, text);
}

int rpi_json_parse(const char *call, const char *label, const char *text, size_t bytes,
		   struct rpi_json *root_out)
{
	json_error_t error;
	json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);

	if (!value)
		return rpi_fail(-EINVAL, "%s: %s:%d:%d: no JSON: %s", call, label,
				error.line, error.column, error.text);
	*root_out = (struct rpi_json){ call, label, "", value };
	if (json_is_object(value))
		return 0;
	json_decref(value);
	return rpi_fail(-EINVAL, "%s: %s holds no object", call, label);
}

struct rpi_json rpi_json_element(const struct rpi_json *at, const char *key,
				 json_t *array, size_t i, char path[RPI_JSON_PATH_BYTES])
{
	rpi_format(path, RPI_JSON_PATH_BYTES, "%.40s%s%s[%zu]", at->path,
		   *at->path ? "." : "", key, i);
	return (struct rpi_json){ at->call, at->label, path, json_array_get(array, i) };
}

static bool listed(const char *key, const char *const *keys, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(keys[i], key))
			return true;
	return false;
}

int rpi_json_keys(const struct rpi_json *at, const char *const *keys, size_t count)
{
	const char *key;
	json_t *member;

	if (!json_is_object(at->value))
		return rpi_json_fail(at, "", "is no object");
	json_object_foreach(
		at->value, key,
		member) if (!listed(key, keys,
				    count)) return rpi_json_fail(at, key, "is not known");
	return 0;
}

static json_t *find(const struct rpi_json *at, const char *key)
{
	json_t *member = json_object_get(at->value, key);

	if (!member)
		rpi_json_fail(at, key, "is missing");
	return member;
}

int rpi_json_text(const struct rpi_json *at, const char *key, const char **text_out)
{
	json_t *member = find(at, key);

	if (!member)
		return -EINVAL;
	if (!json_is_string(member))
		return rpi_json_fail(at, key, "is no text");
	*text_out = json_string_value(member);
	return 0;
}

int rpi_json_text_or_null(const struct rpi_json *at, const char *key,
			  const char **text_out)
{
	if (!json_is_null(json_object_get(at->value, key)))
		return rpi_json_text(at, key, text_out);
	*text_out = NULL;
	return 0;
}

int rpi_json_bool(const struct rpi_json *at, const char *key, bool *value_out)
{
	json_t *member = find(at, key);

	if (!member)
		return -EINVAL;
	if (!json_is_boolean(member))
		return rpi_json_fail(at, key, "is neither true nor false");
	*value_out = json_is_true(member);
	return 0;
}

int rpi_json_number(const struct rpi_json *at, const char *key, uint64_t max,
		    uint64_t *value_out)
{
	json_t *member = find(at, key);
	json_int_t value;

	if (!member)
		return -EINVAL;
	if (!json_is_integer(member))
		return rpi_json_fail(at, key, "is no whole number");
	value = json_integer_value(member);
	if (value < 0 || (uint64_t)value > max)
		return rpi_json_fail(at, key,
				     "is %" JSON_INTEGER_FORMAT ", expected 0..%" PRIu64,
				     value, max);
	*value_out = (uint64_t)value;
	return 0;
}

int rpi_json_array(const struct rpi_json *at, const char *key, json_t **array_out)
{
	*array_out = find(at, key);
	if (!*array_out)
		return -EINVAL;
	return json_is_array(*array_out) ? 0 : rpi_json_fail(at, key, "is no array");
}

int rpi_json_object(const struct rpi_json *at, const char *key, json_t **object_out)
{
	*object_out = find(at, key);
	if (!*object_out)
		return -EINVAL;
	return json_is_object(*object_out) ? 0 : rpi_json_fail(at, key, "is no object");
}

int rpi_json_hex(const struct rpi_json *at, const char *key, uint64_t *value_out)
{
	static const char digits[] = "0123456789abcdef";
	const char *text = "";
	uint64_t value = 0;
	size_t i;
	int err;

	err = rpi_json_text(at, key, &text);
	if (err)
		return err;
	for (i = 0; i < 16 && text[i]; i++) {
		const char *digit = strchr(digits, text[i]);

		if (!digit)
			break;
		value = value << 4 | (uint64_t)(digit - digits);
	}
	if (i != 16 || text[i])
		return rpi_json_fail(at, key, "is '%s', expected 16 digits of 0..9a..f",
				     text);
	*value_out = value;
	return 0;
}
