/* SPDX-License-Identifier: MIT */
/* Resident tensors: allocate, upload, free. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tensor/device.h"
#include "tensor/tensor.h"
#include "worker/worker.h"

static int check_chip(const struct rp_worker *worker, const char *call, uint32_t chip)
{
	if (chip < worker->plane.chip_count)
		return 0;
	return rpi_fail(-EINVAL, "%s: chip %u, expected 0..%u", call, chip,
			worker->plane.chip_count - 1);
}

int rpi_tensor_describe(const char *call, enum rp_dtype dtype, uint32_t rank,
			const int64_t *shape, struct rp_tensor *out, size_t *bytes_out)
{
	/* Any address will do: nobody follows it. */
	static char anywhere[RP_DEVICE_ALIGN];
	char text[RPI_ERROR_BYTES];
	const char *what;
	int err;

	err = rp_tensor_host(out, anywhere, dtype, rank, shape);
	if (!err)
		return rp_tensor_bytes(out, bytes_out);
	/* The line is the caller's call's. */
	rpi_format(text, sizeof(text), "%s", rp_last_error());
	what = strchr(text, ':');
	return rpi_fail(err, "%s%s", call, what ? what : "");
}

static bool same_shape(const struct rp_tensor *a, const struct rp_tensor *b)
{
	return a->dtype == b->dtype && a->rank == b->rank &&
	       !memcmp(a->shape, b->shape, a->rank * sizeof(a->shape[0]));
}

int rpi_tensor_check_host(const char *call, const char *what,
			  const struct rp_tensor *host, const struct rp_tensor *want)
{
	if (host->resident)
		return rpi_fail(-EINVAL, "%s: %s is resident, expected host memory", call,
				what);
	if (!host->data)
		return rpi_fail(-EINVAL, "%s: %s has no data", call, what);
	if (!same_shape(host, want))
		return rpi_fail(-EINVAL,
				"%s: dtype or shape of %s differ from the tensor's, "
				"expected equal ones",
				call, what);
	if (!rp_tensor_contiguous(host))
		return rpi_fail(-EINVAL,
				"%s: %s is strided, expected a contiguous tensor", call,
				what);
	return 0;
}

int rpi_tensor_new(struct rp_worker *worker, const char *call,
		   const struct rp_tensor *like, size_t shard_bytes, uint32_t chip,
		   const uint32_t *chips, struct rp_tensor *out)
{
	struct rpi_store *store = &worker->store;
	uint64_t name = 0;
	int err;

	pthread_mutex_lock(&store->lock);
	err = rpi_store_add(store, call, like, shard_bytes, chip, chips, &name);
	pthread_mutex_unlock(&store->lock);
	if (err)
		return err;
	*out = *like;
	out->resident = name;
	out->data = NULL;
	return 0;
}

int rpi_tensor_free(struct rp_worker *worker, const char *call,
		    const struct rp_tensor *tensor, enum rpi_entry_kind kind)
{
	struct rpi_store *store;
	struct rpi_entry *entry;
	int err;

	if (!worker || !tensor)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", call,
				worker ? "tensor" : "worker");
	store = &worker->store;
	pthread_mutex_lock(&store->lock);
	if (rpi_store_freed_before(store, tensor->resident)) {
		pthread_mutex_unlock(&store->lock);
		return 0;
	}
	err = rpi_store_find(store, call, tensor, kind, &entry);
	if (!err)
		err = rpi_device_may_give(call);
	if (!err)
		rpi_store_drop(store, tensor->resident);
	pthread_mutex_unlock(&store->lock);
	return err;
}

int rpi_tensor_roll_back(struct rp_worker *worker, const struct rp_tensor *tensor,
			 int err)
{
	struct rpi_store *store = &worker->store;

	pthread_mutex_lock(&store->lock);
	rpi_store_drop(store, tensor->resident);
	pthread_mutex_unlock(&store->lock);
	return err;
}

static int upload(struct rp_worker *worker, const char *call,
		  const struct rp_tensor *tensor, void *host, size_t bytes)
{
	struct rpi_resident where;
	int err = rpi_store_resolve(&worker->store, call, tensor, &where);

	return err ? err
		   : rpi_device_copy(worker, call, where.chip, where.address, host, bytes,
				     true);
}

int rp_worker_alloc_tensor(struct rp_worker *worker, uint32_t chip, enum rp_dtype dtype,
			   uint32_t rank, const int64_t *shape,
			   const struct rp_tensor *init, struct rp_tensor *out)
{
	static const char call[] = "rp_worker_alloc_tensor";
	struct rp_tensor tensor;
	struct rp_tensor like;
	size_t bytes;
	int err;

	err = rpi_device_check(worker, call);
	if (!err)
		err = check_chip(worker, call, chip);
	if (!err)
		err = rpi_tensor_describe(call, dtype, rank, shape, &like, &bytes);
	if (!err && init)
		err = rpi_tensor_check_host(call, "init", init, &like);
	if (!err && !out)
		err = rpi_fail(-EINVAL, "%s: out NULL", call);
	if (!err)
		err = rpi_tensor_new(worker, call, &like, bytes, chip, NULL, &tensor);
	if (!err && init) {
		err = upload(worker, call, &tensor, init->data, bytes);
		if (err)
			err = rpi_tensor_roll_back(worker, &tensor, err);
	}
	if (err)
		return err;
	*out = tensor;
	return 0;
}

int rp_worker_free_tensor(struct rp_worker *worker, const struct rp_tensor *tensor)
{
	return rpi_tensor_free(worker, "rp_worker_free_tensor", tensor, RPI_ENTRY_TENSOR);
}
