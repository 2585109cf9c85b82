/* SPDX-License-Identifier: MIT */
/* Stacked tensors: shards on several chips, copied at the same time. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "staging/copier.h"
#include "tensor/device.h"
#include "tensor/tensor.h"
#include "worker/worker.h"

/* One shard's copy, for a thread of its own. */
struct shard_copy {
	struct rp_worker *worker;
	const char *call;
	uint32_t chip;
	uint64_t address;
	uint8_t *host;
	size_t bytes;
	bool up;
	int err;
	char text[RPI_ERROR_BYTES];
};

static void *copy_shard(void *arg)
{
	struct shard_copy *job = arg;

	job->err = rpi_device_copy(job->worker, job->call, job->chip, job->address,
				   job->host, job->bytes, job->up);
	if (job->err)
		rpi_format(job->text, sizeof(job->text), "%s", rp_last_error());
	return NULL;
}

/* Below this a thread costs more than it saves. */
#define SHARD_THREAD_BYTES ((size_t)256 << 10)

static int run_shards(struct shard_copy *copies, size_t count)
{
	pthread_t threads[RP_MAX_PEERS];
	bool started[RP_MAX_PEERS] = { false };
	bool apart = count > 1 && copies[0].bytes >= SHARD_THREAD_BYTES;
	sigset_t all;
	sigset_t old;
	size_t i;

	if (apart) {
		/* The host's signals are for its own threads. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		for (i = 1; i < count; i++)
			started[i] = !pthread_create(&threads[i], NULL, copy_shard,
						     &copies[i]);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	/* The caller's thread takes the first; without threads it takes them all. */
	for (i = 0; i < count; i++)
		if (!started[i])
			copy_shard(&copies[i]);
	for (i = 0; i < count; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
	for (i = 0; i < count; i++) {
		if (!copies[i].err)
			continue;
		rpi_error_set(copies[i].text);
		return copies[i].err;
	}
	return 0;
}

static int stack_like(struct rp_worker *worker, const char *call,
		      const struct rp_tensor *stacked, struct rp_tensor *like_out)
{
	struct rpi_store *store = &worker->store;
	struct rpi_entry *entry;
	int err;

	pthread_mutex_lock(&store->lock);
	err = rpi_store_find(store, call, stacked, RPI_ENTRY_STACK, &entry);
	if (!err) {
		memset(like_out, 0, sizeof(*like_out));
		like_out->dtype =
			atomic_load_explicit(&entry->dtype, memory_order_relaxed);
		like_out->rank = entry->rank;
		memcpy(like_out->shape, entry->shape, sizeof(entry->shape));
	}
	pthread_mutex_unlock(&store->lock);
	return err;
}

static int copy_shards(struct rp_worker *worker, const char *call,
		       const struct rp_tensor *stacked, const struct rp_tensor *host,
		       bool up)
{
	struct shard_copy copies[RP_MAX_PEERS];
	struct rpi_store *store = &worker->store;
	struct rpi_entry *entry;
	uint32_t count = 0;
	uint32_t i;
	int err;

	pthread_mutex_lock(&store->lock);
	err = rpi_store_find(store, call, stacked, RPI_ENTRY_STACK, &entry);
	if (!err)
		count = atomic_load_explicit(&entry->shard_count, memory_order_relaxed);
	/* Relaxed: the lock is held. */
	for (i = 0; i < count; i++) {
		const struct rpi_shard *shard = &entry->several[i];
		size_t bytes =
			(size_t)atomic_load_explicit(&entry->bytes, memory_order_relaxed);

		copies[i] = (struct shard_copy){
			.worker = worker,
			.call = call,
			.chip = atomic_load_explicit(&shard->chip, memory_order_relaxed),
			.address = atomic_load_explicit(&shard->address,
							memory_order_relaxed),
			.host = (uint8_t *)host->data + i * bytes,
			.bytes = bytes,
			.up = up,
		};
	}
	pthread_mutex_unlock(&store->lock);
	return err ? err : run_shards(copies, count);
}

static int check_chips(const struct rp_worker *worker, const char *call,
		       const struct rp_tensor *host, const uint32_t *chips,
		       size_t chip_count)
{
	const uint32_t have = worker->plane.chip_count;
	const int64_t shards = host->shape[0];
	uint64_t seen = 0;
	int64_t i;

	if (chips && chip_count != (uint64_t)shards)
		return rpi_fail(-EINVAL,
				"%s: chip_count %zu, expected %" PRId64 ", dim 0 of host",
				call, chip_count, shards);
	if (shards > have)
		return rpi_fail(-EINVAL,
				"%s: %" PRId64 " shards, dim 0 of host, expected at most "
				"one for each of %u chips",
				call, shards, have);
	for (i = 0; chips && i < shards; i++) {
		if (chips[i] >= have)
			return rpi_fail(-EINVAL,
					"%s: shard %" PRId64 " goes to chip %u, expected "
					"0..%u",
					call, i, chips[i], have - 1);
		if (seen & UINT64_C(1) << chips[i])
			return rpi_fail(-EINVAL, "%s: chip %u is named twice", call,
					chips[i]);
		seen |= UINT64_C(1) << chips[i];
	}
	return 0;
}

static int check_stack(struct rp_worker *worker, const char *call,
		       const struct rp_tensor *host, const uint32_t *chips,
		       size_t chip_count, struct rp_tensor *like_out, size_t *bytes_out)
{
	int err;

	err = rpi_device_check(worker, call);
	if (!err && !host)
		err = rpi_fail(-EINVAL, "%s: host NULL, expected a tensor", call);
	if (!err && (host->rank < 2 || host->rank > RP_MAX_DIMS))
		err = rpi_fail(-EINVAL, "%s: host has rank %u, expected 2..%d", call,
			       host->rank, RP_MAX_DIMS);
	if (!err)
		err = rpi_tensor_describe(call, (enum rp_dtype)host->dtype, host->rank,
					  host->shape, like_out, bytes_out);
	if (!err)
		err = rpi_tensor_check_host(call, "host", host, like_out);
	return err ? err : check_chips(worker, call, host, chips, chip_count);
}

int rp_worker_alloc_stacked(struct rp_worker *worker, const struct rp_tensor *host,
			    const uint32_t *chips, size_t chip_count,
			    struct rp_tensor *out)
{
	static const char call[] = "rp_worker_alloc_stacked";
	uint32_t in_order[RP_MAX_PEERS];
	struct rp_tensor tensor;
	struct rp_tensor like;
	size_t bytes;
	uint32_t i;
	int err;

	err = check_stack(worker, call, host, chips, chip_count, &like, &bytes);
	if (!err && !out)
		err = rpi_fail(-EINVAL, "%s: out NULL", call);
	if (err)
		return err;
	for (i = 0; i < RP_MAX_PEERS; i++)
		in_order[i] = i;
	err = rpi_tensor_new(worker, call, &like, bytes / (size_t)like.shape[0], 0,
			     chips ? chips : in_order, &tensor);
	if (err)
		return err;
	err = copy_shards(worker, call, &tensor, host, true);
	if (err)
		return rpi_tensor_roll_back(worker, &tensor, err);
	*out = tensor;
	return 0;
}

int rp_worker_free_stacked(struct rp_worker *worker, const struct rp_tensor *stacked)
{
	return rpi_tensor_free(worker, "rp_worker_free_stacked", stacked,
			       RPI_ENTRY_STACK);
}

int rp_worker_copy_stacked_from(struct rp_worker *worker, const struct rp_tensor *stacked,
				const struct rp_tensor *host)
{
	static const char call[] = "rp_worker_copy_stacked_from";
	struct rp_tensor whole;
	size_t bytes;
	int err;

	err = rpi_device_check(worker, call);
	if (!err && (!stacked || !host))
		err = rpi_fail(-EINVAL, "%s: %s NULL, expected a tensor", call,
			       stacked ? "host" : "stacked");
	if (!err)
		err = stack_like(worker, call, stacked, &whole);
	if (!err)
		err = rpi_tensor_check_host(call, "host", host, &whole);
	if (!err)
		err = rp_tensor_bytes(host, &bytes);
	if (!err)
		err = rpi_inherited_check_write(&worker->inherited, call, host->data,
						bytes);
	return err ? err : copy_shards(worker, call, stacked, host, false);
}
