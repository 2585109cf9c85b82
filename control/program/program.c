/* SPDX-License-Identifier: MIT */
/* In-process programs: a description, checked and copied. */
#include "dispatch/program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/worker.h>

#include "base/error.h"
#include "dispatch/wire.h"
#include "program/object.h"
#include "program/program.h"
#include "program/signature.h"
#include "program/specialise.h"

#define NAME_OR(name) ((name) ? (name) : "(no name)")

void rp_program_desc_init(struct rp_program_desc *desc)
{
	memset(desc, 0, sizeof(*desc));
	desc->size = sizeof(*desc);
}

static int check_scalar(size_t idx, const struct rp_param *param)
{
	switch (param->dtype) {
	case RP_FLOAT32:
	case RP_INT8:
	case RP_INT16:
	case RP_INT32:
	case RP_INT64:
	case RP_UINT8:
	case RP_UINT16:
	case RP_UINT32:
	case RP_UINT64:
	case RP_BOOL:
		break;
	default:
		return rpi_fail(
			-EINVAL,
			"rp_program_create: scalar '%s' (parameter %zu) has dtype %u, "
			"expected an integer, RP_BOOL or RP_FLOAT32",
			param->name, idx, param->dtype);
	}
	if (param->rank || param->access)
		return rpi_fail(
			-EINVAL,
			"rp_program_create: scalar '%s' has rank %u and access %u, "
			"expected 0 and 0",
			param->name, param->rank, param->access);
	return 0;
}

static int check_tensor(size_t idx, const struct rp_param *param)
{
	uint32_t dim;

	if (!rp_dtype_bits((enum rp_dtype)param->dtype))
		return rpi_fail(
			-EINVAL,
			"rp_program_create: tensor '%s' (parameter %zu) has dtype %u, "
			"expected an enum rp_dtype",
			param->name, idx, param->dtype);
	if (param->access < RP_IN || param->access > RP_INOUT)
		return rpi_fail(-EINVAL,
				"rp_program_create: tensor '%s' has access %u, expected "
				"RP_IN, RP_OUT or RP_INOUT",
				param->name, param->access);
	if (param->rank < 1 || param->rank > RP_MAX_DIMS)
		return rpi_fail(
			-EINVAL,
			"rp_program_create: tensor '%s' has rank %u, expected 1..%d",
			param->name, param->rank, RP_MAX_DIMS);
	for (dim = 0; dim < param->rank; dim++) {
		if (param->shape[dim] <= 0 && param->shape[dim] != RP_DIM_ANY)
			return rpi_fail(
				-EINVAL,
				"rp_program_create: tensor '%s' dim %u is %" PRId64
				", expected at least 1 or RP_DIM_ANY",
				param->name, dim, param->shape[dim]);
		if (param->dim_names[dim] && param->shape[dim] != RP_DIM_ANY)
			return rpi_fail(
				-EINVAL,
				"rp_program_create: tensor '%s' dim %u is named '%s' "
				"and fixed at %" PRId64 ", expected RP_DIM_ANY",
				param->name, dim, param->dim_names[dim],
				param->shape[dim]);
	}
	return 0;
}

static int check_param(const struct rp_program_desc *desc, size_t idx)
{
	const struct rp_param *param = &desc->params[idx];
	size_t other;

	if (!param->name || !*param->name)
		return rpi_fail(
			-EINVAL,
			"rp_program_create: parameter %zu has no name, expected one",
			idx);
	for (other = 0; other < idx; other++)
		if (!strcmp(desc->params[other].name, param->name))
			return rpi_fail(
				-EINVAL,
				"rp_program_create: parameters %zu and %zu are both "
				"named '%s'",
				other, idx, param->name);
	if (param->flags &
	    ~(param->kind == RP_ARG_SCALAR ? RP_PARAM_DECIDE : UINT32_C(0)))
		return rpi_fail(-EINVAL,
				"rp_program_create: parameter '%s' has flags %#x, "
				"expected none%s",
				param->name, param->flags,
				param->kind == RP_ARG_SCALAR ? " but RP_PARAM_DECIDE"
							     : "");
	if (param->kind == RP_ARG_TENSOR)
		return check_tensor(idx, param);
	if (param->kind == RP_ARG_SCALAR)
		return check_scalar(idx, param);
	return rpi_fail(-EINVAL,
			"rp_program_create: parameter '%s' is of kind %u, expected "
			"RP_ARG_TENSOR or RP_ARG_SCALAR",
			param->name, param->kind);
}

static int check_counts(const struct rp_program_desc *desc)
{
	if (!desc->name || !*desc->name)
		return rpi_fail(-EINVAL,
				"rp_program_create: name is empty, expected one");
	if (desc->param_count > RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS)
		return rpi_fail(-EINVAL,
				"rp_program_create: param_count %zu, expected at most %u",
				desc->param_count,
				RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS);
	if (!desc->entry_count || desc->entry_count > UINT16_MAX)
		return rpi_fail(-EINVAL,
				"rp_program_create: entry_count %zu, expected 1..%u",
				desc->entry_count, UINT16_MAX);
	if (desc->callback_count > UINT16_MAX)
		return rpi_fail(
			-EINVAL,
			"rp_program_create: callback_count %zu, expected at most %u",
			desc->callback_count, UINT16_MAX);
	if ((desc->param_count && !desc->params) || !desc->entries ||
	    (desc->callback_count && !desc->callbacks))
		return rpi_fail(-EINVAL,
				"rp_program_create: params, entries or callbacks "
				"is NULL with a count above 0");
	if ((desc->scalar_count && !desc->scalars) ||
	    desc->scalar_count > RP_MAX_TASK_SCALARS)
		return rpi_fail(-EINVAL,
				"rp_program_create: scalar_count %zu, expected at most "
				"%u, and scalars",
				desc->scalar_count, RP_MAX_TASK_SCALARS);
	if (desc->flags & ~RP_PROGRAM_NO_DOMAINS)
		return rpi_fail(-EINVAL,
				"rp_program_create: flags %#x, expected none but %#x",
				desc->flags, RP_PROGRAM_NO_DOMAINS);
	if (desc->callback_workers > desc->callback_count)
		return rpi_fail(
			-EINVAL,
			"rp_program_create: callback_workers %u, expected at most "
			"callback_count %zu",
			desc->callback_workers, desc->callback_count);
	return 0;
}

static int check_functions(const struct rp_program_desc *desc)
{
	size_t idx;

	for (idx = 0; idx < desc->entry_count; idx++)
		if (!desc->entries[idx].fn || !desc->entries[idx].name)
			return rpi_fail(
				-EINVAL,
				"rp_program_create: entry %zu ('%s') has no name or "
				"no function",
				idx, NAME_OR(desc->entries[idx].name));
	return 0;
}

static int check_callback(const struct rp_program_desc *desc, size_t idx)
{
	const struct rp_callback *callback = &desc->callbacks[idx];
	size_t other;

	if (!callback->name || !*callback->name)
		return rpi_fail(
			-EINVAL,
			"rp_program_create: callback %zu has no name, expected one", idx);
	for (other = 0; other < idx; other++)
		if (!strcmp(desc->callbacks[other].name, callback->name))
			return rpi_fail(
				-EINVAL,
				"rp_program_create: callbacks %zu and %zu are both "
				"named '%s'",
				other, idx, callback->name);
	if (callback->flags & ~RP_CALLBACK_OPTIONAL)
		return rpi_fail(-EINVAL,
				"rp_program_create: callback '%s' has flags %#x, "
				"expected none but %#x",
				callback->name, callback->flags, RP_CALLBACK_OPTIONAL);
	return callback->signature
		       ? rpi_signature_check("rp_program_create", callback->name,
					     callback->signature)
		       : 0;
}

static int check_desc(const struct rp_program_desc *desc)
{
	size_t idx;
	int err;

	if (!desc)
		return rpi_fail(-EINVAL, "rp_program_create: desc NULL, expected one");
	if (desc->size != sizeof(*desc))
		return rpi_fail(-EINVAL,
				"rp_program_create: size %zu, expected %zu (use "
				"rp_program_desc_init())",
				desc->size, sizeof(*desc));
	err = check_counts(desc);
	if (!err)
		err = check_functions(desc);
	for (idx = 0; !err && idx < desc->param_count; idx++)
		err = check_param(desc, idx);
	for (idx = 0; !err && idx < desc->callback_count; idx++)
		err = check_callback(desc, idx);
	if (!err)
		err = rpi_choices_check(desc);
	if (!err && desc->config)
		err = rpi_program_config_check(desc->config);
	return err;
}

/* A copy of a string, or of NULL; *failed becomes true without memory. */
static char *copy_text(const char *text, bool *failed)
{
	char *copy = text ? strdup(text) : NULL;

	*failed |= text && !copy;
	return copy;
}

static void *copy_array(const void *array, size_t count, size_t bytes, bool *failed)
{
	void *copy = calloc(count ? count : 1, bytes);

	*failed |= !copy;
	if (copy && count)
		memcpy(copy, array, count * bytes);
	return copy;
}

static void copy_callback(struct rp_callback *callback, bool *failed)
{
	callback->name = copy_text(callback->name, failed);
	if (!callback->signature)
		return;
	callback->signature = rpi_signature_copy(callback->signature);
	*failed |= !callback->signature;
}

static void copy_names(struct rp_program *program, bool *failed)
{
	uint32_t idx;
	uint32_t dim;

	for (idx = 0; idx < program->param_count; idx++) {
		struct rp_param *param = &program->params[idx];

		param->name = copy_text(param->name, failed);
		for (dim = 0; dim < RP_MAX_DIMS; dim++)
			param->dim_names[dim] =
				dim < param->rank
					? copy_text(param->dim_names[dim], failed)
					: NULL;
		program->tensor_count += param->kind == RP_ARG_TENSOR;
	}
	for (idx = 0; idx < program->fixed_count; idx++)
		program->fixed[idx].name = copy_text(program->fixed[idx].name, failed);
	for (idx = 0; idx < program->entry_count; idx++)
		program->entries[idx].name =
			copy_text(program->entries[idx].name, failed);
	for (idx = 0; idx < program->callback_count; idx++)
		copy_callback(&program->callbacks[idx], failed);
}

/* Whether chips know from the parameters all but a word of each argument. */
static bool fits_words(const struct rp_program *program)
{
	uint32_t idx;
	uint32_t dim;

	for (idx = 0; idx < program->param_count; idx++)
		for (dim = 0; dim < program->params[idx].rank; dim++)
			if (program->params[idx].shape[dim] == RP_DIM_ANY)
				return false;
	return program->param_count && program->param_count <= RPI_WORDS_MAX;
}

/* Number the distinct dim names, so that a call compares numbers. */
static int number_dims(struct rp_program *program)
{
	const char *names[RPI_DIM_NAMES_MAX] = { NULL };
	uint32_t idx;
	uint32_t dim;
	uint32_t name;

	for (idx = 0; idx < program->param_count; idx++) {
		for (dim = 0; dim < RP_MAX_DIMS; dim++) {
			const char *wanted = program->params[idx].dim_names[dim];

			program->dim_ids[idx][dim] = -1;
			if (!wanted)
				continue;
			for (name = 0; name < program->dim_name_count; name++)
				if (names[name] && !strcmp(names[name], wanted))
					break;
			if (name == RPI_DIM_NAMES_MAX)
				return rpi_fail(
					-EINVAL,
					"rp_program_create: more than %d names of "
					"dims",
					RPI_DIM_NAMES_MAX);
			if (name == program->dim_name_count)
				names[program->dim_name_count++] = wanted;
			program->dim_ids[idx][dim] = (int8_t)name;
		}
	}
	return 0;
}

static void destroy(struct rp_program *program)
{
	uint32_t idx;
	uint32_t dim;

	for (idx = 0; program->params && idx < program->param_count; idx++) {
		free((void *)program->params[idx].name);
		for (dim = 0; dim < RP_MAX_DIMS; dim++)
			free((void *)program->params[idx].dim_names[dim]);
	}
	for (idx = 0; program->entries && idx < program->entry_count; idx++)
		free((void *)program->entries[idx].name);
	for (idx = 0; program->callbacks && idx < program->callback_count; idx++) {
		free((void *)program->callbacks[idx].name);
		free((void *)program->callbacks[idx].signature);
	}
	for (idx = 0; program->fixed && idx < program->fixed_count; idx++)
		free((void *)program->fixed[idx].name);
	free(program->params);
	free(program->fixed);
	free(program->config);
	free(program->outputs);
	free(program->dim_ids);
	free(program->entries);
	free(program->callbacks);
	free(program->name);
	free(program->platform);
	free(program->runtime);
	free(program->output_dir);
	/* Last: functions and constants lie in it. */
	rpi_object_free(program->object);
	free(program);
}

int rp_program_create(const struct rp_program_desc *desc, struct rp_program **program_out)
{
	struct rp_program *program;
	bool failed = false;
	int err;

	err = check_desc(desc);
	if (err)
		return err;
	if (!program_out)
		return rpi_fail(-EINVAL, "rp_program_create: program_out NULL");
	program = calloc(1, sizeof(*program));
	if (!program)
		return rpi_fail(-ENOMEM, "rp_program_create: no memory");
	atomic_init(&program->references, 1);
	program->flags = desc->flags;
	program->entry_count = (uint32_t)desc->entry_count;
	program->callback_count = (uint32_t)desc->callback_count;
	program->orchestrate = desc->orchestrate;
	program->user = desc->user;
	program->chip_count = desc->chip_count;
	program->callback_workers = desc->callback_workers ? desc->callback_workers
							   : program->callback_count;
	program->name = copy_text(desc->name, &failed);
	program->platform = copy_text(desc->platform ? desc->platform : "sim", &failed);
	program->runtime =
		copy_text(desc->runtime ? desc->runtime : RPI_RUNTIME_NAME, &failed);
	failed |= rpi_choices_apply(desc, program) != 0;
	if (desc->config)
		program->config =
			copy_array(desc->config, 1, sizeof(*desc->config), &failed);
	program->dim_ids = calloc(desc->param_count ? desc->param_count : 1,
				  sizeof(*program->dim_ids));
	program->entries = copy_array(desc->entries, desc->entry_count,
				      sizeof(*program->entries), &failed);
	program->callbacks = copy_array(desc->callbacks, desc->callback_count,
					sizeof(*program->callbacks), &failed);
	failed |= !program->dim_ids;
	if (failed) {
		/* Names still point into the description: forget them unfreed. */
		program->param_count = 0;
		program->fixed_count = 0;
		program->entry_count = 0;
		program->callback_count = 0;
	} else {
		copy_names(program, &failed);
	}
	err = failed ? rpi_fail(-ENOMEM, "rp_program_create: no memory")
		     : number_dims(program);
	if (err) {
		destroy(program);
		return err;
	}
	program->fits_words = fits_words(program);
	*program_out = program;
	return 0;
}

void rpi_program_hold(struct rp_program *program)
{
	atomic_fetch_add_explicit(&program->references, 1, memory_order_relaxed);
}

void rp_program_free(struct rp_program *program)
{
	/* Release and acquire: the last holder sees everybody's use as past. */
	if (program &&
	    atomic_fetch_sub_explicit(&program->references, 1, memory_order_acq_rel) == 1)
		destroy(program);
}

const char *rp_program_name(const struct rp_program *program)
{
	return program->name;
}

const char *rp_program_platform(const struct rp_program *program)
{
	return program->platform;
}

const char *rp_program_runtime(const struct rp_program *program)
{
	return program->runtime;
}

size_t rp_program_param_count(const struct rp_program *program)
{
	return program->param_count;
}

const struct rp_param *rp_program_param(const struct rp_program *program, size_t index)
{
	return index < program->param_count ? &program->params[index] : NULL;
}

int rp_program_entry(const struct rp_program *program, const char *name)
{
	uint32_t idx;

	for (idx = 0; name && idx < program->entry_count; idx++)
		if (!strcmp(program->entries[idx].name, name))
			return (int)idx;
	return rpi_fail(-ENOENT, "rp_program_entry: program '%s' has no entry '%s'",
			program->name, NAME_OR(name));
}

int rp_program_callback(const struct rp_program *program, const char *name)
{
	uint32_t idx;

	for (idx = 0; name && idx < program->callback_count; idx++)
		if (!strcmp(program->callbacks[idx].name, name))
			return (int)idx;
	return rpi_fail(-ENOENT, "rp_program_callback: program '%s' has no callback '%s'",
			program->name, NAME_OR(name));
}
