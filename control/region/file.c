/* SPDX-License-Identifier: MIT */
/* Files as inherited host memory. */
#include <ringplane/host.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* A mapping starts on a page; the range inside it where the caller asked. */
static size_t page_offset(uint64_t offset)
{
	return (size_t)(offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1));
}

static int map_slice(int fd, const char *path, uint64_t offset, size_t bytes,
		     struct rp_host_range *range_out)
{
	size_t lead = page_offset(offset);
	struct stat info;
	uint8_t *at;

	if (fstat(fd, &info))
		return rpi_fail(-errno, "rp_map_file: '%s': %s", path, strerror(errno));
	if (!S_ISREG(info.st_mode))
		return rpi_fail(-EINVAL, "rp_map_file: '%s', expected a regular file",
				path);
	if (!bytes && offset < (uint64_t)info.st_size)
		bytes = (size_t)((uint64_t)info.st_size - offset);
	if (!bytes)
		return rpi_fail(-ERANGE,
				"rp_map_file: '%s' has %" PRId64
				" bytes, expected more than %" PRIu64,
				path, (int64_t)info.st_size, offset);
	if (offset > (uint64_t)info.st_size || bytes > (uint64_t)info.st_size - offset)
		return rpi_fail(-ERANGE,
				"rp_map_file: '%s' has %" PRId64
				" bytes, expected a slice inside it, not %zu at %" PRIu64,
				path, (int64_t)info.st_size, bytes, offset);
	at = mmap(NULL, lead + bytes, PROT_READ, MAP_SHARED, fd, (off_t)(offset - lead));
	if (at == MAP_FAILED)
		return rpi_fail(-errno, "rp_map_file: '%s': mapping %zu bytes: %s", path,
				bytes, strerror(errno));
	*range_out = (struct rp_host_range){ .base = at + lead,
					     .bytes = bytes,
					     .read_only = true };
	return 0;
}

int rp_map_file(const char *path, uint64_t offset, size_t bytes,
		struct rp_host_range *range_out)
{
	int err;
	int fd;

	if (!path || !range_out)
		return rpi_fail(-EINVAL, "rp_map_file: %s NULL, expected one",
				path ? "range_out" : "path");
	/* A pipe is not waited for: it is refused. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return rpi_fail(-errno, "rp_map_file: '%s': %s", path, strerror(errno));
	err = map_slice(fd, path, offset, bytes, range_out);
	close(fd);
	return err;
}

int rp_unmap_file(const struct rp_host_range *range)
{
	size_t lead;

	if (!range || !range->base || !range->bytes || !range->read_only)
		return rpi_fail(-EINVAL,
				"rp_unmap_file: expected a range of rp_map_file()");
	lead = page_offset((uint64_t)(uintptr_t)range->base);
	if (munmap((uint8_t *)range->base - lead, lead + range->bytes))
		return rpi_fail(-errno, "rp_unmap_file: %p: %s", range->base,
				strerror(errno));
	return 0;
}
