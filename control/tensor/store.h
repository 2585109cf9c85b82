/* SPDX-License-Identifier: MIT */
/*
 * The device memory of a worker: one heap per chip, and the table of what lives in
 * them. A tensor is named by index and generation, stamped with its worker, so that a
 * stale name and another worker's are told apart. Owned by the worker; a mutex guards
 * changes, look-ups on the dispatch path take none.
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
	uint32_t chip;
	struct rpi_block *block;
};

struct rpi_entry {
	/* generation << 2 | enum rpi_entry_kind: release after a change, acquire before
	 * a look; looked at again after one. */
	_Atomic uint64_t word;
	uint32_t dtype;
	uint32_t rank;
	int64_t shape[RP_MAX_DIMS];
	uint64_t bytes;		  /* of the tensor, or of one shard */
	struct rpi_shard one;	  /* a tensor's */
	struct rpi_shard *shards; /* a stack's: shape[0] of them */
	uint32_t next_free;
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
	/* What others hold of a chip's memory: arenas of the chip runtime. */
	_Atomic uint64_t runtime_bytes[RP_MAX_PEERS];
};

/* Heaps come later, when the chips have said where they are. */
int rpi_store_init(struct rpi_store *store, uint64_t worker_id, uint32_t chip_count);
int rpi_store_open_heap(struct rpi_store *store, uint32_t chip, uint64_t base,
			uint64_t bytes);
void rpi_store_fini(struct rpi_store *store);

/* Under the lock: a new entry of this kind, to be filled and published; NULL with an
 * error line. */
struct rpi_entry *rpi_store_new(struct rpi_store *store, const char *call,
				uint32_t *idx_out);
uint64_t rpi_store_publish(struct rpi_store *store, uint32_t idx,
			   enum rpi_entry_kind kind);
void rpi_store_drop(struct rpi_store *store, uint32_t idx);

/* The live entry that a tensor names. -EINVAL host memory, -EXDEV, -ESTALE. */
int rpi_store_find(struct rpi_store *store, const char *call,
		   const struct rp_tensor *tensor, struct rpi_entry **entry_out,
		   enum rpi_entry_kind *kind_out);

/* Where in the table a tensor's name points. */
uint32_t rpi_store_index(const struct rp_tensor *tensor);

/* Whether the entry was freed under this tensor's name and is unused since. */
bool rpi_store_freed_before(const struct rpi_entry *entry,
			    const struct rp_tensor *tensor);

/* dispatch/resident.h: where a view lies. */
int rpi_store_resolve(void *context, const char *call, const struct rp_tensor *tensor,
		      struct rpi_resident *out);

/* True for an address that a raw pointer into some chip's memory would have. */
bool rpi_store_is_device_address(void *context, uint64_t address);

#endif
