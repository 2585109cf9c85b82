/* SPDX-License-Identifier: MIT */
/* Whether programs can share a worker. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "program/program.h"
#include "worker/worker.h"

static int check_agree(const struct rp_program *first, const struct rp_program *other)
{
	if (strcmp(first->platform, other->platform))
		return rpi_fail(
			-EINVAL,
			"rp_worker_prepare: '%s' is built for platform '%s', '%s' for "
			"'%s', expected one platform",
			first->name, first->platform, other->name, other->platform);
	if (strcmp(first->runtime, other->runtime))
		return rpi_fail(
			-EINVAL,
			"rp_worker_prepare: '%s' wants runtime '%s', '%s' wants '%s', "
			"expected one runtime",
			first->name, first->runtime, other->name, other->runtime);
	return 0;
}

static int check_listed(struct rp_program *const *programs, size_t count)
{
	size_t other;
	size_t i;
	int err;

	if (!programs || !count)
		return rpi_fail(-EINVAL, "rp_worker_prepare: no programs, expected at "
					 "least one");
	if (count > UINT16_MAX)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: program_count %zu, expected "
				"at most %u",
				count, UINT16_MAX);
	for (i = 0; i < count; i++) {
		if (!programs[i])
			return rpi_fail(-EINVAL, "rp_worker_prepare: program %zu is NULL",
					i);
		for (other = 0; other < i; other++)
			if (programs[other] == programs[i])
				return rpi_fail(
					-EINVAL,
					"rp_worker_prepare: program '%s' is listed "
					"twice",
					programs[i]->name);
		err = check_agree(programs[0], programs[i]);
		if (err)
			return err;
	}
	return 0;
}

/* First with each other: no chip_count of the options would mend that. */
static int check_chip_counts(struct rp_program *const *programs, size_t count,
			     uint32_t chip_count)
{
	const struct rp_program *first = NULL;
	size_t i;

	for (i = 0; i < count; i++) {
		const struct rp_program *program = programs[i];

		if (!program->chip_count)
			continue;
		if (!first)
			first = program;
		if (program->chip_count != first->chip_count)
			return rpi_fail(
				-EINVAL,
				"rp_worker_prepare: '%s' needs %u chips, '%s' needs %u "
				"chips, expected one chip_count",
				first->name, first->chip_count, program->name,
				program->chip_count);
	}
	if (first && first->chip_count != chip_count)
		return rpi_fail(
			-EINVAL,
			"rp_worker_prepare: program '%s' needs %u chips, chip_count is "
			"%u",
			first->name, first->chip_count, chip_count);
	return 0;
}

/* What a persistent worker keeps is made by what the artifact provides. */
static int check_domains(struct rp_program *const *programs, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (programs[i]->flags & RP_PROGRAM_NO_DOMAINS)
			return rpi_fail(
				-EINVAL,
				"rp_worker_prepare: program '%s'%s%s has no domain "
				"provider, which persistent needs: build it anew",
				programs[i]->name,
				programs[i]->output_dir ? " from " : "",
				programs[i]->output_dir ? programs[i]->output_dir : "");
	return 0;
}

int rpi_programs_check(struct rp_program *const *programs, size_t count,
		       const struct rp_worker_options *options)
{
	int err = check_listed(programs, count);

	if (!err)
		err = check_chip_counts(programs, count, options->chip_count);
	if (!err && options->persistent)
		err = check_domains(programs, count);
	return err;
}

uint32_t rpi_worker_add_program(struct rp_worker *worker, struct rp_program *program)
{
	const uint32_t idx = worker->program_count++;

	rpi_program_hold(program);
	worker->programs[idx] = program;
	/* Release: whoever sees the count sees the program. */
	atomic_store_explicit(&worker->plane.program_count, idx + 1,
			      memory_order_release);
	return idx;
}
