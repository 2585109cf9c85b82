/* SPDX-License-Identifier: MIT */
/*
 * The simulated chip: a CPU with private device memory. The memory is mapped in
 * the chip's process after the fork, so nobody else can reach it, and every
 * argument really is copied in and out. Its operations end before they return.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/testing.h"
#include "chip/backend.h"
#include "memory/copy.h"
#include "region/node.h"

#define HUGE_BYTES ((size_t)2 << 20)

/* Backed before the first task: what a small dispatch touches. */
#define PREFAULT_BYTES HUGE_BYTES

/* Where each chip's memory is asked for, as far as an address space has such places.
 * Forked from one parent, all chips would get the same address, and it would soon be
 * some host memory's too: like this an address tells whose it is. */
#define CHIP_BASE   ((uint64_t)1 << 45)
#define CHIP_STRIDE ((uint64_t)1 << 40)

struct rpi_device {
	uint8_t *base;	 /* of the mapping */
	size_t mapped;	 /* its bytes */
	uint8_t *memory; /* HUGE_BYTES-aligned, inside the mapping */
	size_t bytes;
};

static int sim_open(const struct rpi_device_config *config,
		    struct rpi_device **device_out)
{
	size_t bytes = (config->memory_bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	struct rpi_device *device;
	int err = rpi_test_point("sim.open");

	if (err)
		return rpi_fail(err, "sim: chip %u: opening the device failed",
				config->chip);
	device = calloc(1, sizeof(*device));
	if (!device)
		return rpi_fail(-ENOMEM, "sim: chip %u: no memory", config->chip);
	device->mapped = bytes + HUGE_BYTES;
	device->base = mmap((void *)(uintptr_t)(CHIP_BASE + config->chip * CHIP_STRIDE),
			    device->mapped, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (device->base == MAP_FAILED) {
		err = -errno;
		free(device);
		return rpi_fail(err, "sim: chip %u: device_memory_bytes %zu: %s",
				config->chip, config->memory_bytes, strerror(-err));
	}
	device->memory = (uint8_t *)(((uintptr_t)device->base + HUGE_BYTES - 1) &
				     ~(uintptr_t)(HUGE_BYTES - 1));
	device->bytes = bytes;
	/* Before the first touch. It works as well on another node. */
	rpi_node_prefer(device->base, device->mapped, config->node);
	/* A hint: without huge pages the memory works all the same. */
	madvise(device->memory, bytes,
		config->pages == RP_PAGES_NEVER ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	memset(device->memory, 0, bytes < PREFAULT_BYTES ? bytes : PREFAULT_BYTES);
	*device_out = device;
	return 0;
}

static void sim_close(struct rpi_device *device)
{
	munmap(device->base, device->mapped);
	free(device);
}

static void sim_argument_memory(struct rpi_device *device, rpi_device_addr *base_out,
				size_t *bytes_out)
{
	*base_out = (rpi_device_addr)(uintptr_t)device->memory;
	*bytes_out = device->bytes;
}

static int sim_register_host(struct rpi_device *device, void *base, size_t bytes)
{
	(void)device;
	(void)base;
	(void)bytes;
	return 0; /* all shared memory is as fast as any */
}

static int sim_copy_in(struct rpi_device *device, rpi_device_addr to, const void *from,
		       size_t bytes)
{
	(void)device;
	rpi_copy_stage((void *)(uintptr_t)to, from, bytes, bytes);
	return 0;
}

static int sim_copy_out(struct rpi_device *device, void *to, rpi_device_addr from,
			size_t bytes)
{
	(void)device;
	rpi_copy_stage(to, (const void *)(uintptr_t)from, bytes, bytes);
	return 0;
}

static int sim_stream_in(struct rpi_device *device, rpi_device_addr to, const void *from,
			 size_t bytes)
{
	(void)device;
	rpi_copy_around((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int sim_stream_out(struct rpi_device *device, void *to, rpi_device_addr from,
			  size_t bytes)
{
	(void)device;
	rpi_copy_around(to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

static int sim_zero(struct rpi_device *device, rpi_device_addr to, size_t bytes)
{
	(void)device;
	memset((void *)(uintptr_t)to, 0, bytes);
	return 0;
}

static int sim_launch(struct rpi_device *device, const struct rpi_launch *launch)
{
	(void)device;
	return launch->fn(launch->chip, launch->args, launch->nargs);
}

static const struct rpi_backend_ops sim_ops = {
	.name = "sim",
	.capabilities = RPI_CAP_ASYNC | RPI_CAP_UNIFIED | RPI_CAP_CPU_ADDRESS,
	.open = sim_open,
	.close = sim_close,
	.argument_memory = sim_argument_memory,
	.register_host = sim_register_host,
	.copy_in = sim_copy_in,
	.copy_out = sim_copy_out,
	.stream_in = sim_stream_in,
	.stream_out = sim_stream_out,
	.zero = sim_zero,
	.launch = sim_launch,
};

const struct rpi_backend_ops *rpi_backend_find(const char *name)
{
	if (!name || !strcmp(name, sim_ops.name))
		return &sim_ops;
	return NULL;
}
