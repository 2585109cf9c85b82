/* SPDX-License-Identifier: MIT */
/* What plain and stacked tensors have in common. */
#ifndef RPI_TENSOR_TENSOR_H
#define RPI_TENSOR_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/tensor.h>

#include "tensor/store.h"

struct rp_worker;

/* The contiguous view that a new tensor is; also what checks dtype and shape. */
int rpi_tensor_describe(const char *call, enum rp_dtype dtype, uint32_t rank,
			const int64_t *shape, struct rp_tensor *out, size_t *bytes_out);

/* Host memory for a whole tensor, on the way up or down; `what` it is called. */
int rpi_tensor_check_host(const char *call, const char *what,
			  const struct rp_tensor *host, const struct rp_tensor *want);

/* A value that names what `like` describes; `chips` as in rpi_store_add(). */
int rpi_tensor_new(struct rp_worker *worker, const char *call,
		   const struct rp_tensor *like, size_t shard_bytes, uint32_t chip,
		   const uint32_t *chips, struct rp_tensor *out);

/* The upload failed: its error, which is returned, is what the caller hears. */
int rpi_tensor_roll_back(struct rp_worker *worker, const struct rp_tensor *tensor,
			 int err);

int rpi_tensor_free(struct rp_worker *worker, const char *call,
		    const struct rp_tensor *tensor, enum rpi_entry_kind kind);

#endif
