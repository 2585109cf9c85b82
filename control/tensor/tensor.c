/* SPDX-License-Identifier: MIT */
/* Resident and stacked tensors: allocate, upload, free. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tensor/device.h"
#include "tensor/store.h"
#include "worker/worker.h"

static int check_chip(const struct rp_worker *worker, const char *call, uint32_t chip)
{
	if (chip < worker->plane.chip_count)
		return 0;
	return rpi_fail(-EINVAL, "%s: chip %u, expected 0..%u", call, chip,
			worker->plane.chip_count - 1);
}

/* The contiguous view that a new tensor is; also what checks dtype and shape. */
static int describe(const char *call, enum rp_dtype dtype, uint32_t rank,
		    const int64_t *shape, struct rp_tensor *out, size_t *bytes_out)
{
	/* Any address will do: nobody follows it. */
	static char anywhere[RP_DEVICE_ALIGN];
	int err;

	if (!shape)
		return rpi_fail(-EINVAL, "%s: shape NULL, expected %u dims", call, rank);
	err = rp_tensor_host(out, anywhere, dtype, rank, shape);
	return err ? err : rp_tensor_bytes(out, bytes_out);
}

static bool same_shape(const struct rp_tensor *a, const struct rp_tensor *b)
{
	return a->dtype == b->dtype && a->rank == b->rank &&
	       !memcmp(a->shape, b->shape, a->rank * sizeof(a->shape[0]));
}

static int check_init(const char *call, const struct rp_tensor *init,
		      const struct rp_tensor *want)
{
	if (init->resident)
		return rpi_fail(-EINVAL, "%s: init is resident, expected host memory",
				call);
	if (!init->data)
		return rpi_fail(-EINVAL, "%s: init has no data", call);
	if (!same_shape(init, want))
		return rpi_fail(-EINVAL,
				"%s: dtype or shape of init differ from the tensor's, "
				"expected equal ones",
				call);
	if (!rp_tensor_contiguous(init))
		return rpi_fail(-EINVAL,
				"%s: init is strided, expected a contiguous tensor",
				call);
	return 0;
}

static void free_block(struct rpi_store *store, const struct rpi_shard *shard)
{
	rpi_heap_free(&store->heaps[shard->chip], shard->block);
}

static void fill_entry(struct rpi_entry *entry, const struct rp_tensor *tensor,
		       uint64_t bytes)
{
	entry->dtype = tensor->dtype;
	entry->rank = tensor->rank;
	memcpy(entry->shape, tensor->shape, sizeof(entry->shape));
	entry->bytes = bytes;
}

static int new_tensor(struct rpi_store *store, const char *call, uint32_t chip,
		      size_t bytes, struct rp_tensor *tensor)
{
	struct rpi_entry *entry;
	struct rpi_block *block;
	uint32_t idx;
	int err;

	pthread_mutex_lock(&store->lock);
	err = rpi_heap_alloc(&store->heaps[chip], call, bytes, 0, &block);
	if (!err) {
		entry = rpi_store_new(store, call, &idx);
		if (entry) {
			fill_entry(entry, tensor, bytes);
			entry->one = (struct rpi_shard){ .chip = chip, .block = block };
			tensor->resident =
				rpi_store_publish(store, idx, RPI_ENTRY_TENSOR);
			tensor->data = NULL;
		} else {
			rpi_heap_free(&store->heaps[chip], block);
			err = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&store->lock);
	return err;
}

int rp_worker_alloc_tensor(struct rp_worker *worker, uint32_t chip, enum rp_dtype dtype,
			   uint32_t rank, const int64_t *shape,
			   const struct rp_tensor *init, struct rp_tensor *out)
{
	static const char call[] = "rp_worker_alloc_tensor";
	char text[RPI_ERROR_BYTES];
	struct rp_tensor tensor;
	size_t bytes;
	int err;

	err = rpi_device_check(worker, call);
	if (!err)
		err = check_chip(worker, call, chip);
	if (!err)
		err = describe(call, dtype, rank, shape, &tensor, &bytes);
	if (!err && init)
		err = check_init(call, init, &tensor);
	if (!err && !out)
		err = rpi_fail(-EINVAL, "%s: out NULL", call);
	if (!err)
		err = new_tensor(&worker->store, call, chip, bytes, &tensor);
	if (err || !init) {
		if (!err)
			*out = tensor;
		return err;
	}
	err = rpi_device_upload(worker, call, &tensor, init->data, bytes);
	if (err) {
		rpi_format(text, sizeof(text), "%s", rp_last_error());
		rp_worker_free_tensor(worker, &tensor);
		rpi_error_set(text);
		return err;
	}
	*out = tensor;
	return 0;
}

/* Freed before, under this very name: nothing to do. */
static int find_for_free(struct rpi_store *store, const char *call,
			 const struct rp_tensor *tensor, struct rpi_entry **entry_out,
			 enum rpi_entry_kind *kind_out)
{
	int err;

	err = rpi_store_find(store, call, tensor, entry_out, kind_out);
	if (err != -ESTALE || !*entry_out)
		return err;
	return rpi_store_freed_before(*entry_out, tensor) ? 0 : err;
}

static int do_free(struct rp_worker *worker, const char *call,
		   const struct rp_tensor *tensor, enum rpi_entry_kind kind)
{
	struct rpi_store *store;
	enum rpi_entry_kind found;
	struct rpi_entry *entry;
	int64_t i;
	int err;

	if (!worker || !tensor)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", call,
				worker ? "tensor" : "worker");
	store = &worker->store;
	pthread_mutex_lock(&store->lock);
	err = find_for_free(store, call, tensor, &entry, &found);
	if (!err && found != RPI_ENTRY_NONE && found != kind)
		err = rpi_fail(-EINVAL, "%s: a %s tensor, expected a %s one", call,
			       found == RPI_ENTRY_STACK ? "stacked" : "plain resident",
			       kind == RPI_ENTRY_STACK ? "stacked" : "plain resident");
	else if (!err && found != RPI_ENTRY_NONE && tensor->data)
		err = rpi_fail(-EINVAL, "%s: a part of a tensor, expected the whole",
			       call);
	if (!err && found == kind) {
		if (kind == RPI_ENTRY_TENSOR)
			free_block(store, &entry->one);
		for (i = 0; kind == RPI_ENTRY_STACK && i < entry->shape[0]; i++)
			free_block(store, &entry->shards[i]);
		rpi_store_drop(store, rpi_store_index(tensor));
	}
	pthread_mutex_unlock(&store->lock);
	return err;
}

int rp_worker_free_tensor(struct rp_worker *worker, const struct rp_tensor *tensor)
{
	return do_free(worker, "rp_worker_free_tensor", tensor, RPI_ENTRY_TENSOR);
}

int rp_worker_free_stacked(struct rp_worker *worker, const struct rp_tensor *stacked)
{
	return do_free(worker, "rp_worker_free_stacked", stacked, RPI_ENTRY_STACK);
}

static int check_chips(const struct rp_worker *worker, const char *call,
		       const struct rp_tensor *host, const uint32_t *chips,
		       size_t chip_count)
{
	uint64_t seen = 0;
	int64_t shards = host->shape[0];
	int64_t i;

	if (chips && chip_count != (uint64_t)shards)
		return rpi_fail(-EINVAL,
				"%s: chip_count %zu, expected %" PRId64 ", dim 0 of host",
				call, chip_count, shards);
	for (i = 0; i < shards; i++) {
		uint32_t chip = chips ? chips[i] : (uint32_t)i;

		if (i >= worker->plane.chip_count || chip >= worker->plane.chip_count)
			return rpi_fail(-EINVAL,
					"%s: shard %" PRId64 " goes to chip %u, expected "
					"0..%u",
					call, i, chip, worker->plane.chip_count - 1);
		if (seen & UINT64_C(1) << chip)
			return rpi_fail(-EINVAL, "%s: chip %u is named twice", call,
					chip);
		seen |= UINT64_C(1) << chip;
	}
	return 0;
}

static int check_stack(struct rp_worker *worker, const char *call,
		       const struct rp_tensor *host, const uint32_t *chips,
		       size_t chip_count, size_t *bytes_out)
{
	struct rp_tensor shape;
	int err;

	if (!host)
		return rpi_fail(-EINVAL, "%s: host NULL, expected a tensor", call);
	err = rpi_device_check(worker, call);
	if (!err && (host->rank < 2 || host->rank > RP_MAX_DIMS))
		err = rpi_fail(-EINVAL, "%s: host has rank %u, expected 2..%d", call,
			       host->rank, RP_MAX_DIMS);
	if (!err)
		err = describe(call, (enum rp_dtype)host->dtype, host->rank, host->shape,
			       &shape, bytes_out);
	if (!err)
		err = check_init(call, host, &shape);
	return err ? err : check_chips(worker, call, host, chips, chip_count);
}

/* All shards or none. */
static int alloc_shards(struct rpi_store *store, const char *call,
			const struct rp_tensor *host, const uint32_t *chips,
			uint64_t shard_bytes, struct rpi_shard *shards)
{
	int64_t i;
	int err = 0;

	for (i = 0; i < host->shape[0] && !err; i++) {
		shards[i].chip = chips ? chips[i] : (uint32_t)i;
		err = rpi_heap_alloc(&store->heaps[shards[i].chip], call, shard_bytes, 0,
				     &shards[i].block);
	}
	if (err)
		for (i -= 1; i-- > 0;)
			free_block(store, &shards[i]);
	return err;
}

static int new_stack(struct rpi_store *store, const char *call,
		     const struct rp_tensor *host, const uint32_t *chips,
		     uint64_t shard_bytes, struct rp_tensor *tensor)
{
	struct rpi_shard *shards = calloc((size_t)host->shape[0], sizeof(*shards));
	struct rpi_entry *entry;
	uint32_t idx;
	int64_t i;
	int err;

	if (!shards)
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	pthread_mutex_lock(&store->lock);
	err = alloc_shards(store, call, host, chips, shard_bytes, shards);
	entry = err ? NULL : rpi_store_new(store, call, &idx);
	if (entry) {
		fill_entry(entry, host, shard_bytes);
		entry->shards = shards;
		*tensor = *host;
		tensor->resident = rpi_store_publish(store, idx, RPI_ENTRY_STACK);
		tensor->data = NULL;
	} else if (!err) {
		for (i = 0; i < host->shape[0]; i++)
			free_block(store, &shards[i]);
		err = -ENOMEM;
	}
	pthread_mutex_unlock(&store->lock);
	if (err)
		free(shards);
	return err;
}

int rp_worker_alloc_stacked(struct rp_worker *worker, const struct rp_tensor *host,
			    const uint32_t *chips, size_t chip_count,
			    struct rp_tensor *out)
{
	static const char call[] = "rp_worker_alloc_stacked";
	char text[RPI_ERROR_BYTES];
	struct rp_tensor tensor;
	size_t bytes;
	int err;

	err = check_stack(worker, call, host, chips, chip_count, &bytes);
	if (!err && !out)
		err = rpi_fail(-EINVAL, "%s: out NULL", call);
	if (!err)
		err = new_stack(&worker->store, call, host, chips,
				bytes / (size_t)host->shape[0], &tensor);
	if (err)
		return err;
	err = rpi_device_shards(worker, call, &tensor, host->data, true);
	if (err) {
		rpi_format(text, sizeof(text), "%s", rp_last_error());
		rp_worker_free_stacked(worker, &tensor);
		rpi_error_set(text);
		return err;
	}
	*out = tensor;
	return 0;
}

int rp_worker_copy_stacked_from(struct rp_worker *worker, const struct rp_tensor *stacked,
				const struct rp_tensor *host)
{
	static const char call[] = "rp_worker_copy_stacked_from";
	enum rpi_entry_kind kind;
	struct rpi_entry *entry;
	struct rp_tensor whole;
	size_t bytes;
	int err;

	err = rpi_device_check(worker, call);
	if (err)
		return err;
	if (!stacked || !host)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected a tensor", call,
				stacked ? "host" : "stacked");
	err = rpi_store_find(&worker->store, call, stacked, &entry, &kind);
	if (err)
		return err;
	if (kind != RPI_ENTRY_STACK)
		return rpi_fail(-EINVAL,
				"%s: a plain resident tensor, expected a stacked one",
				call);
	err = describe(call, (enum rp_dtype)entry->dtype, entry->rank, entry->shape,
		       &whole, &bytes);
	if (!err)
		err = check_init(call, host, &whole);
	return err ? err : rpi_device_shards(worker, call, stacked, host->data, false);
}
