/* SPDX-License-Identifier: MIT */
#include "program/specialise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/worker.h>

#include "base/error.h"
#include "runtime/sizing.h"
#include "trace/capture.h"

static const struct rp_scalar_choice *find_choice(const struct rp_program_desc *desc,
						  const char *name)
{
	size_t i;

	for (i = 0; i < desc->scalar_count; i++)
		if (!strcmp(desc->scalars[i].name, name))
			return &desc->scalars[i];
	return NULL;
}

static const struct rp_param *find_scalar(const struct rp_program_desc *desc,
					  const char *name)
{
	size_t i;

	for (i = 0; i < desc->param_count; i++)
		if (desc->params[i].kind == RP_ARG_SCALAR &&
		    !strcmp(desc->params[i].name, name))
			return &desc->params[i];
	return NULL;
}

static int check_choice(const struct rp_program_desc *desc, size_t idx)
{
	const struct rp_scalar_choice *choice = &desc->scalars[idx];
	const struct rp_param *param;
	uint32_t bits;

	if (!choice->name)
		return rpi_fail(-EINVAL,
				"rp_program_create: scalars[%zu] has no name, expected "
				"one",
				idx);
	param = find_scalar(desc, choice->name);
	if (!param)
		return rpi_fail(-EINVAL,
				"rp_program_create: scalars[%zu] names '%s', expected a "
				"scalar parameter",
				idx, choice->name);
	if (find_choice(desc, choice->name) != choice)
		return rpi_fail(-EINVAL, "rp_program_create: scalar '%s' is chosen twice",
				choice->name);
	if (choice->run_time > 1 || choice->reserved)
		return rpi_fail(-EINVAL,
				"rp_program_create: scalar '%s' has run_time %u and "
				"reserved %u, expected 0 or 1, and 0",
				choice->name, choice->run_time, choice->reserved);
	if (choice->run_time)
		return 0;
	if (choice->value.dtype != param->dtype)
		return rpi_fail(-EINVAL,
				"rp_program_create: scalar '%s' is given a value of "
				"dtype %s, expected %s",
				choice->name,
				rp_dtype_name((enum rp_dtype)choice->value.dtype),
				rp_dtype_name((enum rp_dtype)param->dtype));
	bits = rp_dtype_bits((enum rp_dtype)param->dtype);
	if (bits < 64 && choice->value.value.bits >> bits)
		return rpi_fail(-EINVAL,
				"rp_program_create: scalar '%s' has the bits %#llx, "
				"expected zero above the %u of its dtype",
				choice->name,
				(unsigned long long)choice->value.value.bits, bits);
	return 0;
}

int rpi_choices_check(const struct rp_program_desc *desc)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < desc->scalar_count; i++)
		err = check_choice(desc, i);
	for (i = 0; !err && i < desc->param_count; i++)
		if ((desc->params[i].flags & RP_PARAM_DECIDE) &&
		    !find_choice(desc, desc->params[i].name))
			err = rpi_fail(-EINVAL,
				       "rp_program_create: scalar '%s' is left open, "
				       "expected a value for it in scalars, or run time",
				       desc->params[i].name);
	return err;
}

static bool is_output(const struct rp_param *param)
{
	return param->kind == RP_ARG_TENSOR && param->access == RP_OUT;
}

int rpi_choices_apply(const struct rp_program_desc *desc, struct rp_program *program)
{
	const size_t room = desc->param_count ? desc->param_count : 1;
	size_t i;

	program->params = calloc(room, sizeof(*program->params));
	program->outputs = calloc(room, sizeof(*program->outputs));
	program->fixed = calloc(desc->scalar_count ? desc->scalar_count : 1,
				sizeof(*program->fixed));
	if (!program->params || !program->outputs || !program->fixed)
		return -ENOMEM;
	for (i = 0; i < desc->param_count; i++) {
		const struct rp_param *param = &desc->params[i];
		const struct rp_scalar_choice *choice = find_choice(desc, param->name);

		if (choice && !choice->run_time) {
			program->fixed[program->fixed_count++] =
				(struct rpi_fixed){ .name = param->name,
						    .value = choice->value };
			continue;
		}
		if (is_output(param))
			program->outputs[program->output_count++] = program->param_count;
		program->params[program->param_count++] = *param;
	}
	return 0;
}

int rpi_program_config_check(const struct rp_run_config *config)
{
	if (config->size != sizeof(*config))
		return rpi_fail(-EINVAL,
				"rp_program_create: config size %zu, expected %zu (use "
				"rp_run_config_init())",
				config->size, sizeof(*config));
	/* Where to write is the dispatch's to say, not its program's. */
	if (rpi_capture_is_on(&config->capture) || config->capture.output_dir)
		return rpi_fail(-EINVAL,
				"rp_program_create: config captures, expected that in "
				"the config of a dispatch or the options of a worker");
	return rpi_sizing_check("rp_program_create", config);
}

int rp_program_scalar(const struct rp_program *program, const char *name,
		      struct rp_scalar *value_out)
{
	uint32_t i;

	if (!program || !name || !value_out)
		return rpi_fail(-EINVAL,
				"rp_program_scalar: program, name or value_out NULL");
	for (i = 0; i < program->fixed_count; i++) {
		if (!strcmp(program->fixed[i].name, name)) {
			*value_out = program->fixed[i].value;
			return 0;
		}
	}
	return rpi_fail(-ENOENT,
			"rp_program_scalar: program '%s' was given no value for '%s'",
			program->name, name);
}
