/* SPDX-License-Identifier: MIT */
#include "memory/reach.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

static size_t table_bytes(size_t range_bytes)
{
	return (range_bytes + RPI_REACH_GRANULE - 1) / RPI_REACH_GRANULE *
	       sizeof(uint64_t);
}

/* Mapped and not allocated: of a megabyte a page or two is ever written. */
int rpi_reach_init(struct rpi_reach *reach, uintptr_t low, size_t bytes)
{
	void *words = mmap(NULL, table_bytes(bytes), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	memset(reach, 0, sizeof(*reach));
	if (words == MAP_FAILED)
		return rpi_fail(-ENOMEM,
				"prepare: no memory for a table of %zu bytes: %s",
				table_bytes(bytes), strerror(errno));
	reach->words = words;
	reach->low = low;
	reach->bytes = bytes;
	return 0;
}

void rpi_reach_fini(struct rpi_reach *reach)
{
	if (reach->words)
		munmap(reach->words, table_bytes(reach->bytes));
	memset(reach, 0, sizeof(*reach));
}

static void fill(struct rpi_reach *reach, uintptr_t low, size_t bytes, uint64_t word)
{
	size_t at = (low - reach->low) / RPI_REACH_GRANULE;
	size_t end =
		(low - reach->low + bytes + RPI_REACH_GRANULE - 1) / RPI_REACH_GRANULE;

	assert(bytes && low - reach->low < reach->bytes &&
	       bytes <= reach->bytes - (low - reach->low));
	for (; at < end; at++)
		/* R1 */
		atomic_store_explicit(&reach->words[at], word, memory_order_release);
	if (end * RPI_REACH_GRANULE > reach->top)
		reach->top = end * RPI_REACH_GRANULE;
}

static uint64_t word_of(const struct rpi_reach *reach, uintptr_t low, size_t bytes)
{
	size_t first = (low - reach->low) / RPI_REACH_PAGE;
	size_t end = (low - reach->low + bytes + RPI_REACH_PAGE - 1) / RPI_REACH_PAGE;

	return (uint64_t)first << 32 | (uint64_t)end;
}

void rpi_reach_set(struct rpi_reach *reach, uintptr_t low, size_t bytes)
{
	fill(reach, low, bytes, word_of(reach, low, bytes));
}

void rpi_reach_pend(struct rpi_reach *reach, uintptr_t low, size_t bytes)
{
	fill(reach, low, bytes, word_of(reach, low, bytes) | RPI_REACH_PENDING);
}

void rpi_reach_clear(struct rpi_reach *reach, uintptr_t low, size_t bytes)
{
	fill(reach, low, bytes, 0);
}

void rpi_reach_leave(struct rpi_reach *reach, uintptr_t low, size_t bytes)
{
	fill(reach, low, bytes, RPI_REACH_LEFT);
}

bool rpi_reach_next(const struct rpi_reach *reach, size_t *offset, uintptr_t *low_out,
		    size_t *bytes_out)
{
	for (; *offset < reach->top; *offset += RPI_REACH_GRANULE) {
		uint64_t word = rpi_reach_word(reach, reach->low + *offset);

		if (!word || word & RPI_REACH_PENDING) /* RPI_REACH_LEFT too */
			continue;
		*low_out = rpi_reach_low(reach, word);
		*bytes_out = rpi_reach_bytes(word);
		*offset += (*bytes_out + RPI_REACH_GRANULE - 1) / RPI_REACH_GRANULE *
			   RPI_REACH_GRANULE;
		return true;
	}
	return false;
}
