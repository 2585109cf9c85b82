/* SPDX-License-Identifier: MIT */
/* Programs that the chip has, and the handles to call them by. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "chipworker/chip_worker.h"
#include "worker/recording.h"

static int check_program(const struct rp_chip_worker *chip_worker, const char *call,
			 const struct rp_program *program)
{
	const struct rp_program *mine = chip_worker->loader;

	if (strcmp(program->platform, mine->platform))
		return rpi_fail(-EINVAL,
				"%s: program '%s' is built for platform '%s', the worker "
				"has '%s'",
				call, program->name, program->platform, mine->platform);
	if (strcmp(program->runtime, mine->runtime))
		return rpi_fail(
			-EINVAL,
			"%s: program '%s' wants runtime '%s', the worker has '%s'", call,
			program->name, program->runtime, mine->runtime);
	if (program->chip_count > 1)
		return rpi_fail(-EINVAL, "%s: program '%s' needs %u chips, expected 1",
				call, program->name, program->chip_count);
	if (program->callback_count)
		return rpi_fail(-EINVAL,
				"%s: program '%s' has callbacks ('%s'), for which a chip "
				"worker has no process",
				call, program->name, program->callbacks[0].name);
	if ((program->flags & RP_PROGRAM_NO_DOMAINS) &&
	    chip_worker->worker->options.persistent)
		return rpi_fail(-EINVAL,
				"%s: program '%s' has no domain provider, which "
				"persistent needs",
				call, program->name);
	return 0;
}

static const struct rpi_resident_program *look(struct rp_chip_worker *chip_worker,
					       const struct rp_program *program)
{
	/* Acquire: the entries below it are there. */
	uint32_t count =
		atomic_load_explicit(&chip_worker->program_count, memory_order_acquire);
	uint32_t i;

	for (i = 0; i < count; i++)
		if (chip_worker->programs[i].program == program)
			return &chip_worker->programs[i];
	return NULL;
}

/* The lock is held. */
static int bring(struct rp_chip_worker *chip_worker, const char *call,
		 struct rp_program *program)
{
	uint32_t count =
		atomic_load_explicit(&chip_worker->program_count, memory_order_relaxed);
	struct rpi_resident_program *place = &chip_worker->programs[count];
	uint64_t begin_ns = rpi_now_ns();
	int err;

	if (count == RP_CHIP_WORKER_PROGRAMS)
		return rpi_fail(-ENOSPC,
				"%s: %u programs are registered, expected at most %u",
				call, count, RP_CHIP_WORKER_PROGRAMS);
	err = rpi_loader_load(chip_worker, call, program, count + 1);
	if (err)
		return err;
	place->program = program;
	place->idx = rpi_worker_add_program(chip_worker->worker, program);
	place->assemble_ns = rpi_now_ns() - begin_ns;
	atomic_store_explicit(&chip_worker->program_count, count + 1,
			      memory_order_release);
	return 0;
}

int rpi_chip_worker_find(struct rp_chip_worker *chip_worker, const char *call,
			 struct rp_program *program,
			 const struct rpi_resident_program **found_out)
{
	int err = 0;

	*found_out = look(chip_worker, program);
	if (rpi_likely(*found_out != NULL))
		return 0;
	err = check_program(chip_worker, call, program);
	if (err)
		return err;
	/* Before the lock: another thread may hold it, and wait for this one. */
	if (rpi_plane_orchestrates(&chip_worker->worker->plane))
		return rpi_fail(-EDEADLK,
				"%s: called from an orchestration of the worker, which "
				"it would wait for",
				call);
	pthread_mutex_lock(&chip_worker->lock);
	/* Another thread may have been first. */
	if (!look(chip_worker, program))
		err = bring(chip_worker, call, program);
	pthread_mutex_unlock(&chip_worker->lock);
	*found_out = look(chip_worker, program);
	return err;
}

static int is_closed(const char *call)
{
	return rpi_fail(-ESHUTDOWN, "%s: the worker is closed or being closed", call);
}

/* Unless the worker is closed meanwhile. */
static bool enlist(struct rp_chip_worker *chip_worker,
		   struct rp_registration *registration)
{
	bool closed;

	pthread_mutex_lock(&chip_worker->lock);
	closed = atomic_load_explicit(&chip_worker->closed, memory_order_relaxed);
	if (!closed) {
		registration->owner = chip_worker;
		registration->link = &chip_worker->registrations;
		registration->next = chip_worker->registrations;
		if (registration->next)
			registration->next->link = &registration->next;
		chip_worker->registrations = registration;
	}
	pthread_mutex_unlock(&chip_worker->lock);
	return !closed;
}

int rp_chip_worker_register(struct rp_chip_worker *chip_worker,
			    struct rp_program *program,
			    struct rp_registration **registration_out)
{
	static const char call[] = "rp_chip_worker_register";
	const struct rpi_resident_program *found;
	struct rp_registration *registration;
	int err;

	if (!chip_worker || !program || !registration_out)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", call,
				!chip_worker ? "worker"
				: !program   ? "program"
					     : "registration_out");
	if (atomic_load_explicit(&chip_worker->closed, memory_order_acquire))
		return is_closed(call);
	err = rpi_chip_worker_find(chip_worker, call, program, &found);
	if (err)
		return err;
	registration = calloc(1, sizeof(*registration));
	if (!registration)
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	registration->program_idx = found->idx;
	registration->program = found->program;
	registration->worker = chip_worker->worker;
	registration->assemble_ns = found->assemble_ns;
	atomic_init(&registration->open, 1);
	if (!enlist(chip_worker, registration)) {
		free(registration);
		return is_closed(call);
	}
	*registration_out = registration;
	return 0;
}

void rpi_registrations_close(struct rp_chip_worker *chip_worker, bool freed)
{
	struct rp_registration *registration;

	pthread_mutex_lock(&chip_worker->lock);
	for (registration = chip_worker->registrations; registration;
	     registration = registration->next) {
		/* Release: nobody follows `worker` after having seen it. */
		atomic_store_explicit(&registration->open, 0, memory_order_release);
		if (freed)
			registration->owner = NULL;
	}
	pthread_mutex_unlock(&chip_worker->lock);
}

static int offer_call(const char *call, const struct rp_registration *registration,
		      const struct rp_arg *args, size_t nargs,
		      const struct rp_run_config *config, struct rpi_offer *offer_out)
{
	if (rpi_unlikely(!registration))
		return rpi_fail(-EINVAL, "%s: registration NULL, expected one", call);
	if (rpi_unlikely(
		    !atomic_load_explicit(&registration->open, memory_order_acquire)))
		return rpi_fail(-ESHUTDOWN,
				"%s: the handle was unregistered, or its worker closed",
				call);
	*offer_out =
		(struct rpi_offer){ .program = registration->program,
				    .program_idx = registration->program_idx,
				    .args = args,
				    .nargs = nargs,
				    .config = config ? config
						     : registration->program->config };
	return 0;
}

int rp_registration_run(struct rp_registration *registration, const struct rp_arg *args,
			size_t nargs, const struct rp_run_config *config,
			uint64_t *wall_ns_out)
{
	const uint64_t begin_ns = wall_ns_out ? rpi_now_ns() : 0;
	struct rpi_offer offer;
	int err;

	err = offer_call("rp_registration_run", registration, args, nargs, config,
			 &offer);
	return rpi_unlikely(err) ? err
				 : rpi_worker_run_known(registration->worker, &offer,
							begin_ns, wall_ns_out);
}

int rp_registration_submit(struct rp_registration *registration,
			   const struct rp_arg *args, size_t nargs,
			   const struct rp_run_config *config,
			   struct rp_handle *handle_out)
{
	struct rpi_offer offer;
	int err;

	if (rpi_unlikely(!handle_out))
		return rpi_fail(-EINVAL,
				"rp_registration_submit: handle_out NULL, expected one");
	err = offer_call("rp_registration_submit", registration, args, nargs, config,
			 &offer);
	return err ? err
		   : rpi_worker_submit_known(registration->worker, &offer, handle_out);
}

int rp_registration_record(struct rp_registration *registration,
			   const struct rp_arg *args, size_t nargs,
			   const struct rp_run_config *config,
			   struct rp_recording **recording_out)
{
	static const char call[] = "rp_registration_record";
	struct rpi_offer offer;
	int err;

	err = offer_call(call, registration, args, nargs, config, &offer);
	return err ? err
		   : rpi_worker_record(registration->worker, call, &offer, recording_out);
}

uint64_t rp_registration_assemble_ns(const struct rp_registration *registration)
{
	return registration ? registration->assemble_ns : 0;
}

int rp_registration_unregister(struct rp_registration *registration)
{
	if (!registration)
		return rpi_fail(
			-EINVAL,
			"rp_registration_unregister: registration NULL, expected one");
	atomic_store_explicit(&registration->open, 0, memory_order_release);
	return 0;
}

void rp_registration_free(struct rp_registration *registration)
{
	struct rp_chip_worker *owner;

	if (!registration)
		return;
	owner = registration->owner;
	if (owner) {
		pthread_mutex_lock(&owner->lock);
		*registration->link = registration->next;
		if (registration->next)
			registration->next->link = registration->link;
		pthread_mutex_unlock(&owner->lock);
	}
	free(registration);
}
