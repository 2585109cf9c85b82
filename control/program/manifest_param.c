/* SPDX-License-Identifier: MIT */
#include "program/manifest_param.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int rpi_manifest_read_dtype(const struct rpi_json *at, uint32_t *dtype_out)
{
	const char *name;
	uint32_t dtype;
	int err;

	err = rpi_json_text(at, "dtype", &name);
	if (err)
		return err;
	for (dtype = 1; dtype < RP_DTYPE_END; dtype++) {
		if (!strcmp(rp_dtype_name((enum rp_dtype)dtype), name)) {
			*dtype_out = dtype;
			return 0;
		}
	}
	return rpi_json_fail(at, "dtype", "is '%s', expected the name of a dtype", name);
}

static int read_access(const struct rpi_json *at, uint32_t *access_out)
{
	static const char *const names[] = { "in", "out", "inout" };
	const char *name;
	uint32_t i;
	int err;

	err = rpi_json_text(at, "access", &name);
	if (err)
		return err;
	for (i = 0; i < COUNT(names); i++) {
		if (!strcmp(names[i], name)) {
			*access_out = RP_IN + i;
			return 0;
		}
	}
	return rpi_json_fail(at, "access", "is '%s', expected in, out or inout", name);
}

/* A length, a name, or null. */
static int read_dim(const struct rpi_json *at, json_t *value, size_t dim,
		    struct rp_param *param)
{
	param->shape[dim] = RP_DIM_ANY;
	if (json_is_null(value))
		return 0;
	if (json_is_string(value) && json_string_length(value)) {
		param->dim_names[dim] = json_string_value(value);
		return 0;
	}
	if (!json_is_integer(value) || json_integer_value(value) < 1)
		return rpi_json_fail(at, "shape",
				     "has in place %zu neither a length from 1 on, nor a "
				     "name, nor null",
				     dim);
	param->shape[dim] = json_integer_value(value);
	return 0;
}

static int read_shape(const struct rpi_json *at, struct rp_param *param)
{
	json_t *shape;
	size_t dim;
	int err;

	err = rpi_json_array(at, "shape", &shape);
	if (err)
		return err;
	if (json_array_size(shape) > RP_MAX_DIMS)
		return rpi_json_fail(at, "shape", "has %zu dims, expected at most %d",
				     json_array_size(shape), RP_MAX_DIMS);
	param->rank = (uint32_t)json_array_size(shape);
	for (dim = 0; !err && dim < param->rank; dim++)
		err = read_dim(at, json_array_get(shape, dim), dim, param);
	return err;
}

static int read_tensor(const struct rpi_json *at, struct rp_param *param)
{
	static const char *const keys[] = { "name", "kind", "dtype", "access", "shape" };
	int err;

	param->kind = RP_ARG_TENSOR;
	err = rpi_json_keys(at, keys, COUNT(keys));
	if (!err)
		err = read_access(at, &param->access);
	return err ? err : read_shape(at, param);
}

static int read_param(const struct rpi_json *at, struct rp_param *param)
{
	static const char *const keys[] = { "name", "kind", "dtype" };
	const char *kind = "";
	int err;

	if (!json_is_object(at->value))
		return rpi_json_fail(at, "", "is no object");
	err = rpi_json_text_or_null(at, "name", &param->name);
	if (!err)
		err = rpi_json_text(at, "kind", &kind);
	if (!err)
		err = rpi_manifest_read_dtype(at, &param->dtype);
	if (err)
		return err;
	if (!strcmp(kind, "tensor"))
		return read_tensor(at, param);
	if (strcmp(kind, "scalar"))
		return rpi_json_fail(at, "kind", "is '%s', expected tensor or scalar",
				     kind);
	param->kind = RP_ARG_SCALAR;
	return rpi_json_keys(at, keys, COUNT(keys));
}

int rpi_manifest_read_params(const struct rpi_json *at, const char *key, json_t *array,
			     struct rp_param *params)
{
	char path[RPI_JSON_PATH_BYTES];
	size_t i;
	int err = 0;

	for (i = 0; !err && i < json_array_size(array); i++) {
		struct rpi_json one = rpi_json_element(at, key, array, i, path);

		err = read_param(&one, &params[i]);
	}
	return err;
}
