/* SPDX-License-Identifier: MIT */
/*
 * The io_uring engine. The owner's ring carries no submissions: it is a
 * completion queue to sleep on, and a poke is a ring message to its descriptor.
 *
 * The ring is an ordinary one. SINGLE_ISSUER with DEFER_TASKRUN was measured at
 * the same round trip, and there the kernel allocates a request for each message
 * and leaves it to the owner's thread; here the waker posts the completion itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "completion/park_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/testing.h"

#if !RPI_HAVE_LIBURING

int rpi_park_uring_create(struct rpi_park *park, const char **why_out)
{
	(void)park;
	*why_out = "not built";
	return -EOPNOTSUPP;
}

int rpi_park_uring_own(struct rpi_park *park)
{
	(void)park;
	return -EOPNOTSUPP;
}

void rpi_park_uring_disown(struct rpi_park *park)
{
	(void)park;
}

void rpi_park_uring_destroy(struct rpi_park *park)
{
	(void)park;
}

int rpi_park_uring_block(struct rpi_park *park, uint64_t deadline_ns)
{
	(void)park;
	(void)deadline_ns;
	return -EOPNOTSUPP;
}

int rpi_park_uring_poke(struct rpi_park *park, struct rpi_waker *waker)
{
	(void)park;
	(void)waker;
	return -EOPNOTSUPP;
}

void rpi_park_uring_drain(struct rpi_park *park)
{
	(void)park;
}

#else

#define NS_PER_S	       1000000000u

/* Newer than the headers that Debian 12 has. */
#define REGISTER_SEND_MSG_RING 31

/* The smallest ring there is: one submission, two completions. */
#define RING_ENTRIES	       1

static int ring_register(int fd, unsigned opcode, const void *arg, unsigned count)
{
	long ret = syscall(SYS_io_uring_register, fd, opcode, arg, count);

	return ret < 0 ? -errno : (int)ret;
}

static const char *fault_text(int err)
{
	switch (-err) {
	case ENOSYS:
		return "not supported (ENOSYS)";
	case EPERM:
	case EACCES:
		return "forbidden (EPERM)";
	case ENOMEM:
		return "memlock limit (ENOMEM)";
	case EMFILE:
	case ENFILE:
		return "descriptor limit (EMFILE)";
	case EOPNOTSUPP:
		return "not supported (no ring messages or timed waits)";
	default:
		return "not supported (EINVAL)";
	}
}

/* A ring message to no ring: -EBADF where the kernel knows the request. */
static bool can_send_without_ring(void)
{
	struct io_uring_sqe sqe;

	memset(&sqe, 0, sizeof(sqe));
	sqe.opcode = IORING_OP_MSG_RING;
	sqe.fd = -1;
	return ring_register(-1, REGISTER_SEND_MSG_RING, &sqe, 1) == -EBADF;
}

static bool can_send_from_ring(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool can = probe && io_uring_opcode_supported(probe, IORING_OP_MSG_RING);

	if (probe)
		io_uring_free_probe(probe);
	return can;
}

/* Queues are mapped already, so that only the number changes. -1 after an error: the
 * descriptor is closed. */
static int ring_move_fd(struct io_uring *ring)
{
	int fd = rpi_descriptor_above_standard(ring->ring_fd);

	ring->ring_fd = fd < 0 ? -1 : fd;
	ring->enter_ring_fd = ring->ring_fd;
	return fd < 0 ? fd : 0;
}

static int ring_open(struct io_uring *ring, unsigned setup_flags)
{
	struct io_uring_params params;
	int ret;

	memset(&params, 0, sizeof(params));
	params.flags = setup_flags;
	ret = io_uring_queue_init_params(RING_ENTRIES, ring, &params);
	if (ret < 0)
		return ret;
	ret = ring_move_fd(ring);
	if (ret) {
		io_uring_queue_exit(ring);
		return ret;
	}
	if (!(params.features & IORING_FEAT_EXT_ARG) ||
	    !(params.features & IORING_FEAT_NODROP) ||
	    (!can_send_without_ring() && !can_send_from_ring(ring))) {
		io_uring_queue_exit(ring);
		return -EOPNOTSUPP;
	}
	return 0;
}

static _Atomic uint64_t last_park_id;

int rpi_park_uring_create(struct rpi_park *park, const char **why_out)
{
	int ret = rpi_test_point("park.ring");

	if (!ret)
		ret = ring_open(&park->ring, IORING_SETUP_R_DISABLED);
	if (ret)
		*why_out = fault_text(ret);
	park->id = atomic_fetch_add_explicit(&last_park_id, 1, memory_order_relaxed) + 1;
	return ret;
}

/*
 * Rings that this thread has registered: who enters one by such a number needs no
 * reference to its file, whose count all wakers write. A park's number among all parks
 * says whose it is; -1 stands for one that could not be registered. What another thread
 * has destroyed stays with this one until its place is taken or it ends.
 */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct entrance {
	uint64_t park_id;
	int number;
	pid_t pid; /* a fork copies this, but registers nothing */
} entrances[4];

static struct entrance *entrance_of(const struct rpi_park *park)
{
	return &entrances[park->id % (sizeof(entrances) / sizeof(entrances[0]))];
}

/* ring_fd: any ring. */
static void unregister(struct entrance *entrance, int ring_fd)
{
	struct io_uring_rsrc_update update = { .offset = (uint32_t)entrance->number };

	if (entrance->park_id && entrance->number >= 0 && entrance->pid == getpid())
		ring_register(ring_fd, IORING_UNREGISTER_RING_FDS, &update, 1);
	entrance->park_id = 0;
}

static __attribute__((cold, noinline)) void register_ring(struct entrance *entrance,
							  const struct rpi_park *park)
{
	const int fd = park->ring.ring_fd;
	struct io_uring_rsrc_update update = { .offset = UINT32_MAX,
					       .data = (uint64_t)fd };

	unregister(entrance, fd);
	entrance->number = -1;
	if (ring_register(fd, IORING_REGISTER_RING_FDS, &update, 1) == 1)
		entrance->number = (int)update.offset;
	entrance->park_id = park->id;
	entrance->pid = getpid();
}

int rpi_park_uring_own(struct rpi_park *park)
{
	/* liburing 2.3 declares io_uring_enable_rings() and does not export it. */
	return ring_register(park->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* What io_uring_queue_exit() unmaps, without the close. */
void rpi_park_uring_disown(struct rpi_park *park)
{
	struct io_uring *ring = &park->ring;

	munmap(ring->sq.sqes, ring->sq.ring_entries * sizeof(struct io_uring_sqe));
	if (ring->cq.ring_ptr && ring->cq.ring_ptr != ring->sq.ring_ptr)
		munmap(ring->cq.ring_ptr, ring->cq.ring_sz);
	munmap(ring->sq.ring_ptr, ring->sq.ring_sz);
}

void rpi_park_uring_destroy(struct rpi_park *park)
{
	struct entrance *entrance = entrance_of(park);

	if (entrance->park_id == park->id)
		unregister(entrance, park->ring.ring_fd);
	if (park->role == RPI_PARK_OTHER)
		close(park->ring.ring_fd);
	else
		io_uring_queue_exit(&park->ring);
}

void rpi_park_uring_drain(struct rpi_park *park)
{
	unsigned count = io_uring_cq_ready(&park->ring);

	if (count)
		io_uring_cq_advance(&park->ring, count);
}

static int enter(int ring, unsigned flags, const struct io_uring_getevents_arg *arg)
{
	long ret = syscall(SYS_io_uring_enter, ring, 0, 1, flags | IORING_ENTER_GETEVENTS,
			   arg, arg ? sizeof(*arg) : 0);

	return ret < 0 ? -errno : 0;
}

/* Until there is a completion, at most for so long. 0, -ETIME, -EINTR, other. */
static int await_completion(struct rpi_park *park, const struct __kernel_timespec *left)
{
	const struct io_uring_getevents_arg timed = { .ts = (uint64_t)(uintptr_t)left };
	const struct io_uring_getevents_arg *arg = left ? &timed : NULL;
	const unsigned flags = left ? IORING_ENTER_EXT_ARG : 0;
	struct entrance *entrance = entrance_of(park);
	int ret;

	if (io_uring_cq_ready(&park->ring))
		return 0;
	if (rpi_unlikely(entrance->park_id != park->id))
		register_ring(entrance, park);
	if (rpi_likely(entrance->number >= 0)) {
		ret = enter(entrance->number, flags | IORING_ENTER_REGISTERED_RING, arg);
		if (rpi_likely(ret != -EBADF && ret != -EINVAL))
			return ret;
		/* Another process's: this one was forked from it. */
		entrance->number = -1;
	}
	return enter(park->ring.ring_fd, flags, arg);
}

int rpi_park_uring_block(struct rpi_park *park, uint64_t deadline_ns)
{
	struct __kernel_timespec ts, *left = NULL;
	uint64_t now_ns;
	int ret;

	for (;;) {
		if (deadline_ns != RPI_PARK_FOREVER) {
			now_ns = rpi_now_ns();
			if (now_ns >= deadline_ns)
				now_ns = deadline_ns;
			ts.tv_sec = (int64_t)((deadline_ns - now_ns) / NS_PER_S);
			ts.tv_nsec = (long long)((deadline_ns - now_ns) % NS_PER_S);
			left = &ts;
		}
		ret = await_completion(park, left);
		if (ret == 0) {
			rpi_park_uring_drain(park);
			return 0;
		}
		if (ret == -EINTR || ret == -EAGAIN)
			return 0;
		if (ret != -ETIME)
			return ret;
		/* The kernel's timer may end a little early. */
		if (rpi_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
	}
}

static int send_from_ring(struct rpi_waker *waker, int target_fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	int ret = 0;

	pthread_mutex_lock(&waker->lock);
	sqe = io_uring_get_sqe(&waker->ring);
	if (sqe) {
		io_uring_prep_msg_ring(sqe, target_fd, 0, user_data, 0);
		/* Success is silent; only a failure leaves a completion here. */
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		ret = io_uring_submit(&waker->ring);
		ret = ret < 0 ? ret : 0;
	}
	if (!sqe)
		ret = -EBUSY;
	if (!ret && io_uring_peek_cqe(&waker->ring, &cqe) == 0) {
		ret = cqe->res;
		io_uring_cqe_seen(&waker->ring, cqe);
	}
	pthread_mutex_unlock(&waker->lock);
	return ret;
}

int rpi_waker_send(struct rpi_waker *waker, int ring_fd, uint64_t user_data)
{
	struct io_uring_sqe sqe;

	if (waker->has_ring)
		return send_from_ring(waker, ring_fd, user_data);
	memset(&sqe, 0, sizeof(sqe));
	sqe.opcode = IORING_OP_MSG_RING;
	sqe.fd = ring_fd;
	sqe.off = user_data;
	return ring_register(-1, REGISTER_SEND_MSG_RING, &sqe, 1);
}

int rpi_park_uring_poke(struct rpi_park *park, struct rpi_waker *waker)
{
	int ret = rpi_waker_send(waker, park->ring.ring_fd, 0);

	/* A full queue has woken the owner already. */
	return ret == -EOVERFLOW ? 0 : ret;
}

int rpi_park_fds(const struct rpi_park *park, int fds_out[2])
{
	if (park->role == RPI_PARK_NONE || park->engine != RPI_PARK_URING)
		return 0;
	fds_out[0] = park->ring.ring_fd;
	return 1;
}

unsigned rpi_park_overflows(const struct rpi_park *park)
{
	if (park->engine != RPI_PARK_URING ||
	    (park->role != RPI_PARK_FRESH && park->role != RPI_PARK_OWNER))
		return 0;
	return __atomic_load_n(park->ring.cq.koverflow, __ATOMIC_RELAXED);
}

int rpi_waker_init(struct rpi_waker *waker, enum rpi_park_engine engine, bool force_ring)
{
	int ret;

	memset(waker, 0, sizeof(*waker));
	if (engine == RPI_PARK_URING && (force_ring || !can_send_without_ring())) {
		ret = ring_open(&waker->ring, 0);
		if (ret)
			return rpi_fail(ret,
					"waker_init: io_uring %s, expected it to work",
					fault_text(ret));
		pthread_mutex_init(&waker->lock, NULL);
		waker->has_ring = true;
	}
	waker->ready = true;
	return 0;
}

void rpi_waker_destroy(struct rpi_waker *waker)
{
	if (waker->has_ring) {
		io_uring_queue_exit(&waker->ring);
		pthread_mutex_destroy(&waker->lock);
	}
	memset(waker, 0, sizeof(*waker));
}

int rpi_waker_fds(const struct rpi_waker *waker, int fds_out[2])
{
	if (!waker->has_ring)
		return 0;
	fds_out[0] = waker->ring.ring_fd;
	return 1;
}

#endif
