/* SPDX-License-Identifier: MIT */
#include "worker/mapper.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/testing.h"
#include "worker/worker.h"

/* A look at sockets that are full, and at whether anybody is left to read them. */
#define ROOM_LOOK_MS 10

static bool is_over(const struct rpi_plane *plane)
{
	return atomic_load_explicit(&plane->fall, memory_order_acquire) == RPI_FALL_OVER;
}

/* The sockets that take no message now: fills `full`, returns how many. */
static nfds_t find_full(const struct rp_worker *worker, struct pollfd *full)
{
	const uint32_t count = worker->plane.peer_count;
	struct pollfd fds[RP_MAX_PEERS];
	nfds_t full_count = 0;
	uint32_t peer;

	for (peer = 0; peer < count; peer++)
		fds[peer] = (struct pollfd){ .fd = worker->mapper.fds[peer],
					     .events = POLLOUT };
	while (poll(fds, count, 0) < 0 && errno == EINTR)
		;
	for (peer = 0; peer < count; peer++)
		if (!fds[peer].revents) /* a process that is gone counts as one that reads
					 */
			full[full_count++] = fds[peer];
	return full_count;
}

static int send_one(int to, struct rpi_mapping *mapping, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec part = { .iov_base = mapping, .iov_len = sizeof(*mapping) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *rights = (struct cmsghdr *)control;
	int err = rpi_test_point("mapper.send");

	if (err)
		return err;
	if (fd >= 0) {
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
	}
	while (sendmsg(to, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		switch (errno) {
		case EINTR:
			continue;
		case EPIPE: /* the process is gone, which others notice and tell */
		case ECONNRESET:
			return 0;
		case ETOOMANYREFS: /* descriptors on their way are counted as open */
			return -EMFILE;
		case ENOBUFS:
			return -ENOMEM;
		default:
			return -errno;
		}
	}
	return 0;
}

static int fail_send(uint32_t peer, const struct rpi_mapping *mapping, int err)
{
	return rpi_fail(err,
			"shared memory at %#" PRIx64 " (%" PRIu64
			" bytes): passing it to worker process %u: %s, expected %s",
			mapping->low, mapping->bytes, peer, strerror(-err),
			err == -EMFILE ? "fewer descriptors on their way, or a higher "
					 "limit (ulimit -n)"
				       : "free memory");
}

/* All or, after an error, some have been told; then they are told again later, which
 * does no harm. */
static int post(struct rp_worker *worker, struct rpi_mapping *mapping, int fd)
{
	struct rpi_plane *plane = &worker->plane;
	struct rpi_mapper *mapper = &worker->mapper;
	struct pollfd full[RP_MAX_PEERS];
	uint32_t peer;
	int err;

	if (find_full(worker, full))
		return -EAGAIN;
	mapping->ticket =
		atomic_fetch_add_explicit(&mapper->ticket, 1, memory_order_relaxed) + 1;
	for (peer = 0; peer < plane->peer_count; peer++) {
		/* Relaxed: a task that is being published beside this call may name the
		 * memory; then the process refuses it. */
		if (mapping->op == RPI_MAPPING_UNMAP)
			mapping->after_task = atomic_load_explicit(
				&plane->lanes[peer].published_seq, memory_order_relaxed);
		err = send_one(mapper->fds[peer], mapping, fd);
		if (err == -EAGAIN)
			return err;
		if (err)
			return fail_send(peer, mapping, err);
		/* M1 */
		atomic_store_explicit(&plane->peers[peer].map_ticket, mapping->ticket,
				      memory_order_release);
		/* To map is for what comes next, and that wakes. */
		if (mapping->op == RPI_MAPPING_UNMAP &&
		    atomic_load_explicit(&mapper->serves, memory_order_acquire))
			rpi_rouse(&plane->rouser, peer); /* E4 */
	}
	return 0;
}

static int map(void *context, const struct rpi_region *region)
{
	struct rp_worker *worker = context;
	struct rpi_mapping mapping = { .op = RPI_MAPPING_MAP,
				       .low = (uint64_t)(uintptr_t)region->base,
				       .bytes = region->bytes,
				       .pages = (uint32_t)region->kind };

	return post(worker, &mapping, region->fd);
}

static int unmap(void *context, uintptr_t low, size_t bytes, uint64_t *ticket_out)
{
	struct rp_worker *worker = context;
	struct rpi_mapping mapping = { .op = RPI_MAPPING_UNMAP,
				       .low = low,
				       .bytes = bytes };
	int err = is_over(&worker->plane) ? 0 : post(worker, &mapping, -1);

	if (!err)
		*ticket_out = mapping.ticket;
	return err;
}

static enum rpi_leaving leaving(void *context, uint64_t ticket)
{
	struct rp_worker *worker = context;
	struct rpi_plane *plane = &worker->plane;
	enum rpi_leaving worst = RPI_LEFT;
	uint32_t peer;

	if (is_over(plane))
		return RPI_LEFT;
	for (peer = 0; peer < plane->peer_count; peer++) {
		struct rpi_peer *words = &plane->peers[peer];

		/* M2 */
		if (atomic_load_explicit(&words->map_applied, memory_order_acquire) >=
		    ticket)
			continue;
		worst = RPI_LEAVING;
		/* Relaxed: a guess at how long it may take. */
		if (atomic_load_explicit(&plane->lanes[peer].published_seq,
					 memory_order_relaxed) >
		    atomic_load_explicit(&words->done_seq, memory_order_relaxed))
			return RPI_BUSY;
	}
	if (worst == RPI_LEAVING &&
	    (!atomic_load_explicit(&worker->mapper.serves, memory_order_acquire) ||
	     atomic_load_explicit(&plane->closing, memory_order_acquire)))
		worst = RPI_BUSY;
	return worst;
}

static int await_room(void *context)
{
	struct rp_worker *worker = context;
	struct rpi_plane *plane = &worker->plane;
	struct pollfd full[RP_MAX_PEERS];
	nfds_t count = find_full(worker, full);
	uint32_t peer;

	if (atomic_load_explicit(&plane->fall, memory_order_acquire) != RPI_FALL_NONE)
		return rpi_fail(-EOWNERDEAD, "%s", plane->fall_text);
	if (!count)
		return 0;
	/* One that has had no task for long sleeps over what it was sent. */
	for (peer = 0; peer < plane->peer_count; peer++)
		rpi_rouse(&plane->rouser, peer); /* E4 */
	poll(full, count, ROOM_LOOK_MS);
	return 0;
}

static const struct rpi_audience_ops audience_ops = {
	.map = map,
	.unmap = unmap,
	.leaving = leaving,
	.await_room = await_room,
};

static int create_socket(struct rpi_mapper *mapper, uint32_t peer)
{
	int err = rpi_test_point("mapper.socket");
	int ends[2] = { -1, -1 };

	if (!err && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		err = -errno;
	if (err)
		return err;
	mapper->fds[peer] = rpi_descriptor_above_standard(ends[0]);
	mapper->peer_fds[peer] = rpi_descriptor_above_standard(ends[1]);
	if (mapper->fds[peer] < 0)
		return mapper->fds[peer];
	return mapper->peer_fds[peer] < 0 ? mapper->peer_fds[peer] : 0;
}

int rpi_mapper_create(struct rp_worker *worker)
{
	struct rpi_mapper *mapper = &worker->mapper;
	const uint32_t count = worker->plane.peer_count;
	uint32_t peer;
	int err = 0;

	mapper->fds = calloc(2 * (size_t)count, sizeof(*mapper->fds));
	if (!mapper->fds)
		return rpi_fail(-ENOMEM, "rp_worker_prepare: no memory");
	mapper->peer_fds = mapper->fds + count;
	for (peer = 0; peer < 2 * count; peer++)
		mapper->fds[peer] = -1;
	for (peer = 0; peer < count; peer++) {
		err = create_socket(mapper, peer);
		if (err)
			return rpi_fail(err,
					"rp_worker_prepare: a socket to worker process "
					"%u: %s",
					peer, strerror(-err));
	}
	err = rpi_shared_snapshot(&worker->shared);
	if (err)
		return err;
	worker->has_shared = true;
	rpi_shared_map_attach(&worker->shared, &audience_ops, worker);
	return 0;
}

static void close_all(int *fds, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

void rpi_mapper_serve(struct rp_worker *worker)
{
	struct rpi_mapper *mapper = &worker->mapper;

	close_all(mapper->peer_fds, worker->plane.peer_count);
	atomic_store_explicit(&mapper->serves, true, memory_order_release);
	/* Takes the lock: a free that told the processes without waking them did so
	 * before, and one that comes later wakes. */
	rpi_shared_map_forked(&worker->shared);
	if (atomic_load_explicit(&mapper->ticket, memory_order_relaxed))
		rpi_rouse_all(&worker->plane.rouser);
}

void rpi_mapper_retire(struct rp_worker *worker)
{
	if (worker->has_shared)
		rpi_shared_map_retire(&worker->shared);
}

void rpi_mapper_destroy(struct rp_worker *worker)
{
	struct rpi_mapper *mapper = &worker->mapper;

	if (worker->has_shared)
		rpi_shared_map_release(&worker->shared);
	worker->has_shared = false;
	if (mapper->fds)
		close_all(mapper->fds, 2 * worker->plane.peer_count);
	free(mapper->fds);
	mapper->fds = NULL;
}

int rpi_mapper_show(struct rp_worker *worker, const void *addr, size_t bytes)
{
	if (rpi_likely(rpi_shared_map_covers(&worker->shared, addr, bytes)) ||
	    rpi_inherited_confirms(&worker->inherited, addr, bytes))
		return 0;
	return rpi_shared_map_learn(&worker->shared, addr, bytes);
}
