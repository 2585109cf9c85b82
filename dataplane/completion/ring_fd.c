/* SPDX-License-Identifier: MIT */
#include "completion/ring_fd.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/testing.h"

#define RING_LINK "anon_inode:[io_uring]"

/* A question that changes nothing in a ring and does not wait for its requests. Asked
 * of another file it is -EOPNOTSUPP; a ring answers, or refuses for reasons of its own
 * (-EEXIST: it belongs to another thread; -EACCES: restricted). */
static bool answers_as_ring(int fd)
{
	struct io_uring_probe probe;

	memset(&probe, 0, sizeof(probe));
	return !syscall(SYS_io_uring_register, fd, IORING_REGISTER_PROBE, &probe, 0) ||
	       (errno != EBADF && errno != EOPNOTSUPP);
}

bool rpi_fd_is_ring(int fd)
{
	char path[64];
	char link[64];
	ssize_t length;

	rpi_format(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = rpi_test_point("ring_fd.link") ? -1 : readlink(path, link, sizeof(link));
	/* No such descriptor, or no /proc. */
	if (length < 0)
		return answers_as_ring(fd);
	return length == (ssize_t)strlen(RING_LINK) &&
	       !memcmp(link, RING_LINK, (size_t)length);
}
