/* SPDX-License-Identifier: MIT */
#include "chipworker/chip_worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/device.h>

#include "base/clock.h"
#include "base/error.h"
#include "program/object.h"

void rp_chip_worker_options_init(struct rp_chip_worker_options *options)
{
	memset(options, 0, sizeof(*options));
	options->size = sizeof(*options);
}

static int check_options(const struct rp_chip_worker_options *options)
{
	const struct rp_worker_options *worker = options->worker;

	if (options->size != sizeof(*options))
		return rpi_fail(
			-EINVAL,
			"rp_chip_worker_open: options size %zu, expected %zu (use "
			"rp_chip_worker_options_init())",
			options->size, sizeof(*options));
	if (!worker)
		return 0;
	if (worker->chip_count > 1)
		return rpi_fail(-EINVAL, "rp_chip_worker_open: chip_count %u, expected 1",
				worker->chip_count);
	if (worker->callback_count || worker->callback_workers || worker->backend)
		return rpi_fail(-EINVAL,
				"rp_chip_worker_open: callback_count %zu, "
				"callback_workers %u, backend '%s', expected none",
				worker->callback_count, worker->callback_workers,
				worker->backend ? worker->backend : "");
	return 0;
}

int rp_chip_worker_open(const struct rp_chip_worker_options *options,
			struct rp_chip_worker **worker_out)
{
	struct rp_chip_worker_options defaults;
	struct rp_chip_worker *chip_worker;
	int err;

	if (!worker_out)
		return rpi_fail(-EINVAL, "rp_chip_worker_open: worker_out NULL");
	rp_chip_worker_options_init(&defaults);
	options = options ? options : &defaults;
	err = check_options(options);
	if (err)
		return err;
	chip_worker = calloc(1, sizeof(*chip_worker));
	if (!chip_worker)
		return rpi_fail(-ENOMEM, "rp_chip_worker_open: no memory");
	err = rpi_loader_create(options->platform, options->runtime,
				&chip_worker->loader);
	/* Before the fork: what is counted is there. */
	chip_worker->object_count = rpi_object_count();
	if (!err)
		err = rpi_worker_prepare(&chip_worker->loader, 1, options->worker,
					 RP_CHIP_WORKER_PROGRAMS, &chip_worker->worker);
	if (err) {
		rp_program_free(chip_worker->loader);
		free(chip_worker);
		return err;
	}
	pthread_mutex_init(&chip_worker->lock, NULL);
	*worker_out = chip_worker;
	return 0;
}

int rp_chip_worker_close(struct rp_chip_worker *chip_worker, int64_t timeout_ns)
{
	int status;

	if (!chip_worker)
		return rpi_fail(-EINVAL,
				"rp_chip_worker_close: worker NULL, expected one");
	status = rp_worker_close(chip_worker->worker, timeout_ns);
	/* Refused, it is as open as before. */
	if (status == -EINVAL || status == -EDEADLK)
		return status;
	atomic_store_explicit(&chip_worker->closed, 1, memory_order_release);
	rpi_registrations_close(chip_worker, false);
	return status;
}

void rp_chip_worker_free(struct rp_chip_worker *chip_worker)
{
	if (!chip_worker)
		return;
	rp_chip_worker_close(chip_worker, 0);
	rpi_current_forget(chip_worker);
	rpi_registrations_close(chip_worker, true);
	rp_worker_free(chip_worker->worker);
	rp_program_free(chip_worker->loader);
	pthread_mutex_destroy(&chip_worker->lock);
	free(chip_worker);
}

struct rp_worker *rp_chip_worker_base(struct rp_chip_worker *chip_worker)
{
	return chip_worker ? chip_worker->worker : NULL;
}

static int check_worker(const struct rp_chip_worker *chip_worker, const char *call)
{
	return chip_worker ? 0 : rpi_fail(-EINVAL, "%s: worker NULL, expected one", call);
}

int rp_chip_worker_alloc_tensor(struct rp_chip_worker *chip_worker, enum rp_dtype dtype,
				uint32_t rank, const int64_t *shape,
				const struct rp_tensor *init, struct rp_tensor *out)
{
	int err = check_worker(chip_worker, "rp_chip_worker_alloc_tensor");

	return err ? err
		   : rp_worker_alloc_tensor(chip_worker->worker, 0, dtype, rank, shape,
					    init, out);
}

int rp_chip_worker_free_tensor(struct rp_chip_worker *chip_worker,
			       const struct rp_tensor *tensor)
{
	int err = check_worker(chip_worker, "rp_chip_worker_free_tensor");

	return err ? err : rp_worker_free_tensor(chip_worker->worker, tensor);
}

/* Where all of a tensor lies. */
static int locate(struct rp_chip_worker *chip_worker, const char *call,
		  const struct rp_tensor *tensor, uint64_t *address_out,
		  size_t *bytes_out)
{
	uint32_t chip;
	int err;

	err = check_worker(chip_worker, call);
	if (!err && !tensor)
		err = rpi_fail(-EINVAL, "%s: tensor NULL, expected one", call);
	if (!err)
		err = rp_worker_tensor_address(chip_worker->worker, tensor, &chip,
					       address_out);
	return err ? err : rp_tensor_bytes(tensor, bytes_out);
}

int rp_chip_worker_copy_to(struct rp_chip_worker *chip_worker,
			   const struct rp_tensor *tensor, const void *src)
{
	uint64_t address;
	size_t bytes;
	int err;

	err = locate(chip_worker, "rp_chip_worker_copy_to", tensor, &address, &bytes);
	return err ? err
		   : rp_worker_copy_to(chip_worker->worker, 0, address, 0, src, 0, bytes);
}

int rp_chip_worker_copy_from(struct rp_chip_worker *chip_worker,
			     const struct rp_tensor *tensor, void *dst)
{
	uint64_t address;
	size_t bytes;
	int err;

	err = locate(chip_worker, "rp_chip_worker_copy_from", tensor, &address, &bytes);
	return err ? err
		   : rp_worker_copy_from(chip_worker->worker, 0, address, 0, dst, 0,
					 bytes);
}

int rp_chip_worker_run(struct rp_chip_worker *chip_worker, struct rp_program *program,
		       const struct rp_arg *args, size_t nargs,
		       const struct rp_run_config *config, uint64_t *wall_ns_out)
{
	static const char call[] = "rp_chip_worker_run";
	const uint64_t begin_ns = wall_ns_out ? rpi_now_ns() : 0;
	const struct rpi_resident_program *found;
	struct rpi_offer offer;
	int err;

	err = check_worker(chip_worker, call);
	if (!err && !program)
		err = rpi_fail(-EINVAL, "%s: program NULL, expected one", call);
	if (!err)
		err = rpi_chip_worker_find(chip_worker, call, program, &found);
	if (err)
		return err;
	offer = (struct rpi_offer){ .program = program,
				    .program_idx = found->idx,
				    .args = args,
				    .nargs = nargs,
				    .config = config ? config : program->config };
	return rpi_worker_run_known(chip_worker->worker, &offer, begin_ns, wall_ns_out);
}
