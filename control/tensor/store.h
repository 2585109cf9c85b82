/* SPDX-License-Identifier: MIT */
/*
 * The device memory of a worker: one heap per chip, and the table of what lives in
 * them. A tensor is named by index and generation, stamped with its worker, so that a
 * stale name and another worker's are told apart; no name is given out twice. Owned by
 * the worker; a mutex guards changes, look-ups on the dispatch path take none.
 */
#ifndef RPI_TENSOR_STORE_H
#define RPI_TENSOR_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ringplane/device.h>
#include <ringplane/worker.h>

#include "dispatch/resident.h"
#include "tensor/heap.h"

enum rpi_entry_kind {
	RPI_ENTRY_NONE = 0,
	RPI_ENTRY_TENSOR = 1,
	RPI_ENTRY_STACK = 2,
};

struct rpi_shard {
	_Atomic uint32_t chip;
	_Atomic uint64_t address;
	struct rpi_block *block; /* under the lock */
};

struct rpi_entry {
	_Atomic uint64_t word; /* generation << 2 | enum rpi_entry_kind */
	_Atomic uint32_t dtype;
	_Atomic uint32_t shard_count;
	_Atomic uint64_t bytes; /* of each shard */

	/* Under the lock. */
	bool stack; /* what it is, or was last */
	uint32_t rank;
	uint32_t next_free; /* index + 1, 0 none */
	int64_t shape[RP_MAX_DIMS];

	struct rpi_shard one; /* a tensor's */
	/* A stack's, as many as there are chips; stays with the entry, so that a look
	 * that comes late meets no freed memory. */
	struct rpi_shard *several;
};

#define RPI_SEGMENT_ENTRIES 1024u
#define RPI_SEGMENTS	    1024u

struct rpi_store {
	pthread_mutex_t lock;
	uint32_t stamp; /* of the worker, 24 bits, not 0 */
	uint32_t chip_count;
	struct rpi_heap heaps[RP_MAX_PEERS];
	/* Segments never move; made when the table grows. */
	_Atomic(struct rpi_entry *) segments[RPI_SEGMENTS];
	uint32_t entry_count;
	uint32_t first_free; /* index + 1, 0 none */
};

/* Heaps come later, when the chips have said where they are. */
int rpi_store_init(struct rpi_store *store, uint64_t worker_id, uint32_t chip_count);
/* -EPROTO when a chip says what can't be. */
int rpi_store_open_heap(struct rpi_store *store, uint32_t chip, uint64_t base,
			uint64_t bytes);
void rpi_store_fini(struct rpi_store *store);

/*
 * Under the lock. A new tensor (chips NULL, on `chip`), or a stack with its shard i on
 * chips[i]; `like` has dtype and shape of the whole. All memory or none, and then its
 * name, or a negative errno with an error line.
 */
int rpi_store_add(struct rpi_store *store, const char *call, const struct rp_tensor *like,
		  uint64_t shard_bytes, uint32_t chip, const uint32_t *chips,
		  uint64_t *name_out);

/* Under the lock: give back the memory of a live entry; its name is stale from now
 * on. */
void rpi_store_drop(struct rpi_store *store, uint64_t name);

/*
 * Under the lock: the live entry of this kind whose whole the tensor names. 0; -EINVAL
 * host memory, the other kind, or a part; -EXDEV; -ESTALE.
 */
int rpi_store_find(struct rpi_store *store, const char *call,
		   const struct rp_tensor *tensor, enum rpi_entry_kind kind,
		   struct rpi_entry **entry_out);

/* Under the lock: whether this name was freed, and nothing has taken its index or the
 * start of its memory since. */
bool rpi_store_freed_before(struct rpi_store *store, uint64_t name);

/* dispatch/resident.h: where a view lies that has been checked and spans `bytes`. No
 * lock. */
int rpi_store_locate(void *context, const char *call, const struct rp_tensor *tensor,
		     uint64_t bytes, struct rpi_resident *out);

/* The same for any tensor. */
int rpi_store_resolve(struct rpi_store *store, const char *call,
		      const struct rp_tensor *tensor, struct rpi_resident *out);

/* The chip in whose memory an address lies, or RP_MAX_PEERS. */
uint32_t rpi_store_chip_of(const struct rpi_store *store, uint64_t address);

/* True for an address that a raw pointer into some chip's memory would have. */
bool rpi_store_is_device_address(void *context, uint64_t address);

#endif
