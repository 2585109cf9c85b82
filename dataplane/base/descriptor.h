/* SPDX-License-Identifier: MIT */
#ifndef RPI_BASE_DESCRIPTOR_H
#define RPI_BASE_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Descriptors of the library stay out of 0..2, whatever the caller has closed: what
 * lies there is read from and printed to.
 *
 * fd       new and close-on-exec, or negative with errno set; moved, it is closed.
 *
 * Returns  a descriptor past 2, or a negative errno
 */
static inline int rpi_descriptor_above_standard(int fd)
{
	int high;

	if (fd < 0)
		return -errno;
	if (fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	/* EINVAL: the limit ends below the least number that would do. */
	if (high < 0)
		high = errno == EINVAL ? -EMFILE : -errno;
	close(fd);
	return high;
}

/* Give a new file of memory its size. Past the limit on files, which holds for it too,
 * the kernel's answer is a signal that ends the process: looked at before. 0 or negative
 * errno, -EFBIG. */
static inline int rpi_descriptor_size(int fd, uint64_t bytes)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && bytes > limit.rlim_cur)
		return -EFBIG;
	return ftruncate(fd, (off_t)bytes) ? -errno : 0;
}

#endif
