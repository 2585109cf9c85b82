/* SPDX-License-Identifier: MIT */
#ifndef RPI_TENSOR_DEVICE_H
#define RPI_TENSOR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/device.h>

struct rp_worker;

/* Whether the worker can serve a device call: 0, -EINVAL (NULL), -ESHUTDOWN,
 * -EOWNERDEAD with an error line. */
int rpi_device_check(struct rp_worker *worker, const char *call);

/* One copy of checked ranges, up to the chip or down, with the chip's turn. */
int rpi_device_copy(struct rp_worker *worker, const char *call, uint32_t chip,
		    uint64_t device, void *host, size_t bytes, bool up);

/* The place where giving memory back could fail: before anything has changed. */
int rpi_device_may_give(const char *call);

#endif
