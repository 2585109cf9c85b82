/* SPDX-License-Identifier: MIT */
/* One number for what a program is. */
#include <string.h>

#include <ringplane/worker.h>

#include "base/digest.h"
#include "dispatch/program.h"
#include "program/object.h"

/* With its end, so that two texts are not one. */
static uint64_t add_text(uint64_t digest, const char *text)
{
	return text ? rpi_digest(digest, text, strlen(text) + 1)
		    : rpi_digest(digest, "\1", 1);
}

static uint64_t add_number(uint64_t digest, uint64_t number)
{
	return rpi_digest(digest, &number, sizeof(number));
}

static uint64_t add_param(uint64_t digest, const struct rp_param *param)
{
	uint32_t dim;

	digest = add_text(digest, param->name);
	digest = add_number(digest, (uint64_t)param->kind << 32 | param->dtype);
	digest = add_number(digest, (uint64_t)param->access << 32 | param->rank);
	for (dim = 0; dim < param->rank; dim++) {
		digest = add_number(digest, (uint64_t)param->shape[dim]);
		digest = add_text(digest, param->dim_names[dim]);
	}
	return digest;
}

static uint64_t add_signature(uint64_t digest, const struct rp_signature *signature)
{
	size_t i;

	if (!signature)
		return add_number(digest, UINT64_MAX);
	digest = add_number(digest, signature->param_count);
	for (i = 0; i < signature->param_count; i++)
		digest = add_param(digest, &signature->params[i]);
	return digest;
}

/* Where a function is: inside what the program was loaded from, or in this process. */
static uint64_t add_function(uint64_t digest, const struct rp_program *program,
			     uintptr_t address)
{
	if (address && program->object)
		address -= rpi_object_base(program->object);
	return add_number(digest, address);
}

static uint64_t add_code(uint64_t digest, const struct rp_program *program)
{
	uint32_t i;

	if (program->object)
		digest = add_number(digest, rpi_object_digest(program->object));
	digest = add_function(digest, program, (uintptr_t)program->orchestrate);
	digest = add_number(digest, (uint64_t)(uintptr_t)program->user);
	for (i = 0; i < program->entry_count; i++)
		digest = add_function(digest, program, (uintptr_t)program->entries[i].fn);
	for (i = 0; i < program->callback_count; i++) {
		const struct rp_callback *callback = &program->callbacks[i];

		digest = add_function(digest, program, (uintptr_t)callback->fn);
		digest = add_number(digest, (uint64_t)(uintptr_t)callback->user);
	}
	return digest;
}

uint64_t rp_program_identity(const struct rp_program *program)
{
	uint64_t digest = RPI_DIGEST_BEGIN;
	uint32_t i;

	digest = add_text(digest, program->name);
	digest = add_text(digest, program->platform);
	digest = add_text(digest, program->runtime);
	digest = add_number(digest, program->param_count);
	for (i = 0; i < program->param_count; i++)
		digest = add_param(digest, &program->params[i]);
	digest = add_number(digest, program->fixed_count);
	for (i = 0; i < program->fixed_count; i++) {
		digest = add_text(digest, program->fixed[i].name);
		digest = add_number(digest, program->fixed[i].value.dtype);
		digest = add_number(digest, program->fixed[i].value.value.bits);
	}
	digest = add_number(digest, program->entry_count);
	for (i = 0; i < program->entry_count; i++)
		digest = add_text(digest, program->entries[i].name);
	digest = add_number(digest, program->callback_count);
	for (i = 0; i < program->callback_count; i++) {
		digest = add_text(digest, program->callbacks[i].name);
		digest = add_number(digest, program->callbacks[i].flags);
		digest = add_signature(digest, program->callbacks[i].signature);
	}
	digest = add_number(digest, (uint64_t)program->chip_count << 32 |
					    program->callback_workers);
	digest = add_number(digest, program->flags);
	if (program->config)
		digest = rpi_digest(digest, program->config,
				    offsetof(struct rp_run_config, capture));
	return add_code(digest, program);
}
