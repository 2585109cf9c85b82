/* SPDX-License-Identifier: MIT */
#include "runtime/sizing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "trace/capture.h"

/* Heaps together: well inside what a process can map. */
#define HEAPS_MAX ((uint64_t)1 << 46)

static const struct {
	const char *field;
	const char *variable;
	const char *rule;
	uint64_t least, most;
	bool power;
	uint64_t built_in;
} resources[RPI_RESOURCE_COUNT] = {
	[RPI_TASK_WINDOW] = { "ring_task_window", "PTO2_RING_TASK_WINDOW",
			      "a power of 2 >= 4 and <= INT32_MAX", 4, INT32_MAX, true,
			      RPI_DEFAULT_TASK_WINDOW },
	[RPI_HEAP] = { "ring_heap", "PTO2_RING_HEAP",
		       "a power of 2 >= 1024 (bytes per ring)", 1024, HEAPS_MAX, true,
		       RPI_DEFAULT_HEAP },
	[RPI_DEP_POOL] = { "ring_dep_pool", "PTO2_RING_DEP_POOL", "in [4, INT32_MAX]", 4,
			   INT32_MAX, false, RPI_DEFAULT_DEP_POOL },
};

const char *rpi_resource_name(enum rpi_resource resource)
{
	return resources[resource].field;
}

static bool valid(enum rpi_resource resource, uint64_t value)
{
	if (value < resources[resource].least || value > resources[resource].most)
		return false;
	return !resources[resource].power || !(value & (value - 1));
}

uint64_t rpi_resource_fit(enum rpi_resource resource, uint64_t need)
{
	uint64_t size = resources[resource].least;

	if (!resources[resource].power)
		return need > size ? need : size;
	while (size < need && size < UINT64_MAX / 2)
		size *= 2;
	return size;
}

/* The field of a config that asks for a resource. */
static const struct rp_ring_sizes *field(const struct rp_run_config *config,
					 enum rpi_resource resource)
{
	switch (resource) {
	case RPI_TASK_WINDOW:
		return &config->ring_task_window;
	case RPI_HEAP:
		return &config->ring_heap;
	default:
		return &config->ring_dep_pool;
	}
}

static int check_field(const char *call, enum rpi_resource resource,
		       const struct rp_ring_sizes *sizes)
{
	const char *name = resources[resource].field;
	uint32_t ring;

	if (sizes->all && !valid(resource, sizes->all))
		return rpi_fail(-EINVAL, "%s: %s must be %s, got %" PRIu64, call, name,
				resources[resource].rule, sizes->all);
	for (ring = 0; ring < RP_RING_COUNT; ring++) {
		uint64_t value = sizes->ring[ring];

		if (value && !valid(resource, value))
			return rpi_fail(-EINVAL, "%s: %s[%u] must be %s, got %" PRIu64,
					call, name, ring, resources[resource].rule,
					value);
	}
	return 0;
}

int rpi_sizing_check(const char *call, const struct rp_run_config *config)
{
	struct rpi_sizing asked;
	uint64_t heaps = 0;
	uint32_t i;
	int err;

	for (i = 0; i < RPI_RESOURCE_COUNT; i++) {
		err = check_field(call, (enum rpi_resource)i,
				  field(config, (enum rpi_resource)i));
		if (err)
			return err;
	}
	rpi_sizing_from_config(config, &asked);
	/* No sum of four wraps: each is HEAPS_MAX at most. */
	for (i = 0; i < RP_RING_COUNT; i++)
		heaps += asked.size[RPI_HEAP][i];
	if (heaps > HEAPS_MAX)
		return rpi_fail(-EINVAL,
				"%s: ring_heap adds up to %" PRIu64
				" bytes, expected at most %" PRIu64,
				call, heaps, HEAPS_MAX);
	return 0;
}

int rp_run_config_check(const struct rp_run_config *config)
{
	static const char call[] = "rp_run_config_check";
	int err;

	if (!config)
		return rpi_fail(-EINVAL, "%s: config NULL", call);
	if (config->size != sizeof(*config))
		return rpi_fail(-EINVAL,
				"%s: config size %zu, expected %zu (use "
				"rp_run_config_init())",
				call, config->size, sizeof(*config));
	err = rpi_sizing_check(call, config);
	return err ? err : rpi_capture_check(call, &config->capture);
}

void rpi_sizing_from_config(const struct rp_run_config *config, struct rpi_sizing *out)
{
	uint32_t i, ring;

	memset(out, 0, sizeof(*out));
	if (!config)
		return;
	for (i = 0; i < RPI_RESOURCE_COUNT; i++) {
		const struct rp_ring_sizes *sizes = field(config, (enum rpi_resource)i);

		for (ring = 0; ring < RP_RING_COUNT; ring++)
			out->size[i][ring] = sizes->ring[ring] ? sizes->ring[ring]
							       : sizes->all;
	}
}

/* One number and the character that ends it; false for anything else. */
static bool read_number(const char **at, uint64_t *value_out)
{
	const char *c = *at;
	uint64_t value = 0;

	while (*c == ' ')
		c++;
	while (*c >= '0' && *c <= '9') {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
			return false;
		c++;
	}
	while (*c == ' ')
		c++;
	if (*c && *c != ',')
		return false;
	*at = c;
	*value_out = value;
	return true;
}

static bool read_sizes(enum rpi_resource resource, const char *text,
		       uint64_t out[RP_RING_COUNT])
{
	uint64_t value[RP_RING_COUNT];
	uint32_t count = 0, ring;

	for (;;) {
		if (count == RP_RING_COUNT || !read_number(&text, &value[count]))
			return false;
		if (value[count] && !valid(resource, value[count]))
			return false;
		count++;
		if (!*text)
			break;
		text++;
	}
	if (count == 1 ? !value[0] : count != RP_RING_COUNT)
		return false;
	for (ring = 0; ring < RP_RING_COUNT; ring++)
		out[ring] = value[count == 1 ? 0 : ring];
	return true;
}

void rpi_sizing_from_env(char *(*get)(const char *name), struct rpi_sizing *out)
{
	uint32_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < RPI_RESOURCE_COUNT; i++) {
		const char *text = get(resources[i].variable);

		if (!text || !*text)
			continue;
		if (!read_sizes((enum rpi_resource)i, text, out->size[i]))
			rpi_log(RP_LOG_WARN,
				"%s '%s' is ignored, expected one value or four with "
				"commas, each %s",
				resources[i].variable, text, resources[i].rule);
	}
}

void rpi_sizing_resolve(const struct rpi_sizing *asked, const struct rpi_sizing *env,
			struct rpi_sizing *out)
{
	uint32_t i, ring;

	for (i = 0; i < RPI_RESOURCE_COUNT; i++) {
		for (ring = 0; ring < RP_RING_COUNT; ring++) {
			uint64_t size = asked->size[i][ring];

			if (!size)
				size = env->size[i][ring];
			out->size[i][ring] = size ? size : resources[i].built_in;
		}
	}
}

bool rpi_sizing_equal(const struct rpi_sizing *a, const struct rpi_sizing *b)
{
	return !memcmp(a, b, sizeof(*a));
}
