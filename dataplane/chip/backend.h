/* SPDX-License-Identifier: MIT */
/*
 * What stands behind a chip worker. A backend is opened in the chip's own process
 * after the fork; nothing of it exists in the parent. Operations are queued on
 * one in-order stream per chip: they may complete later, and `settle` waits until
 * all that was queued has. Callers ask for capabilities, never for a name.
 */
#ifndef RPI_CHIP_BACKEND_H
#define RPI_CHIP_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/chip.h>
#include <ringplane/memory.h>
#include <ringplane/program.h>

/* An address on the device. Only the backend knows whether a CPU can follow it. */
typedef uint64_t rpi_device_addr;

enum rpi_capability {
	RPI_CAP_ASYNC = 1u << 0,       /* a submit may return before the run ended */
	RPI_CAP_UNIFIED = 1u << 1,     /* entries can use shared host memory in place */
	RPI_CAP_CPU_ADDRESS = 1u << 2, /* device addresses are pointers in the chip */
	RPI_CAP_MEMORY_INFO = 1u << 3, /* free and total memory of the card */
};

struct rpi_device_config {
	uint32_t chip;
	size_t memory_bytes;
	enum rp_page_policy pages;
	int node; /* memory node of the CPU that the chip is pinned to; -1: any */
};

/* One kernel launch: an entry and its arguments, whose tensors carry device
 * addresses in `data`. */
struct rpi_launch {
	rp_entry_fn fn;
	struct rp_chip *chip;
	const struct rp_arg *args;
	size_t nargs;
};

struct rpi_device;

struct rpi_backend_ops {
	const char *name;
	uint32_t capabilities; /* enum rpi_capability */

	/* In the chip's process. 0, or a negative errno with an error line. */
	int (*open)(const struct rpi_device_config *config,
		    struct rpi_device **device_out);
	void (*close)(struct rpi_device *device);

	/* The block that arguments of tasks are placed in: `*bytes_out` bytes at
	 * `*base_out`, aligned to 1024; the backend's memory, until close. */
	void (*argument_memory)(struct rpi_device *device, rpi_device_addr *base_out,
				size_t *bytes_out);

	/* Memory that a backend has to know before copies of it are fast. */
	int (*register_host)(struct rpi_device *device, void *base, size_t bytes);

	/* Queue a copy or a fill with zero bytes. 0, or a negative errno. */
	int (*copy_in)(struct rpi_device *device, rpi_device_addr to, const void *from,
		       size_t bytes);
	int (*copy_out)(struct rpi_device *device, void *to, rpi_device_addr from,
			size_t bytes);
	/* The same, of a piece of more than the caches hold: nobody here reads the
	 * bytes soon. A backend without a difference names copy_in and copy_out. */
	int (*stream_in)(struct rpi_device *device, rpi_device_addr to, const void *from,
			 size_t bytes);
	int (*stream_out)(struct rpi_device *device, void *to, rpi_device_addr from,
			  size_t bytes);
	int (*zero)(struct rpi_device *device, rpi_device_addr to, size_t bytes);

	/* Queue a launch; its own outcome comes from settle, or from here where the
	 * backend runs it at once. */
	int (*launch)(struct rpi_device *device, const struct rpi_launch *launch);

	/* Until everything queued has ended: 0, or what it failed with. NULL for a
	 * backend whose operations have ended when they return. */
	int (*settle)(struct rpi_device *device);
};

/* By name; NULL is the default. NULL is returned when there is no such one. */
const struct rpi_backend_ops *rpi_backend_find(const char *name);

#endif
