/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/error.h"
#include "dispatch/program.h"
#include "program/manifest.h"

/* NULL for NULL. */
static json_t *text(const char *value)
{
	return value ? json_string(value) : json_null();
}

static json_t *hex(uint64_t value)
{
	return json_sprintf("%016llx", (unsigned long long)value);
}

static json_t *shape_of(const struct rp_param *param)
{
	json_t *shape = json_array();
	uint32_t dim;

	for (dim = 0; dim < param->rank; dim++)
		json_array_append_new(shape, param->shape[dim] == RP_DIM_ANY
						     ? text(param->dim_names[dim])
						     : json_integer(param->shape[dim]));
	return shape;
}

static json_t *param_of(const struct rp_param *param)
{
	static const char *const accesses[] = { "", "in", "out", "inout" };
	const char *dtype = rp_dtype_name((enum rp_dtype)param->dtype);

	if (param->kind == RP_ARG_SCALAR)
		return json_pack("{s:o, s:s, s:s}", "name", text(param->name), "kind",
				 "scalar", "dtype", dtype);
	return json_pack("{s:o, s:s, s:s, s:s, s:o}", "name", text(param->name), "kind",
			 "tensor", "dtype", dtype, "access",
			 accesses[param->access & RP_INOUT], "shape", shape_of(param));
}

static json_t *params_of(const struct rp_param *params, size_t count)
{
	json_t *array = json_array();
	size_t i;

	for (i = 0; i < count; i++)
		json_array_append_new(array, param_of(&params[i]));
	return array;
}

static json_t *scalars_of(const struct rp_program *program)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < program->fixed_count; i++) {
		const struct rpi_fixed *fixed = &program->fixed[i];

		json_array_append_new(
			array, json_pack("{s:s, s:s, s:o}", "name", fixed->name, "dtype",
					 rp_dtype_name((enum rp_dtype)fixed->value.dtype),
					 "bits", hex(fixed->value.value.bits)));
	}
	return array;
}

static json_t *entries_of(const struct rp_program *program,
			  const struct rpi_manifest_symbols *symbols)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < program->entry_count; i++)
		json_array_append_new(array, json_pack("{s:s, s:s}", "name",
						       program->entries[i].name, "symbol",
						       symbols->entries[i]));
	return array;
}

static json_t *callbacks_of(const struct rp_program *program,
			    const struct rpi_manifest_symbols *symbols)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < program->callback_count; i++) {
		const struct rp_callback *callback = &program->callbacks[i];
		const struct rp_signature *signature = callback->signature;

		json_array_append_new(
			array,
			json_pack("{s:s, s:o, s:b, s:o}", "name", callback->name,
				  "symbol", text(symbols->callbacks[i]), "optional",
				  (int)(callback->flags & RP_CALLBACK_OPTIONAL),
				  "signature",
				  signature ? params_of(signature->params,
							signature->param_count)
					    : json_null()));
	}
	return array;
}

/* `all` is what a ring has that has no size of its own. */
static json_t *sizes_of(const struct rp_ring_sizes *sizes)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < RP_RING_COUNT; i++)
		json_array_append_new(
			array, json_integer((json_int_t)(sizes->ring[i] ? sizes->ring[i]
									: sizes->all)));
	return array;
}

static json_t *runtime_of(const struct rp_program *program)
{
	const struct rp_run_config *config = program->config;

	return json_pack("{s:s, s:o}", "name", program->runtime, "config",
			 config ? json_pack("{s:o, s:o, s:o}", "ring_task_window",
					    sizes_of(&config->ring_task_window),
					    "ring_heap", sizes_of(&config->ring_heap),
					    "ring_dep_pool",
					    sizes_of(&config->ring_dep_pool))
				: json_null());
}

static json_t *objects_of(const struct rpi_manifest_object *object, json_t *others)
{
	json_t *objects = others ? json_copy(others) : json_object();

	json_object_set_new(objects, object->platform,
			    json_pack("{s:s, s:I, s:o}", "file", object->file, "bytes",
				      (json_int_t)object->bytes, "digest",
				      hex(object->digest)));
	return objects;
}

char *rpi_manifest_write(const struct rp_program *program,
			 const struct rpi_manifest_symbols *symbols,
			 const struct rpi_manifest_object *object, json_t *others)
{
	char *written = NULL;
	json_t *root;

	root = json_pack(
		"{s:s, s:i, s:s, s:s, s:o, s:b, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}",
		"format", RPI_MANIFEST_FORMAT, "version", RPI_MANIFEST_VERSION, "name",
		program->name, "platform", program->platform, "runtime",
		runtime_of(program), "domain_provider",
		(int)!(program->flags & RP_PROGRAM_NO_DOMAINS), "chip_count",
		(int)program->chip_count, "callback_workers",
		(int)program->callback_workers, "params",
		params_of(program->params, program->param_count), "scalars",
		scalars_of(program), "orchestrate", text(symbols->orchestrate), "entries",
		entries_of(program, symbols), "callbacks", callbacks_of(program, symbols),
		"objects", objects_of(object, others));
	if (root)
		written = json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	return written;
}
