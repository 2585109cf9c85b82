/* SPDX-License-Identifier: MIT */
/*
 * Shared memory that comes and goes while the process serves; see staging/mapping.h for
 * the order. A message is looked at first and taken from the socket only when it was
 * carried out: what could not be done for want of a descriptor is still there later.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/testing.h"
#include "chip/server.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Of one region; more is touched by the task that first uses it. */
#define PREFAULT_BYTES_MAX ((size_t)64 << 20)

static int descriptor_in(struct msghdr *msg)
{
	struct cmsghdr *part;
	int fd = -1;

	for (part = CMSG_FIRSTHDR(msg); part; part = CMSG_NXTHDR(msg, part))
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
		    part->cmsg_len == CMSG_LEN(sizeof(fd)))
			memcpy(&fd, CMSG_DATA(part), sizeof(fd));
	return fd;
}

/* The message at the head, and a descriptor of its memory (-1: it has none). */
static int look(const struct rpi_mapping_rx *rx, struct rpi_mapping *out, int *fd_out)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { .iov_base = out, .iov_len = sizeof(*out) };
	struct msghdr msg = { .msg_iov = &part,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	do {
		n = recvmsg(rx->fd, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(*out))
		return n < 0 ? -errno : -EPROTO;
	*fd_out = descriptor_in(&msg);
	/* The kernel drops what this process has no number for. */
	return out->op == RPI_MAPPING_MAP && *fd_out < 0 ? -EMFILE : 0;
}

static void take(const struct rpi_mapping_rx *rx)
{
	char byte;

	while (recv(rx->fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EINTR)
		;
}

/* `watch` is all that the hot path sees of this. */
static void note(struct rpi_mapping_rx *rx)
{
	rx->watch = rx->left || rx->refused || rx->untouched;
}

/* The first task that names the region: page tables now, a touch at a time would cost
 * more. Processes that never use it build none. Refused, it costs those touches. */
static void settle_in(struct rpi_mapping_rx *rx, uint64_t word)
{
	uintptr_t low = rpi_reach_low(&rx->reach, word);
	size_t bytes = rpi_reach_bytes(word);

	madvise((void *)low, bytes < PREFAULT_BYTES_MAX ? bytes : PREFAULT_BYTES_MAX,
		MADV_POPULATE_WRITE);
	rpi_reach_set(&rx->reach, low, bytes);
	rx->untouched--;
	note(rx);
}

/* Whatever the table says of the range is over. */
static void forget(struct rpi_mapping_rx *rx, uintptr_t low)
{
	if (rpi_reach_is_pending(rpi_reach_word(&rx->reach, low)))
		rx->untouched--;
}

static int map(struct rpi_mapping_rx *rx, const struct rpi_mapping *mapping, int fd)
{
	void *at = (void *)(uintptr_t)mapping->low;
	int err = rpi_test_point("chip.map");

	/* Over the reservation, or over what was there before: in one step. */
	if (!err && mmap(at, mapping->bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		err = errno == EAGAIN ? -ENOMEM : -errno;
	if (err)
		return err;
	if (mapping->pages == RP_PAGE_THP)
		madvise(at, mapping->bytes, MADV_HUGEPAGE);
	else if (mapping->pages == RP_PAGE_4K)
		madvise(at, mapping->bytes, MADV_NOHUGEPAGE);
	forget(rx, mapping->low);
	rpi_reach_pend(&rx->reach, mapping->low, mapping->bytes);
	rx->untouched++;
	return 0;
}

static void unmap(struct rpi_mapping_rx *rx, const struct rpi_mapping *mapping)
{
	/* Refused (vm.max_map_count), the memory stays until its addresses are mapped
	 * anew: no task gets to name it. */
	(void)mmap((void *)(uintptr_t)mapping->low, mapping->bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	forget(rx, mapping->low);
	rpi_reach_leave(&rx->reach, mapping->low, mapping->bytes);
	rx->left = true;
	rpi_test_point("chip.unmap");
}

/* Carry the head out, or note why not. */
static int serve_head(struct rp_chip *chip)
{
	struct rpi_mapping_rx *rx = &chip->mapping;
	int fd = -1;
	int err = 0;

	if (!rx->holds)
		err = look(rx, &rx->held, &fd);
	rx->holds = !err && rx->held.after_task >= chip->rx.next_seq;
	if (rx->holds)
		return 0;
	if (!err && rx->held.op == RPI_MAPPING_MAP)
		err = map(rx, &rx->held, fd);
	else if (!err)
		unmap(rx, &rx->held);
	if (fd >= 0)
		close(fd);
	rx->refused = err;
	note(rx);
	if (err)
		return err;
	take(rx);
	rx->applied = rx->held.ticket;
	/* M2 */
	atomic_store_explicit(&chip->self->map_applied, rx->applied,
			      memory_order_release);
	return 0;
}

void rpi_server_mapping(struct rp_chip *chip)
{
	while (rpi_server_mapping_due(chip) && !serve_head(chip))
		;
}

int rpi_server_check_host(struct rp_chip *chip, const void *addr, size_t bytes)
{
	struct rpi_mapping_rx *rx = &chip->mapping;
	const uintptr_t at = (uintptr_t)addr;
	uint64_t word = rpi_reach_word(&rx->reach, at);

	if (rpi_reach_is_pending(word))
		settle_in(rx, word);
	if (at - rx->reach.low >= rx->reach.bytes ||
	    rpi_reach_covers(&rx->reach, addr, bytes))
		return 0;
	/* What was to be mapped here may be behind what could not be. */
	if (rx->refused)
		return rx->refused;
	return word == RPI_REACH_LEFT ? -EFAULT : 0;
}
