/* SPDX-License-Identifier: MIT */
#ifndef RPI_TENSOR_DEVICE_H
#define RPI_TENSOR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <ringplane/device.h>

struct rp_worker;

/* Whether the worker can serve a device call: 0, -EINVAL (NULL), -ESHUTDOWN,
 * -EOWNERDEAD with an error line. */
int rpi_device_check(struct rp_worker *worker, const char *call);

/* Host bytes into a whole resident tensor. */
int rpi_device_upload(struct rp_worker *worker, const char *call,
		      const struct rp_tensor *tensor, const void *host, size_t bytes);

/* Every shard of a stacked tensor, up or down, all chips at once. */
int rpi_device_shards(struct rp_worker *worker, const char *call,
		      const struct rp_tensor *stacked, void *host, bool up);

#endif
