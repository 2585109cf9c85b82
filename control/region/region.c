/* SPDX-License-Identifier: MIT */
#include "region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/testing.h"
#include "memory/reach.h"
#include "region/pages.h"
#include "region/span.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Sums with a rounding can't wrap below this. */
#define REGION_BYTES_MAX ((size_t)1 << 46)

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* A region has whole granules of addresses, whatever it stands on. They are as large as
 * the largest pages, so large blocks begin where memory.h promises. */
static size_t address_bytes(const struct rpi_region *region)
{
	return round_up(region->bytes, RPI_REACH_GRANULE);
}

/* Kernels before 5.14: an atomic add of 0 writes without changing anything, whoever
 * else writes there. */
static void touch(uint8_t *at, size_t bytes, size_t page_bytes)
{
	size_t offset;

	for (offset = 0; offset < bytes; offset += page_bytes)
		atomic_fetch_add_explicit((_Atomic uint8_t *)(at + offset), 0,
					  memory_order_relaxed);
}

static int populate(const struct rpi_region *region, size_t offset, size_t bytes)
{
	uint8_t *at = (uint8_t *)region->base + offset;
	/* Transparent huge pages were a wish: there may be small ones. */
	bool huge = region->kind == RP_PAGE_HUGETLB;
	int err = rpi_test_point("region.populate");

	if (!err && madvise(at, bytes, MADV_POPULATE_WRITE))
		err = -errno;
	if (err == -EINVAL) {
		touch(at, bytes, huge ? region->page_bytes : RPI_SMALL_PAGE);
		return 0;
	}
	/* EFAULT is for where a touch would have been a SIGBUS: no page was left. */
	return err == -EFAULT ? -ENOMEM : err;
}

int rpi_region_populate(struct rpi_region *region, size_t offset, size_t bytes)
{
	size_t end;
	int err;

	if (offset > region->bytes || bytes > region->bytes - offset)
		return rpi_fail(-ERANGE,
				"region '%s': populate of %zu bytes at %zu, it has %zu",
				region->name, bytes, offset, region->bytes);
	end = round_up(offset + bytes, region->page_bytes);
	offset = offset / region->page_bytes * region->page_bytes;
	err = populate(region, offset,
		       (end > region->bytes ? region->bytes : end) - offset);
	if (err)
		return rpi_fail(err, "region '%s': backing %zu bytes: %s", region->name,
				bytes, strerror(-err));
	return 0;
}

/* After a refused mmap(). EAGAIN: the process locks all that it maps, and may not lock
 * this. */
static int map_error(void)
{
	return errno == EAGAIN ? -ENOMEM : -errno;
}

/*
 * MAP_FIXED that is refused may have unmapped what was there, and whoever maps next in
 * this process, another thread or a library, could move into the span. Only a pool of
 * huge pages refuses so late, so it is asked by a mapping elsewhere: the pages that it
 * grants stay with the file. A pool that is too small says so now, not by a signal later.
 */
static int reserve_pages(const struct rpi_region *region)
{
	void *at;

	if (region->kind != RP_PAGE_HUGETLB)
		return 0;
	at = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	if (at == MAP_FAILED)
		return map_error();
	munmap(at, region->bytes);
	return 0;
}

/* Sets *told_out when the error line says all there is to say. */
static int map(struct rpi_region *region, bool *told_out)
{
	void *at;
	int err;

	err = reserve_pages(region);
	if (err)
		return err;
	err = rpi_span_take(address_bytes(region), RPI_REACH_GRANULE, &at);
	if (err) {
		*told_out = true;
		return err;
	}
	if (mmap(at, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 region->fd, 0) == MAP_FAILED) {
		err = map_error();
		rpi_span_give(at, address_bytes(region));
		return err;
	}
	region->base = at;
	return 0;
}

/* A file of a hugetlbfs mount takes no seals. It never had a name, so only who has
 * its descriptor could resize it. */
static int seal(int fd, bool has_seals)
{
	if (!has_seals)
		return 0;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	return 0;
}

static int size_and_map(struct rpi_region *region, bool has_seals, bool *told_out)
{
	uint64_t begin_ns;
	int err = rpi_descriptor_size(region->fd, region->bytes);

	if (!err)
		err = seal(region->fd, has_seals);
	if (!err)
		err = rpi_test_point("region.map");
	if (!err)
		err = map(region, told_out);
	if (err)
		return err;
	if (region->kind == RP_PAGE_THP)
		madvise(region->base, region->bytes, MADV_HUGEPAGE);
	else if (region->kind == RP_PAGE_4K)
		madvise(region->base, region->bytes, MADV_NOHUGEPAGE);
	if (region->lazy)
		return 0;
	begin_ns = rpi_now_ns();
	err = populate(region, 0, region->bytes);
	region->populate_ns = rpi_now_ns() - begin_ns;
	region->populated_bytes = err ? 0 : region->bytes;
	return err;
}

static int try_source(struct rpi_region *region, const struct rpi_page_source *source,
		      size_t bytes, size_t page_bytes, bool *told_out)
{
	int err;
	int fd;

	region->kind = source->kind;
	region->page_bytes = page_bytes;
	region->bytes = round_up(bytes, page_bytes);
	fd = source->open(region->name, page_bytes);
	if (fd < 0)
		return fd;
	region->fd = fd;
	err = size_and_map(region, source->has_seals, told_out);
	if (err)
		rpi_region_destroy(region);
	return err;
}

static bool wanted(const struct rpi_page_source *source, size_t bytes,
		   enum rp_page_policy policy, size_t *page_bytes_out)
{
	bool huge = source->kind != RP_PAGE_4K;

	if (huge ? policy == RP_PAGES_NEVER : policy == RP_PAGES_REQUIRE)
		return false;
	*page_bytes_out = source->page_bytes();
	if (!*page_bytes_out)
		return false;
	/* A small object would waste most of a huge page. */
	return !huge || policy == RP_PAGES_REQUIRE || bytes >= *page_bytes_out / 8;
}

/* THP is a hint to the kernel: where huge pages were required, look. */
static bool really_huge(const struct rpi_region *region)
{
	struct rp_region_info info;

	return region->kind == RP_PAGE_HUGETLB ||
	       (!rpi_region_info(region, &info) && info.huge_bytes >= region->bytes);
}

/* No way of getting pages does better after these. */
static bool is_final(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

static const char *advice(int err)
{
	switch (err) {
	case -EMFILE:
		return "a free descriptor (ulimit -n)";
	case -ENFILE:
		return "free file handles (fs.file-max)";
	case -ENOMEM:
	case -ENOSPC:
		return "free memory, and limits that allow it: of the cgroup "
		       "(memory.max), "
		       "of addresses (ulimit -v), of locked memory (ulimit -l)";
	default:
		return "a kernel and a sandbox that allow memfd_create() and its seals";
	}
}

static int create(struct rpi_region *region, const char *name, size_t bytes,
		  enum rp_page_policy policy, bool lazy)
{
	bool told = false;
	int err = -ENOMEM;
	size_t page_bytes;
	size_t i;

	memset(region, 0, sizeof(*region));
	region->fd = -1;
	/* Whether pages are huge can be told only of pages that are there. */
	region->lazy = lazy && policy != RP_PAGES_REQUIRE;
	rpi_format(region->name, sizeof(region->name), "%s", name);
	if (!bytes || bytes > REGION_BYTES_MAX)
		return rpi_fail(-EINVAL, "region '%s': %zu bytes, expected 1..%zu", name,
				bytes, REGION_BYTES_MAX);
	for (i = 0; i < rpi_page_source_count; i++) {
		const struct rpi_page_source *source = &rpi_page_sources[i];

		if (!wanted(source, bytes, policy, &page_bytes))
			continue;
		err = try_source(region, source, bytes, page_bytes, &told);
		if (told || is_final(err))
			break;
		if (err)
			continue; /* not to be had: the next one */
		if (policy != RP_PAGES_REQUIRE || really_huge(region))
			return 0;
		rpi_region_destroy(region);
	}
	if (told)
		return rpi_fail(err, "region '%s': %zu bytes: %s", name, bytes,
				rp_last_error());
	if (policy == RP_PAGES_REQUIRE && !is_final(err))
		return rpi_fail(-ENOMEM,
				"region '%s': no huge pages for %zu bytes (pages is "
				"RP_PAGES_REQUIRE), expected a pool (vm.nr_hugepages) or "
				"shmem_enabled other than never",
				name, bytes);
	return rpi_fail(err, "region '%s': %zu bytes of shared memory: %s, expected %s",
			name, bytes, strerror(-err), advice(err));
}

int rpi_region_create(struct rpi_region *region, const char *name, size_t bytes,
		      enum rp_page_policy policy)
{
	return create(region, name, bytes, policy, false);
}

int rpi_region_create_lazy(struct rpi_region *region, const char *name, size_t bytes,
			   enum rp_page_policy policy)
{
	return create(region, name, bytes, policy, true);
}

void rpi_region_vacate(struct rpi_region *region)
{
	rpi_span_empty(region->base, address_bytes(region));
}

void rpi_region_close(struct rpi_region *region)
{
	/* Ours are never among the first three: 0 is a region that was only zeroed. */
	if (region->fd > STDERR_FILENO)
		close(region->fd);
	region->fd = -1;
}

void rpi_region_destroy(struct rpi_region *region)
{
	if (region->base)
		rpi_span_give(region->base, address_bytes(region));
	rpi_region_close(region);
	region->base = NULL;
}

/* The lines of smaps that count a mapping's huge pages. */
static uint64_t huge_kib(const char *line)
{
	static const char *const keys[] = { "ShmemPmdMapped:", "FilePmdMapped:",
					    "Shared_Hugetlb:", "Private_Hugetlb:" };
	unsigned long long kib;
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strncmp(line, keys[i], strlen(keys[i])) &&
		    sscanf(line + strlen(keys[i]), "%llu", &kib) == 1)
			return kib;
	return 0;
}

int rpi_region_info(const struct rpi_region *region, struct rp_region_info *info_out)
{
	uintptr_t base = (uintptr_t)region->base;
	unsigned long long low, high;
	bool inside = false;
	char line[256];
	FILE *file;

	memset(info_out, 0, sizeof(*info_out));
	rpi_format(info_out->name, sizeof(info_out->name), "%s", region->name);
	info_out->base = region->base;
	info_out->bytes = region->bytes;
	info_out->kind = region->kind;
	info_out->page_bytes = region->page_bytes;
	info_out->populated_bytes = region->populated_bytes;
	info_out->populate_ns = region->populate_ns;
	file = fopen("/proc/self/smaps", "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx ", &low, &high) == 2)
			inside = low >= base && low < base + region->bytes;
		else if (inside)
			info_out->huge_bytes += huge_kib(line) << 10;
	}
	fclose(file);
	return 0;
}
