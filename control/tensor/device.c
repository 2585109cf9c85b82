/* SPDX-License-Identifier: MIT */
/* Raw device memory, and copies between it and the host. */
#include "tensor/device.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/testing.h"
#include "staging/copier.h"
#include "tensor/store.h"
#include "worker/worker.h"

/* The owner mark of a raw block; tensors' blocks have 0. */
#define RAW 1u

int rpi_device_check(struct rp_worker *worker, const char *call)
{
	if (!worker)
		return rpi_fail(-EINVAL, "%s: worker NULL, expected one", call);
	if (atomic_load_explicit(&worker->plane.closing, memory_order_acquire))
		return rpi_fail(-ESHUTDOWN, "%s: the worker is closed or being closed",
				call);
	if (atomic_load_explicit(&worker->plane.fall, memory_order_acquire) !=
	    RPI_FALL_NONE)
		return rpi_fail(-EOWNERDEAD, "%s", worker->plane.fall_text);
	/* A copy waits for the tasks before it, which may follow one held back. */
	rpi_plane_flush_own(&worker->plane);
	return 0;
}

static int check_chip(const struct rp_worker *worker, const char *call, uint32_t chip)
{
	if (chip < worker->plane.chip_count)
		return 0;
	return rpi_fail(-EINVAL, "%s: chip %u, expected 0..%u", call, chip,
			worker->plane.chip_count - 1);
}

static int check(struct rp_worker *worker, const char *call, uint32_t chip)
{
	int err = rpi_device_check(worker, call);

	return err ? err : check_chip(worker, call, chip);
}

int rp_worker_device_alloc(struct rp_worker *worker, uint32_t chip, size_t bytes,
			   uint64_t *address_out)
{
	static const char call[] = "rp_worker_device_alloc";
	struct rpi_block *block;
	int err = check(worker, call, chip);

	if (!err && !address_out)
		err = rpi_fail(-EINVAL, "%s: address_out NULL", call);
	if (err)
		return err;
	pthread_mutex_lock(&worker->store.lock);
	err = rpi_heap_alloc(&worker->store.heaps[chip], call, bytes, RAW, &block);
	if (!err)
		*address_out = block->address;
	pthread_mutex_unlock(&worker->store.lock);
	return err;
}

int rp_worker_device_free(struct rp_worker *worker, uint32_t chip, uint64_t address)
{
	static const char call[] = "rp_worker_device_free";
	struct rpi_block *block;
	int err;

	/* As for tensors: also when the worker is closed, or its chips are dead. */
	if (!worker)
		return rpi_fail(-EINVAL, "%s: worker NULL, expected one", call);
	err = check_chip(worker, call, chip);
	if (err)
		return err;
	pthread_mutex_lock(&worker->store.lock);
	block = rpi_heap_find(&worker->store.heaps[chip], address);
	if (!block || block->owner != RAW)
		err = rpi_fail(-EINVAL,
			       "%s: %#" PRIx64
			       " on chip %u, expected the start of a live "
			       "block of rp_worker_device_alloc()%s",
			       call, address, chip,
			       block ? " (it is a tensor: rp_worker_free_tensor())" : "");
	if (!err)
		err = rpi_device_may_give(call);
	if (!err)
		rpi_heap_free(&worker->store.heaps[chip], block);
	pthread_mutex_unlock(&worker->store.lock);
	return err;
}

int rpi_device_may_give(const char *call)
{
	int err = rpi_test_point("device.give");

	return err ? rpi_fail(err, "%s: giving the memory back failed", call) : 0;
}

int rp_worker_tensor_address(struct rp_worker *worker, const struct rp_tensor *tensor,
			     uint32_t *chip_out, uint64_t *address_out)
{
	static const char call[] = "rp_worker_tensor_address";
	struct rpi_resident where;
	int err = rpi_device_check(worker, call);

	if (!err && (!tensor || !chip_out || !address_out))
		err = rpi_fail(-EINVAL, "%s: an argument is NULL", call);
	if (!err)
		err = rpi_store_resolve(&worker->store, call, tensor, &where);
	if (!err && where.chip == RPI_CHIP_SEVERAL)
		err = rpi_fail(-EINVAL,
			       "%s: a stacked tensor lies on several chips, expected a "
			       "shard of it (rp_tensor_index())",
			       call);
	if (err)
		return err;
	*chip_out = where.chip;
	*address_out = where.address;
	return 0;
}

/* Why no allocation starts at an address. Under the lock. */
static int fail_address(const struct rpi_store *store, const char *call, uint32_t chip,
			uint64_t address)
{
	struct rpi_block *holding = rpi_heap_holding(&store->heaps[chip], address);
	uint32_t other = rpi_store_chip_of(store, address);

	if (holding)
		return rpi_fail(
			-EINVAL,
			"%s: address %#" PRIx64 " lies inside the allocation at %#" PRIx64
			", expected its start and an offset of %" PRIu64,
			call, address, holding->address, address - holding->address);
	if (other != chip && other != RP_MAX_PEERS)
		return rpi_fail(-EINVAL,
				"%s: address %#" PRIx64
				" is chip %u's, expected one of chip %u",
				call, address, other, chip);
	return rpi_fail(-EINVAL,
			"%s: address %#" PRIx64
			" on chip %u, expected the start of a live allocation",
			call, address, chip);
}

/* The device side of a copy: the allocation, and what was asked for it. */
static int check_device_range(struct rp_worker *worker, const char *call, uint32_t chip,
			      uint64_t address, size_t offset, size_t bytes)
{
	struct rpi_store *store = &worker->store;
	struct rpi_block *block;
	uint64_t have = 0;
	int err = 0;

	pthread_mutex_lock(&store->lock);
	block = rpi_heap_find(&store->heaps[chip], address);
	if (block)
		have = block->asked;
	else
		err = fail_address(store, call, chip, address);
	pthread_mutex_unlock(&store->lock);
	/* Two comparisons, because offset + bytes may wrap. */
	if (!err && (offset > have || bytes > have - offset))
		err = rpi_fail(
			-ERANGE,
			"%s: offset %zu + %zu bytes, the allocation holds %" PRIu64, call,
			offset, bytes, have);
	return err;
}

static int check_host_range(const char *call, const void *host, size_t offset,
			    size_t bytes)
{
	uintptr_t at = (uintptr_t)host;

	if (!bytes)
		return rpi_fail(-EINVAL, "%s: bytes 0, expected at least 1", call);
	if (!host)
		return rpi_fail(-EINVAL, "%s: host memory NULL, expected some", call);
	if (offset > UINTPTR_MAX - at || bytes > UINTPTR_MAX - at - offset)
		return rpi_fail(-ERANGE,
				"%s: %p + offset %zu + %zu bytes is past the end of the "
				"address space",
				call, host, offset, bytes);
	return 0;
}

/* Whether the processes see this host memory, so that it is named and not staged. What
 * rides in the command need not be seen. */
static bool is_named(struct rp_worker *worker, const void *host, size_t bytes)
{
	return bytes > RPI_COMMAND_INLINE &&
	       (rpi_inherited_names(&worker->inherited, host, bytes) ||
		rpi_shared_map_covers(&worker->shared, host, bytes) ||
		!rpi_shared_map_learn(&worker->shared, host, bytes));
}

/* Back the chip's chunks before the first copy that goes through them: an error here
 * is a code, one at the first touch would be a signal. The turn is the caller's. */
static int back_chunks(struct rp_worker *worker, struct rpi_copier *copier)
{
	const size_t each = RPI_STAGING_CHUNKS * RPI_STAGING_CHUNK_BYTES;
	int err;

	if (copier->backed)
		return 0;
	err = rpi_region_populate(&worker->chunks, copier->peer_idx * each, each);
	copier->backed = !err;
	return err;
}

int rpi_device_copy(struct rp_worker *worker, const char *call, uint32_t chip,
		    uint64_t device, void *host, size_t bytes, bool up)
{
	struct rpi_copier *copier = &worker->copiers[chip];
	bool named = is_named(worker, host, bytes);
	int err = rpi_copier_enter(copier, call);

	if (err)
		return err;
	if (!named && bytes > RPI_COMMAND_INLINE)
		err = back_chunks(worker, copier);
	if (!err)
		err = up ? rpi_copier_in(copier, device, host, bytes, named)
			 : rpi_copier_out(copier, host, device, bytes, named);
	rpi_copier_leave(copier);
	return err;
}

int rp_worker_copy_to(struct rp_worker *worker, uint32_t chip, uint64_t address,
		      size_t dst_offset, const void *src, size_t src_offset, size_t bytes)
{
	static const char call[] = "rp_worker_copy_to";
	int err = check(worker, call, chip);

	if (!err)
		err = check_host_range(call, src, src_offset, bytes);
	if (!err)
		err = check_device_range(worker, call, chip, address, dst_offset, bytes);
	if (err)
		return err;
	/* Not written through in this direction. */
	return rpi_device_copy(worker, call, chip, address + dst_offset,
			       (uint8_t *)(uintptr_t)src + src_offset, bytes, true);
}

int rp_worker_copy_from(struct rp_worker *worker, uint32_t chip, uint64_t address,
			size_t src_offset, void *dst, size_t dst_offset, size_t bytes)
{
	static const char call[] = "rp_worker_copy_from";
	int err = check(worker, call, chip);
	uint8_t *to;

	if (!err)
		err = check_host_range(call, dst, dst_offset, bytes);
	if (!err)
		err = check_device_range(worker, call, chip, address, src_offset, bytes);
	if (err)
		return err;
	to = (uint8_t *)dst + dst_offset;
	err = rpi_inherited_check_write(&worker->inherited, call, to, bytes);
	if (err)
		return err;
	return rpi_device_copy(worker, call, chip, address + src_offset, to, bytes,
			       false);
}

/* Take the turns of several chips in one order, so that no two threads wait for each
 * other. */
static int enter_all(struct rp_worker *worker, const char *call, uint64_t chips)
{
	uint64_t left = chips;
	uint64_t taken = 0;
	int err = 0;

	while (left && !err) {
		uint32_t chip = (uint32_t)__builtin_ctzll(left);

		left &= left - 1;
		err = rpi_copier_enter(&worker->copiers[chip], call);
		if (!err)
			taken |= UINT64_C(1) << chip;
	}
	while (err && taken) {
		uint32_t chip = (uint32_t)__builtin_ctzll(taken);

		taken &= taken - 1;
		rpi_copier_leave(&worker->copiers[chip]);
	}
	return err;
}

static void leave_all(struct rp_worker *worker, uint64_t chips)
{
	while (chips) {
		uint32_t chip = (uint32_t)__builtin_ctzll(chips);

		chips &= chips - 1;
		rpi_copier_leave(&worker->copiers[chip]);
	}
}

int rp_worker_copy_to_all(struct rp_worker *worker, const uint32_t *chips,
			  const uint64_t *addresses, size_t count, size_t dst_offset,
			  const void *src, size_t bytes)
{
	static const char call[] = "rp_worker_copy_to_all";
	struct rpi_copier *copiers[RP_MAX_PEERS];
	uint64_t devices[RP_MAX_PEERS];
	uint64_t set = 0;
	bool named;
	size_t i;
	int err = rpi_device_check(worker, call);

	if (!err && (!chips || !addresses || !count || count > worker->plane.chip_count))
		err = rpi_fail(-EINVAL,
			       "%s: %zu chips, expected 1..%u, and their addresses", call,
			       count, worker->plane.chip_count);
	if (!err)
		err = check_host_range(call, src, 0, bytes);
	for (i = 0; i < count && !err; i++) {
		err = check(worker, call, chips[i]);
		if (!err && (set & UINT64_C(1) << chips[i]))
			err = rpi_fail(-EINVAL, "%s: chip %u is named twice", call,
				       chips[i]);
		if (err)
			break;
		err = check_device_range(worker, call, chips[i], addresses[i], dst_offset,
					 bytes);
		set |= UINT64_C(1) << chips[i];
		copiers[i] = &worker->copiers[chips[i]];
		devices[i] = addresses[i] + dst_offset;
	}
	if (!err)
		err = enter_all(worker, call, set);
	if (err)
		return err;
	named = is_named(worker, src, bytes);
	if (!named && bytes > RPI_COMMAND_INLINE)
		err = back_chunks(worker, copiers[0]);
	if (!err)
		err = rpi_copier_in_all(copiers, devices, count, src, bytes, named);
	leave_all(worker, set);
	return err;
}

int rp_worker_committed_device_memory(struct rp_worker *worker, uint32_t chip,
				      uint64_t *bytes_out)
{
	static const char call[] = "rp_worker_committed_device_memory";
	int err = check(worker, call, chip);

	if (!err && !bytes_out)
		err = rpi_fail(-EINVAL, "%s: bytes_out NULL", call);
	if (err)
		return err;
	pthread_mutex_lock(&worker->store.lock);
	*bytes_out = worker->store.heaps[chip].committed;
	pthread_mutex_unlock(&worker->store.lock);
	*bytes_out += atomic_load_explicit(&worker->plane.peers[chip].counts.arena_bytes,
					   memory_order_relaxed);
	return 0;
}

int rp_worker_device_memory_info(struct rp_worker *worker, uint32_t chip,
				 uint64_t *free_out, uint64_t *total_out)
{
	static const char call[] = "rp_worker_device_memory_info";
	int err = check(worker, call, chip);

	if (!err && (!free_out || !total_out))
		err = rpi_fail(-EINVAL, "%s: free_out or total_out NULL", call);
	if (err)
		return err;
	/* A backend that knows will be asked through a command. None does yet. */
	return rpi_fail(-EOPNOTSUPP,
			"%s: backend '%s' has no card whose memory could be asked for",
			call, worker->backend->name);
}
