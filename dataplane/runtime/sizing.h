/* SPDX-License-Identifier: MIT */
/*
 * The twelve numbers that size a chip's rings: what is asked for, what is allowed, and
 * what is in force. Per ring and resource: the run's config, then the environment, then
 * the built-in default.
 */
#ifndef RPI_RUNTIME_SIZING_H
#define RPI_RUNTIME_SIZING_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/kernel.h>
#include <ringplane/worker.h>

enum rpi_resource {
	RPI_TASK_WINDOW = 0, /* slots */
	RPI_HEAP = 1,	     /* bytes */
	RPI_DEP_POOL = 2,    /* edges */
	RPI_RESOURCE_COUNT = 3,
};

/* 0: unset, wherever such a vector is not in force. */
struct rpi_sizing {
	uint64_t size[RPI_RESOURCE_COUNT][RP_RING_COUNT];
};

#define RPI_DEFAULT_TASK_WINDOW 16384u
#define RPI_DEFAULT_HEAP	((uint64_t)256 << 20)
#define RPI_DEFAULT_DEP_POOL	16384u

/* "ring_task_window": the field of the config, for error lines. */
const char *rpi_resource_name(enum rpi_resource resource);

/* The least size of the resource that holds `need`: what an error line advises. */
uint64_t rpi_resource_fit(enum rpi_resource resource, uint64_t need);

/* Check a config's three fields; `call` opens the error line. 0 or -EINVAL. */
int rpi_sizing_check(const char *call, const struct rp_run_config *config);

/* What a checked config asks for. NULL asks for nothing. */
void rpi_sizing_from_config(const struct rp_run_config *config, struct rpi_sizing *out);

/*
 * What the environment asks for: each variable one value, or four with commas, of which
 * an empty one or 0 is unset. Malformed: nothing is taken from that variable, and one
 * line goes to the log. `get` is getenv(), but in tests.
 */
void rpi_sizing_from_env(char *(*get)(const char *name), struct rpi_sizing *out);

/* First of asked, env, default; all sizes set. */
void rpi_sizing_resolve(const struct rpi_sizing *asked, const struct rpi_sizing *env,
			struct rpi_sizing *out);

bool rpi_sizing_equal(const struct rpi_sizing *a, const struct rpi_sizing *b);

#endif
