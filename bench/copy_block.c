/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include <ringplane/memory.h>

#include "base/error.h"
#include "copy_bed.h"
#include "sysfile.h"

#define HUGE_BYTES  ((size_t)2 << 20)
#define THP_ENABLED "/sys/kernel/mm/transparent_hugepage/enabled"

/* What has to stay free besides: as much again lies in the chips. */
#define SPARE_FACTOR 3

static struct block {
	uint8_t *at;
	void *map; /* NULL: the memory came from rp_shared_alloc_pages() */
	size_t mapped, bytes;
	unsigned int users;
} blocks[COPY_BLOCK_COUNT];

static bool is_shared(enum copy_block which)
{
	return which >= COPY_SHARED_USUAL;
}

static int share(struct block *block, enum copy_block which, size_t bytes)
{
	enum rp_page_policy pages = which == COPY_SHARED_USUAL ? RP_PAGES_AUTO
				    : which == COPY_SHARED_4K  ? RP_PAGES_NEVER
							       : RP_PAGES_REQUIRE;
	void *at;
	int err = rp_shared_alloc_pages(bytes, pages, &at);

	if (err && which == COPY_SHARED_HUGE)
		return BENCH_SKIP; /* the line is the library's */
	if (!err)
		block->at = at;
	return err;
}

static bool thp_is_off(void)
{
	char line[128];

	return bench_sysfile_line(THP_ENABLED, line, sizeof(line)) ||
	       strstr(line, "[never]");
}

static int map(struct block *block, enum copy_block which, size_t bytes)
{
	size_t mapped = bytes + HUGE_BYTES;
	void *at;

	if (which == COPY_HOST_HUGE && thp_is_off())
		return rpi_fail(BENCH_SKIP, "transparent huge pages are off here");
	at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		  0);
	if (at == MAP_FAILED)
		return rpi_fail(BENCH_SKIP, "%zu MiB could not be mapped", mapped >> 20);
	block->map = at;
	block->mapped = mapped;
	block->at = (uint8_t *)(((uintptr_t)at + HUGE_BYTES - 1) &
				~(uintptr_t)(HUGE_BYTES - 1));
	if (which == COPY_HOST_4K || which == COPY_DEVICE_4K)
		madvise(at, mapped, MADV_NOHUGEPAGE);
	else if (which == COPY_HOST_HUGE || which == COPY_DEVICE_USUAL)
		madvise(at, mapped, MADV_HUGEPAGE);
	madvise(at, mapped, MADV_DONTFORK);
	return 0;
}

static void give_back(struct block *block)
{
	if (block->map)
		munmap(block->map, block->mapped);
	else if (block->at)
		rp_shared_free(block->at);
	block->map = NULL;
	block->at = NULL;
	block->bytes = 0;
}

/* Nobody holds a pointer yet: those are asked for once all cases are set up. */
static int grow(struct block *block, enum copy_block which, size_t bytes)
{
	uint64_t available = bench_memory_available();
	int err;

	if (bytes <= block->bytes)
		return 0;
	if (available / SPARE_FACTOR < bytes)
		return rpi_fail(BENCH_SKIP,
				"%zu MiB wanted %d times, %" PRIu64 " MiB are available",
				bytes >> 20, SPARE_FACTOR, available >> 20);
	give_back(block);
	err = is_shared(which) ? share(block, which, bytes) : map(block, which, bytes);
	if (err)
		return err;
	memset(block->at, 0x5a, bytes);
	block->bytes = bytes;
	return 0;
}

int copy_block_get(enum copy_block which, size_t bytes)
{
	int err = grow(&blocks[which], which, bytes);

	if (!err)
		blocks[which].users++;
	return err;
}

void copy_block_put(enum copy_block which)
{
	assert(blocks[which].users);
	if (!--blocks[which].users)
		give_back(&blocks[which]);
}

uint8_t *copy_block_at(enum copy_block which)
{
	return blocks[which].at;
}

size_t copy_block_bytes(enum copy_block which)
{
	return blocks[which].bytes;
}

enum copy_block copy_host_block(const struct copy_variant *variant)
{
	static const enum copy_block blocks_of[2][3] = {
		{ COPY_HOST_USUAL, COPY_HOST_4K, COPY_HOST_HUGE },
		{ COPY_SHARED_USUAL, COPY_SHARED_4K, COPY_SHARED_HUGE },
	};

	return blocks_of[variant->path == COPY_INHERITED][variant->pages];
}

enum copy_block copy_device_block(const struct copy_variant *variant)
{
	return variant->pages == COPY_PAGES_4K ? COPY_DEVICE_4K : COPY_DEVICE_USUAL;
}
