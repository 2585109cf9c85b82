/* SPDX-License-Identifier: MIT */
/* The chip workers that a thread has made its own, one inside the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "chipworker/chip_worker.h"

struct binding {
	struct rp_chip_worker *worker;
	struct binding *outer;
};

static _Thread_local __attribute__((tls_model("initial-exec"))) struct binding *topmost;

int rp_chip_worker_push(struct rp_chip_worker *chip_worker)
{
	struct binding *binding;

	if (!chip_worker)
		return rpi_fail(-EINVAL,
				"rp_chip_worker_push: worker NULL, expected one");
	for (binding = topmost; binding; binding = binding->outer)
		if (binding->worker == chip_worker)
			return rpi_fail(-EEXIST,
					"rp_chip_worker_push: worker %p is this thread's "
					"already",
					(void *)chip_worker);
	binding = malloc(sizeof(*binding));
	if (!binding)
		return rpi_fail(-ENOMEM, "rp_chip_worker_push: no memory");
	*binding = (struct binding){ chip_worker, topmost };
	topmost = binding;
	return 0;
}

int rp_chip_worker_pop(struct rp_chip_worker *chip_worker)
{
	struct binding *binding = topmost;

	if (!chip_worker || !binding || binding->worker != chip_worker)
		return rpi_fail(-EINVAL,
				"rp_chip_worker_pop: worker %p, expected this thread's "
				"topmost, %p",
				(void *)chip_worker,
				binding ? (void *)binding->worker : NULL);
	topmost = binding->outer;
	free(binding);
	return 0;
}

void rpi_current_forget(const struct rp_chip_worker *chip_worker)
{
	struct binding **link = &topmost;

	while (*link && (*link)->worker != chip_worker)
		link = &(*link)->outer;
	if (*link) {
		struct binding *binding = *link;

		*link = binding->outer;
		free(binding);
	}
}

static bool matches(const struct rp_chip_worker *chip_worker,
		    const struct rp_program *program)
{
	return !atomic_load_explicit(&chip_worker->closed, memory_order_acquire) &&
	       !strcmp(chip_worker->loader->platform, program->platform) &&
	       !strcmp(chip_worker->loader->runtime, program->runtime);
}

struct rp_chip_worker *rp_chip_worker_current(const struct rp_program *program)
{
	const struct binding *binding;

	for (binding = topmost; program && binding; binding = binding->outer)
		if (matches(binding->worker, program))
			return binding->worker;
	return NULL;
}

static __attribute__((cold, noinline)) int fail_none(const struct rp_program *program)
{
	const struct binding *binding;
	char have[256] = "none";
	size_t at = 0;

	for (binding = topmost; binding && at + 1 < sizeof(have);
	     binding = binding->outer) {
		const struct rp_chip_worker *chip_worker = binding->worker;

		at += rpi_format(
			have + at, sizeof(have) - at, "%s'%s' with '%s'%s",
			at ? ", " : "", chip_worker->loader->platform,
			chip_worker->loader->runtime,
			atomic_load_explicit(&chip_worker->closed, memory_order_relaxed)
				? " (closed)"
				: "");
	}
	return rpi_fail(-ENOENT,
			"rp_program_call: program '%s' wants platform '%s' with runtime "
			"'%s', this thread's current workers have: %s",
			program->name, program->platform, program->runtime, have);
}

int rp_program_call(struct rp_program *program, const struct rp_arg *args, size_t nargs,
		    const struct rp_run_config *config, uint64_t *wall_ns_out)
{
	struct rp_chip_worker *chip_worker;

	if (!program)
		return rpi_fail(-EINVAL, "rp_program_call: program NULL, expected one");
	chip_worker = rp_chip_worker_current(program);
	return chip_worker ? rp_chip_worker_run(chip_worker, program, args, nargs, config,
						wall_ns_out)
			   : fail_none(program);
}
