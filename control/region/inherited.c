/* SPDX-License-Identifier: MIT */
#include "region/inherited.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int by_address(const void *a, const void *b)
{
	const struct rpi_inherited_buffer *left = a;
	const struct rpi_inherited_buffer *right = b;

	return (left->low > right->low) - (left->low < right->low);
}

static int take_range(const struct rp_host_range *range, size_t idx,
		      struct rpi_inherited_buffer *out)
{
	uintptr_t at = (uintptr_t)range->base;

	if (!range->base || !range->bytes || range->bytes > UINTPTR_MAX - at)
		return rpi_fail(
			-EINVAL,
			"rp_worker_prepare: inherited[%zu] is %p + %zu bytes, expected "
			"a storage's start and size",
			idx, range->base, range->bytes);
	out->low = at;
	out->high = at + range->bytes;
	out->read_only = range->read_only;
	out->confirmed = false;
	return 0;
}

/* One storage, one buffer, one mode: ranges that share a byte become one. */
static int merge(struct rpi_inherited *inherited)
{
	struct rpi_inherited_buffer *last = NULL;
	size_t kept = 0;
	size_t i;

	for (i = 0; i < inherited->count; i++) {
		struct rpi_inherited_buffer *next = &inherited->buffers[i];

		if (!last || next->low >= last->high) {
			inherited->buffers[kept] = *next;
			last = &inherited->buffers[kept++];
			continue;
		}
		if (next->read_only != last->read_only)
			return rpi_fail(
				-EINVAL,
				"rp_worker_prepare: inherited storage at %#" PRIxPTR
				" is listed writable and read-only, expected one mode",
				next->low);
		if (next->high > last->high)
			last->high = next->high;
	}
	inherited->count = kept;
	return 0;
}

/* Walk the mappings in address order and see which buffers are wholly shared. */
static void confirm(struct rpi_inherited *inherited)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	size_t i;
	uintptr_t *reached;

	reached = calloc(inherited->count ? inherited->count : 1, sizeof(*reached));
	if (!maps || !reached)
		goto out;
	for (i = 0; i < inherited->count; i++)
		reached[i] = inherited->buffers[i].low;
	while (fgets(line, sizeof(line), maps)) {
		uintptr_t low, high;
		char flags[5];

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &low, &high, flags) !=
			    3 ||
		    flags[3] != 's')
			continue;
		for (i = 0; i < inherited->count; i++) {
			struct rpi_inherited_buffer *buffer = &inherited->buffers[i];

			if (low <= reached[i] && reached[i] < high)
				reached[i] = high;
			buffer->confirmed = reached[i] >= buffer->high;
		}
	}
out:
	if (maps)
		fclose(maps);
	free(reached);
}

static void warn_unconfirmed(const struct rpi_inherited *inherited)
{
	size_t unsure = 0;
	size_t i;

	for (i = 0; i < inherited->count; i++)
		unsure += !inherited->buffers[i].confirmed;
	if (unsure)
		rpi_log(RP_LOG_WARN,
			"prepare: %zu inherited host ranges can't be confirmed as shared "
			"mappings; copies that name private memory move stale bytes",
			unsure);
}

int rpi_inherited_init(struct rpi_inherited *inherited,
		       const struct rp_host_range *ranges, size_t count)
{
	size_t i;
	int err = 0;

	memset(inherited, 0, sizeof(*inherited));
	if (!count)
		return 0;
	if (!ranges)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: inherited NULL, expected %zu ranges",
				count);
	inherited->buffers = calloc(count, sizeof(*inherited->buffers));
	if (!inherited->buffers)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory for %zu ranges",
				count);
	for (i = 0; i < count && !err; i++)
		err = take_range(&ranges[i], i, &inherited->buffers[i]);
	inherited->count = count;
	if (!err) {
		qsort(inherited->buffers, count, sizeof(*inherited->buffers), by_address);
		err = merge(inherited);
	}
	if (err) {
		rpi_inherited_fini(inherited);
		return err;
	}
	confirm(inherited);
	warn_unconfirmed(inherited);
	return 0;
}

void rpi_inherited_fini(struct rpi_inherited *inherited)
{
	free(inherited->buffers);
	inherited->buffers = NULL;
	inherited->count = 0;
}

/* The buffer that holds all of these bytes, or NULL. */
static const struct rpi_inherited_buffer *holding(const struct rpi_inherited *inherited,
						  const void *addr, size_t bytes)
{
	uintptr_t low = (uintptr_t)addr;
	size_t first = 0;
	size_t count = inherited->count;

	while (count > 1) {
		size_t half = count / 2;

		if (inherited->buffers[first + half].low <= low)
			first += half;
		count -= half;
	}
	if (!count || low < inherited->buffers[first].low ||
	    low >= inherited->buffers[first].high ||
	    bytes > inherited->buffers[first].high - low)
		return NULL;
	return &inherited->buffers[first];
}

bool rpi_inherited_names(const struct rpi_inherited *inherited, const void *addr,
			 size_t bytes)
{
	/* Relaxed: either answer copies the same bytes. */
	return !atomic_load_explicit(&inherited->released, memory_order_relaxed) &&
	       holding(inherited, addr, bytes);
}

bool rpi_inherited_confirms(const struct rpi_inherited *inherited, const void *addr,
			    size_t bytes)
{
	const struct rpi_inherited_buffer *buffer = holding(inherited, addr, bytes);

	return buffer && buffer->confirmed;
}

int rpi_inherited_check_write(const struct rpi_inherited *inherited, const char *call,
			      const void *addr, size_t bytes)
{
	uintptr_t low = (uintptr_t)addr;
	size_t i;

	for (i = 0; i < inherited->count; i++) {
		const struct rpi_inherited_buffer *buffer = &inherited->buffers[i];

		if (buffer->read_only && low < buffer->high && buffer->low < low + bytes)
			return rpi_fail(-EACCES,
					"%s: host memory at %p is listed as inherited "
					"read-only, expected a writable range",
					call, addr);
	}
	return 0;
}
