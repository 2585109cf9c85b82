/* SPDX-License-Identifier: MIT */
/*
 * First fit over free ranges sorted by address. A slow path under one mutex. No
 * pthread_atfork(): a worker process never takes or gives, so it does not matter to
 * it that another thread may have held the mutex at the fork.
 */
#include "region/span.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

#define SPAN_BYTES_MAX ((size_t)256 << 30)
#define SPAN_BYTES_MIN ((size_t)1 << 30)

struct range {
	uintptr_t at;
	size_t bytes;
	struct range *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *free_ranges; /* sorted, never adjacent */
static uintptr_t span_low;
static size_t span_bytes;

static void *reserve(void *at, size_t bytes, int extra)
{
	return mmap(at, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra, -1, 0);
}

/* Limits on address space (RLIMIT_AS) or strict overcommit may refuse the most. */
static int reserve_span(void)
{
	struct range *all = malloc(sizeof(*all));
	size_t bytes;

	if (!all)
		return rpi_fail(-ENOMEM, "shared memory: no memory to begin with");
	for (bytes = SPAN_BYTES_MAX; bytes >= SPAN_BYTES_MIN; bytes /= 2) {
		void *at = reserve(NULL, bytes, 0);

		if (at == MAP_FAILED)
			continue;
		*all = (struct range){ .at = (uintptr_t)at, .bytes = bytes };
		free_ranges = all;
		span_low = (uintptr_t)at;
		span_bytes = bytes;
		return 0;
	}
	free(all);
	return rpi_fail(-ENOMEM,
			"shared memory: %zu bytes of address space can't be "
			"reserved, expected a higher limit (ulimit -v)",
			SPAN_BYTES_MIN);
}

/* Cut [at, at + bytes) out of a free range that holds it. */
static int cut(struct range **link, uintptr_t at, size_t bytes)
{
	struct range *range = *link;
	uintptr_t end = range->at + range->bytes;

	if (at != range->at && at + bytes != end) {
		struct range *rest = malloc(sizeof(*rest));

		if (!rest)
			return rpi_fail(-ENOMEM, "shared memory: no memory");
		*rest = (struct range){ .at = at + bytes,
					.bytes = end - at - bytes,
					.next = range->next };
		range->bytes = at - range->at;
		range->next = rest;
	} else if (at != range->at) {
		range->bytes -= bytes;
	} else if (bytes != range->bytes) {
		range->at += bytes;
		range->bytes -= bytes;
	} else {
		*link = range->next;
		free(range);
	}
	return 0;
}

static int take(size_t bytes, size_t align, void **addr_out)
{
	struct range **link;

	for (link = &free_ranges; *link; link = &(*link)->next) {
		uintptr_t at = ((*link)->at + align - 1) & ~(uintptr_t)(align - 1);
		size_t lost = at - (*link)->at;
		int err;

		if ((*link)->bytes < lost || (*link)->bytes - lost < bytes)
			continue;
		err = cut(link, at, bytes);
		if (!err)
			*addr_out = (void *)at;
		return err;
	}
	return rpi_fail(
		-ENOMEM,
		"shared memory: no room for %zu bytes in the %zu that are reserved "
		"for shared memory",
		bytes, span_bytes);
}

int rpi_span_take(size_t bytes, size_t align, void **addr_out)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!span_bytes)
		err = reserve_span();
	if (!err)
		err = take(bytes, align, addr_out);
	pthread_mutex_unlock(&lock);
	return err;
}

static void insert(uintptr_t at, size_t bytes)
{
	struct range **link = &free_ranges;
	struct range *before = NULL;
	struct range *range;

	while (*link && (*link)->at < at) {
		before = *link;
		link = &(*link)->next;
	}
	if (before && before->at + before->bytes == at) {
		before->bytes += bytes;
		range = before;
	} else {
		range = malloc(sizeof(*range));
		if (!range)
			return; /* lost address space, nothing else */
		*range = (struct range){ .at = at, .bytes = bytes, .next = *link };
		*link = range;
	}
	if (range->next && range->at + range->bytes == range->next->at) {
		struct range *after = range->next;

		range->bytes += after->bytes;
		range->next = after->next;
		free(after);
	}
}

int rpi_span_bounds(uintptr_t *low_out, size_t *bytes_out)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!span_bytes)
		err = reserve_span();
	*low_out = span_low;
	*bytes_out = span_bytes;
	pthread_mutex_unlock(&lock);
	return err;
}

int rpi_span_empty(void *addr, size_t bytes)
{
	/* Replaced in one step, so that nobody else's mapping can slip in. */
	return reserve(addr, bytes, MAP_FIXED) == MAP_FAILED ? -errno : 0;
}

void rpi_span_give(void *addr, size_t bytes)
{
	/* Refused (vm.max_map_count), the range stays as it is and is never given out
	 * again. */
	if (rpi_span_empty(addr, bytes))
		return;
	pthread_mutex_lock(&lock);
	insert((uintptr_t)addr, bytes);
	pthread_mutex_unlock(&lock);
}
