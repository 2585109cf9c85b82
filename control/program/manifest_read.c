/* SPDX-License-Identifier: MIT */
#include "program/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/json.h"
#include "program/manifest_param.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int no_memory(const struct rpi_json *at)
{
	return rpi_fail(-ENOMEM, "%s: no memory for %s", at->call, at->label);
}

static int read_choice(const struct rpi_json *at, struct rp_param *param,
		       struct rp_scalar_choice *choice)
{
	static const char *const keys[] = { "name", "dtype", "bits" };
	int err;

	err = rpi_json_keys(at, keys, COUNT(keys));
	if (!err)
		err = rpi_json_text(at, "name", &choice->name);
	if (!err)
		err = rpi_manifest_read_dtype(at, &choice->value.dtype);
	if (!err)
		err = rpi_json_hex(at, "bits", &choice->value.value.bits);
	*param = (struct rp_param){ .name = choice->name,
				    .kind = RP_ARG_SCALAR,
				    .dtype = choice->value.dtype };
	return err;
}

/* Parameters, and behind them those that have a value. */
static int read_signature(const struct rpi_json *at, struct rpi_manifest *manifest)
{
	struct rp_program_desc *desc = &manifest->desc;
	char path[RPI_JSON_PATH_BYTES];
	json_t *scalars;
	json_t *params;
	size_t count;
	size_t i;
	int err;

	err = rpi_json_array(at, "params", &params);
	if (!err)
		err = rpi_json_array(at, "scalars", &scalars);
	if (err)
		return err;
	count = json_array_size(params);
	desc->scalar_count = json_array_size(scalars);
	desc->param_count = count + desc->scalar_count;
	manifest->params = calloc(desc->param_count + 1, sizeof(*manifest->params));
	manifest->choices = calloc(desc->scalar_count + 1, sizeof(*manifest->choices));
	if (!manifest->params || !manifest->choices)
		return no_memory(at);
	desc->params = manifest->params;
	desc->scalars = manifest->choices;
	err = rpi_manifest_read_params(at, "params", params, manifest->params);
	for (i = 0; !err && i < desc->scalar_count; i++) {
		struct rpi_json one = rpi_json_element(at, "scalars", scalars, i, path);

		err = read_choice(&one, &manifest->params[count + i],
				  &manifest->choices[i]);
	}
	return err;
}

static int read_entries(const struct rpi_json *at, struct rpi_manifest *manifest)
{
	static const char *const keys[] = { "name", "symbol" };
	struct rp_program_desc *desc = &manifest->desc;
	char path[RPI_JSON_PATH_BYTES];
	json_t *entries;
	size_t i;
	int err;

	err = rpi_json_array(at, "entries", &entries);
	if (err)
		return err;
	desc->entry_count = json_array_size(entries);
	manifest->entries = calloc(desc->entry_count + 1, sizeof(*manifest->entries));
	manifest->entry_symbols =
		calloc(desc->entry_count + 1, sizeof(*manifest->entry_symbols));
	if (!manifest->entries || !manifest->entry_symbols)
		return no_memory(at);
	desc->entries = manifest->entries;
	for (i = 0; !err && i < desc->entry_count; i++) {
		struct rpi_json one = rpi_json_element(at, "entries", entries, i, path);

		err = rpi_json_keys(&one, keys, COUNT(keys));
		if (!err)
			err = rpi_json_text(&one, "name", &manifest->entries[i].name);
		if (!err)
			err = rpi_json_text(&one, "symbol", &manifest->entry_symbols[i]);
	}
	return err;
}

static int read_callback(const struct rpi_json *at, struct rpi_manifest *manifest,
			 size_t i)
{
	static const char *const keys[] = { "name", "symbol", "optional", "signature" };
	struct rp_callback *callback = &manifest->callbacks[i];
	struct rp_signature *signature = &manifest->signatures[i];
	struct rp_param *params;
	bool optional = false;
	json_t *array;
	int err;

	err = rpi_json_keys(at, keys, COUNT(keys));
	if (!err)
		err = rpi_json_text(at, "name", &callback->name);
	if (!err)
		err = rpi_json_text_or_null(at, "symbol", &manifest->callback_symbols[i]);
	if (!err)
		err = rpi_json_bool(at, "optional", &optional);
	callback->flags = optional ? RP_CALLBACK_OPTIONAL : 0;
	if (err || json_is_null(json_object_get(at->value, "signature")))
		return err;
	err = rpi_json_array(at, "signature", &array);
	if (err)
		return err;
	params = calloc(json_array_size(array) + 1, sizeof(*params));
	if (!params)
		return no_memory(at);
	*signature = (struct rp_signature){ .size = sizeof(*signature),
					    .params = params,
					    .param_count = json_array_size(array) };
	callback->signature = signature;
	return rpi_manifest_read_params(at, "signature", array, params);
}

static int read_callbacks(const struct rpi_json *at, struct rpi_manifest *manifest)
{
	struct rp_program_desc *desc = &manifest->desc;
	char path[RPI_JSON_PATH_BYTES];
	json_t *callbacks;
	size_t count;
	size_t i;
	int err;

	err = rpi_json_array(at, "callbacks", &callbacks);
	if (err)
		return err;
	count = json_array_size(callbacks);
	manifest->callbacks = calloc(count + 1, sizeof(*manifest->callbacks));
	manifest->signatures = calloc(count + 1, sizeof(*manifest->signatures));
	manifest->callback_symbols =
		calloc(count + 1, sizeof(*manifest->callback_symbols));
	if (!manifest->callbacks || !manifest->signatures || !manifest->callback_symbols)
		return no_memory(at);
	desc->callbacks = manifest->callbacks;
	desc->callback_count = count;
	for (i = 0; !err && i < count; i++) {
		struct rpi_json one =
			rpi_json_element(at, "callbacks", callbacks, i, path);

		err = read_callback(&one, manifest, i);
	}
	return err;
}

/* One size per ring. */
static int read_sizes(const struct rpi_json *at, const char *key,
		      struct rp_ring_sizes *sizes)
{
	json_t *array;
	size_t i;
	int err;

	err = rpi_json_array(at, key, &array);
	if (err)
		return err;
	if (json_array_size(array) != RP_RING_COUNT)
		return rpi_json_fail(at, key, "has %zu sizes, expected %d",
				     json_array_size(array), RP_RING_COUNT);
	for (i = 0; i < RP_RING_COUNT; i++) {
		json_t *size = json_array_get(array, i);

		if (!json_is_integer(size) || json_integer_value(size) < 0)
			return rpi_json_fail(at, key,
					     "has in place %zu no number from 0 on", i);
		sizes->ring[i] = (uint64_t)json_integer_value(size);
	}
	return 0;
}

static int read_runtime(const struct rpi_json *at, struct rpi_manifest *manifest)
{
	static const char *const keys[] = { "name", "config" };
	static const char *const config_keys[] = { "ring_task_window", "ring_heap",
						   "ring_dep_pool" };
	struct rpi_json runtime = { at->call, at->label, "runtime", NULL };
	struct rpi_json config = { at->call, at->label, "runtime.config", NULL };
	int err;

	err = rpi_json_object(at, "runtime", &runtime.value);
	if (!err)
		err = rpi_json_keys(&runtime, keys, COUNT(keys));
	if (!err)
		err = rpi_json_text(&runtime, "name", &manifest->desc.runtime);
	if (err || json_is_null(json_object_get(runtime.value, "config")))
		return err;
	manifest->config = (struct rp_run_config){ .size = sizeof(manifest->config) };
	manifest->desc.config = &manifest->config;
	err = rpi_json_object(&runtime, "config", &config.value);
	if (!err)
		err = rpi_json_keys(&config, config_keys, COUNT(config_keys));
	if (!err)
		err = read_sizes(&config, "ring_task_window",
				 &manifest->config.ring_task_window);
	if (!err)
		err = read_sizes(&config, "ring_heap", &manifest->config.ring_heap);
	if (!err)
		err = read_sizes(&config, "ring_dep_pool",
				 &manifest->config.ring_dep_pool);
	return err;
}

static int read_object(const struct rpi_json *at, struct rpi_manifest_object *object)
{
	static const char *const keys[] = { "file", "bytes", "digest" };
	int err;

	err = rpi_json_keys(at, keys, COUNT(keys));
	if (!err)
		err = rpi_json_text(at, "file", &object->file);
	if (!err)
		err = rpi_json_number(at, "bytes", INT64_MAX, &object->bytes);
	if (!err)
		err = rpi_json_hex(at, "digest", &object->digest);
	if (err)
		return err;
	if (!*object->file || strchr(object->file, '/') || !strcmp(object->file, ".") ||
	    !strcmp(object->file, ".."))
		return rpi_json_fail(at, "file",
				     "is '%s', expected a name inside the directory",
				     object->file);
	return 0;
}

static int read_objects(const struct rpi_json *at, struct rpi_manifest *manifest)
{
	const char *platform;
	char path[RPI_JSON_PATH_BYTES];
	json_t *objects;
	json_t *value;
	int err;

	err = rpi_json_object(at, "objects", &objects);
	if (err)
		return err;
	if (json_object_size(objects) > RPI_MANIFEST_OBJECT_MAX)
		return rpi_json_fail(at, "objects",
				     "has %zu platforms, expected at most %d",
				     json_object_size(objects), RPI_MANIFEST_OBJECT_MAX);
	json_object_foreach(objects, platform, value)
	{
		struct rpi_manifest_object *object =
			&manifest->objects[manifest->object_count];
		struct rpi_json one = { at->call, at->label, path, value };

		rpi_format(path, sizeof(path), "objects.%.40s", platform);
		err = read_object(&one, object);
		if (err)
			return err;
		object->platform = platform;
		manifest->object_count++;
	}
	return 0;
}

static int check_version(const struct rpi_json *at)
{
	const char *format;
	uint64_t version;
	int err;

	err = rpi_json_text(at, "format", &format);
	if (err)
		return err;
	if (strcmp(format, RPI_MANIFEST_FORMAT))
		return rpi_json_fail(at, "format", "is '%s', expected '%s'", format,
				     RPI_MANIFEST_FORMAT);
	err = rpi_json_number(at, "version", INT64_MAX, &version);
	if (!err && version != RPI_MANIFEST_VERSION)
		err = rpi_fail(-EOPNOTSUPP,
			       "%s: %s: version is %llu, this build reads %d: build the "
			       "artifact anew",
			       at->call, at->label, (unsigned long long)version,
			       RPI_MANIFEST_VERSION);
	return err;
}

static int read_root(const struct rpi_json *at, struct rpi_manifest *manifest)
{
	static const char *const keys[] = {
		"format",    "version",		"name",	       "platform",
		"runtime",   "domain_provider", "chip_count",  "callback_workers",
		"params",    "scalars",		"orchestrate", "entries",
		"callbacks", "objects"
	};
	struct rp_program_desc *desc = &manifest->desc;
	bool domains = false;
	uint64_t workers = 0;
	uint64_t chips = 0;
	int err;

	/* Another version may well have other keys. */
	err = check_version(at);
	if (!err)
		err = rpi_json_keys(at, keys, COUNT(keys));
	if (!err)
		err = rpi_json_text(at, "name", &desc->name);
	if (!err)
		err = rpi_json_text(at, "platform", &desc->platform);
	if (!err)
		err = rpi_json_bool(at, "domain_provider", &domains);
	if (!err)
		err = rpi_json_number(at, "chip_count", RP_MAX_PEERS, &chips);
	if (!err)
		err = rpi_json_number(at, "callback_workers", UINT16_MAX, &workers);
	if (!err)
		err = rpi_json_text_or_null(at, "orchestrate", &manifest->orchestrate);
	desc->flags = domains ? 0 : RP_PROGRAM_NO_DOMAINS;
	desc->chip_count = (uint32_t)chips;
	desc->callback_workers = (uint32_t)workers;
	if (!err)
		err = read_runtime(at, manifest);
	if (!err)
		err = read_signature(at, manifest);
	if (!err)
		err = read_entries(at, manifest);
	if (!err)
		err = read_callbacks(at, manifest);
	return err ? err : read_objects(at, manifest);
}

int rpi_manifest_read(const char *call, const char *label, const char *text, size_t bytes,
		      struct rpi_manifest *manifest_out)
{
	struct rpi_json root;
	int err;

	err = rpi_json_parse(call, label, text, bytes, &root);
	if (err)
		return err;
	memset(manifest_out, 0, sizeof(*manifest_out));
	manifest_out->root = root.value;
	rp_program_desc_init(&manifest_out->desc);
	err = read_root(&root, manifest_out);
	if (err)
		rpi_manifest_free(manifest_out);
	return err;
}

void rpi_manifest_free(struct rpi_manifest *manifest)
{
	size_t i;

	for (i = 0; manifest->signatures && i < manifest->desc.callback_count; i++)
		free((void *)manifest->signatures[i].params);
	free(manifest->params);
	free(manifest->choices);
	free(manifest->entries);
	free(manifest->callbacks);
	free(manifest->signatures);
	free(manifest->entry_symbols);
	free(manifest->callback_symbols);
	json_decref(manifest->root);
	memset(manifest, 0, sizeof(*manifest));
}
