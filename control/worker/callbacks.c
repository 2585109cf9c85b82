/* SPDX-License-Identifier: MIT */
/*
 * The callbacks of a worker's programs, bound by name. Programs are shared and stay as
 * they are; what a worker binds is its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/signature.h"
#include "worker/worker.h"

/* A list of names for an error line. */
struct names {
	char text[256];
	size_t at;
};

static void add_name(struct names *names, const char *name)
{
	/* Whole, or not at all. */
	if (names->at + strlen(name) + 4 < sizeof(names->text))
		names->at += rpi_format(names->text + names->at,
					sizeof(names->text) - names->at, "%s'%s'",
					names->at ? ", " : "", name);
}

static const struct rp_callback *find_binding(const struct rp_worker_options *options,
					      const char *name)
{
	size_t i;

	for (i = 0; i < options->callback_count; i++)
		if (!strcmp(options->callbacks[i].name, name))
			return &options->callbacks[i];
	return NULL;
}

static bool declared(const struct rp_worker *worker, const char *name)
{
	uint32_t program;
	uint32_t i;

	for (program = 0; program < worker->program_count; program++)
		for (i = 0; i < worker->programs[program]->callback_count; i++)
			if (!strcmp(worker->programs[program]->callbacks[i].name, name))
				return true;
	return false;
}

static int check_binding(const struct rp_worker_options *options, size_t idx)
{
	const struct rp_callback *binding = &options->callbacks[idx];

	if (!binding->name || !*binding->name || !binding->fn)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: callbacks[%zu] ('%s') has no %s", idx,
				binding->name ? binding->name : "",
				binding->name && *binding->name ? "function" : "name");
	if (binding->flags)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: callbacks[%zu] ('%s') has flags %#x, "
				"expected 0",
				idx, binding->name, binding->flags);
	if (find_binding(options, binding->name) != binding)
		return rpi_fail(-EINVAL, "rp_worker_prepare: callbacks names '%s' twice",
				binding->name);
	return binding->signature ? rpi_signature_check("rp_worker_prepare",
							binding->name, binding->signature)
				  : 0;
}

static int check_bindings(const struct rp_worker *worker)
{
	const struct rp_worker_options *options = &worker->options;
	struct names unknown = { .at = 0 };
	struct names known = { .at = 0 };
	uint32_t program;
	uint32_t i;
	size_t k;
	int err;

	if (options->callback_count && !options->callbacks)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: callbacks NULL, callback_count %zu",
				options->callback_count);
	for (k = 0; k < options->callback_count; k++) {
		/* Those before it have names; find_binding() finds one of them, or it. */
		err = check_binding(options, k);
		if (err)
			return err;
		if (!declared(worker, options->callbacks[k].name))
			add_name(&unknown, options->callbacks[k].name);
	}
	if (!unknown.at)
		return 0;
	for (program = 0; program < worker->program_count; program++)
		for (i = 0; i < worker->programs[program]->callback_count; i++)
			add_name(&known, worker->programs[program]->callbacks[i].name);
	return rpi_fail(-ENOENT,
			"rp_worker_prepare: no program declares the callbacks %s, "
			"expected %s",
			unknown.text, known.at ? known.text : "none: there are none");
}

/* The options are the caller's: keep copies of their signatures. */
static int copy_signatures(struct rp_worker *worker)
{
	const struct rp_worker_options *options = &worker->options;
	size_t i;

	worker->signature_count = options->callback_count;
	worker->signatures = calloc(options->callback_count + 1, sizeof(void *));
	if (!worker->signatures)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	for (i = 0; i < options->callback_count; i++) {
		if (!options->callbacks[i].signature)
			continue;
		worker->signatures[i] =
			rpi_signature_copy(options->callbacks[i].signature);
		if (!worker->signatures[i])
			return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	}
	return 0;
}

/* What went wrong with the callbacks of one program. */
struct faults {
	struct names unbound;
	struct names wrong;
	char why[RPI_ERROR_BYTES / 2]; /* of the first wrong one */
};

static void bind_one(struct rp_worker *worker, const struct rp_callback *declaration,
		     struct rpi_callback *bound, struct faults *faults)
{
	const struct rp_worker_options *options = &worker->options;
	const struct rp_callback *binding = find_binding(options, declaration->name);
	const struct rp_signature *taken = NULL;
	char why[sizeof(faults->why)];

	bound->name = declaration->name;
	bound->fn = binding ? binding->fn : declaration->fn;
	bound->user = binding ? binding->user : declaration->user;
	bound->signature = declaration->signature;
	if (!bound->fn && !(declaration->flags & RP_CALLBACK_OPTIONAL))
		add_name(&faults->unbound, declaration->name);
	if (binding)
		taken = worker->signatures[binding - options->callbacks];
	if (!taken)
		return;
	if (!bound->signature)
		bound->signature = taken;
	else if (!rpi_signature_accepts(taken, bound->signature, why, sizeof(why))) {
		if (!faults->wrong.at)
			rpi_format(faults->why, sizeof(faults->why), "%s", why);
		add_name(&faults->wrong, declaration->name);
	}
}

static int bind_program(struct rp_worker *worker, uint32_t idx)
{
	const struct rp_program *program = worker->programs[idx];
	struct faults faults = { .why = "" };
	uint32_t i;

	worker->callbacks[idx] =
		calloc(program->callback_count + 1, sizeof(*worker->callbacks[idx]));
	if (!worker->callbacks[idx])
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	for (i = 0; i < program->callback_count; i++)
		bind_one(worker, &program->callbacks[i], &worker->callbacks[idx][i],
			 &faults);
	if (faults.unbound.at)
		return rpi_fail(-ENOENT,
				"rp_worker_prepare: program '%s' needs the callbacks %s, "
				"which nothing binds",
				program->name, faults.unbound.text);
	if (faults.wrong.at)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: %s bound with another signature than "
				"program '%s' declares: %s",
				faults.wrong.text, program->name, faults.why);
	return 0;
}

static int count_workers(struct rp_worker *worker)
{
	const struct rp_worker_options *options = &worker->options;
	bool any = false;
	uint32_t i;

	for (i = 0; i < worker->program_count; i++) {
		const struct rp_program *program = worker->programs[i];

		any |= program->callback_count > 0;
		if (program->callback_workers > worker->callback_workers)
			worker->callback_workers = program->callback_workers;
	}
	if (!options->callback_workers)
		return 0;
	if (!any)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: callback_workers %u, expected 0: no "
				"program has callbacks",
				options->callback_workers);
	if (options->callback_workers > RP_MAX_PEERS - options->chip_count)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: callback_workers %u with %u chips, "
				"expected at most %d together",
				options->callback_workers, options->chip_count,
				RP_MAX_PEERS);
	worker->callback_workers = options->callback_workers;
	return 0;
}

int rpi_callbacks_bind(struct rp_worker *worker)
{
	uint32_t idx;
	int err;

	err = check_bindings(worker);
	if (!err)
		err = copy_signatures(worker);
	if (err)
		return err;
	worker->callbacks = calloc(worker->program_count + worker->program_room,
				   sizeof(*worker->callbacks));
	if (!worker->callbacks)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	for (idx = 0; !err && idx < worker->program_count; idx++)
		err = bind_program(worker, idx);
	return err ? err : count_workers(worker);
}

void rpi_callbacks_release(struct rp_worker *worker)
{
	uint32_t idx;
	size_t i;

	for (idx = 0; worker->callbacks && idx < worker->program_count; idx++)
		free(worker->callbacks[idx]);
	free(worker->callbacks);
	for (i = 0; worker->signatures && i < worker->signature_count; i++)
		free(worker->signatures[i]);
	free(worker->signatures);
}
