/* SPDX-License-Identifier: MIT */
/*
 * One thread per worker. It forks the processes, so that "die with the forking
 * thread" means "die with the parent" whichever thread called prepare; it waits
 * for their readiness, watches them through pidfds while they serve, and lets
 * them go or kills them at the end. It sleeps in poll() in between.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/futex.h"
#include "dispatch/queue.h"
#include "process/leave.h"
#include "process/thread.h"
#include "worker/worker.h"

/* What processes get to leave by themselves when nothing is in flight. */
#define LEAVE_NS (UINT64_C(5) * 1000000000u)

/* After SIGKILL only the kernel is waited for. */
#define KILL_NS (UINT64_C(30) * 1000000000u)

/* The kernel's own bound. */
#define ERRNO_MAX 4095

/* What a process is at, by the phase that it has reached. */
static const char *const phase_names[] = {
	[RPI_PHASE_FORKED] = "setting itself up",
	[RPI_PHASE_CLEAN] = "touching its memory",
	[RPI_PHASE_MEMORY] = "opening its device",
	[RPI_PHASE_BACKEND] = "becoming ready",
	[RPI_PHASE_READY] = "serving",
	[RPI_PHASE_FAILED] = "failing",
};

/* "chip 1 (rp-chip1)", "callback worker 0 (rp-call0)". */
static void peer_text(const struct rp_worker *worker, uint32_t peer, char *buf,
		      size_t bytes)
{
	bool chip = peer < worker->plane.chip_count;
	char name[16];

	rpi_peer_name(worker, peer, name, sizeof(name));
	rpi_format(buf, bytes, "%s %u (%s)", chip ? "chip" : "callback worker",
		   chip ? peer : peer - worker->plane.chip_count, name);
}

static uint32_t peer_phase(const struct rp_worker *worker, uint32_t peer)
{
	uint32_t phase = atomic_load_explicit(&worker->plane.peers[peer].phase,
					      memory_order_acquire);

	/* The child's word: bound it. */
	return phase <= RPI_PHASE_FAILED ? phase : RPI_PHASE_FAILED;
}

static void decide(struct rp_worker *worker, int status)
{
	struct rpi_supervisor *supervisor = &worker->supervisor;

	pthread_mutex_lock(&supervisor->lock);
	supervisor->ready = true;
	supervisor->status = status;
	if (status)
		rpi_format(supervisor->text, sizeof(supervisor->text), "%s",
			   rp_last_error());
	pthread_cond_broadcast(&supervisor->changed);
	pthread_mutex_unlock(&supervisor->lock);
}

static int fork_all(struct rp_worker *worker, pid_t parent)
{
	uint32_t peer;

	for (peer = 0; peer < worker->plane.peer_count; peer++) {
		struct rpi_child_arg arg = { .worker = worker,
					     .peer_idx = peer,
					     .parent = parent };
		char who[64];
		int err =
			rpi_process_fork(&worker->processes[peer], rpi_child_main, &arg);

		if (!err)
			continue;
		peer_text(worker, peer, who, sizeof(who));
		return rpi_fail(err, "rp_worker_prepare: %s: %s", who, rp_last_error());
	}
	return 0;
}

static void kill_all(struct rp_worker *worker)
{
	uint32_t peer;

	for (peer = 0; peer < worker->plane.peer_count; peer++)
		rpi_process_kill(&worker->processes[peer]);
	if (!rpi_process_reap_all(worker->processes, worker->plane.peer_count,
				  rpi_now_ns() + KILL_NS))
		rpi_log(RP_LOG_ERROR, "a worker process survives SIGKILL");
}

/* A process's own words: bound them. */
static void said(const struct rpi_peer *self, char text[RPI_ERROR_BYTES])
{
	memcpy(text, self->start_text, RPI_ERROR_BYTES);
	text[RPI_ERROR_BYTES - 1] = '\0';
}

static void end_text(const struct rp_worker *worker, uint32_t peer, char *buf,
		     size_t bytes)
{
	const struct rpi_peer *self = &worker->plane.peers[peer];
	char why[RPI_ERROR_BYTES] = "";
	char who[64];
	char how[128];

	peer_text(worker, peer, who, sizeof(who));
	rpi_process_end_text(&worker->processes[peer], how, sizeof(how));
	if (atomic_load_explicit(&self->gave_up, memory_order_acquire))
		said(self, why);
	rpi_format(buf, bytes, "%s %s%s%s", who, how, *why ? ": " : "", why);
}

/* What a process says of its own failure. Its words: bound them. */
static int fail_start(const struct rp_worker *worker, uint32_t peer)
{
	const struct rpi_peer *self = &worker->plane.peers[peer];
	uint32_t phase = self->start_phase;
	int err = self->start_status;
	char why[RPI_ERROR_BYTES];
	const char *text;
	char who[64];

	if (err >= 0 || err < -ERRNO_MAX)
		err = -EPROTO;
	said(self, why);
	/* Many lines have it already. */
	text = strstr(why, strerror(-err)) ? "" : strerror(-err);
	peer_text(worker, peer, who, sizeof(who));
	return rpi_fail(err, "rp_worker_prepare: %s failed while %s: %s%s%s", who,
			phase_names[phase < RPI_PHASE_READY ? phase : RPI_PHASE_FAILED],
			why, *why && *text ? ": " : "", text);
}

/* 1 ready, 0 not yet, or the error of start-up. */
static int judge_start(struct rp_worker *worker, uint32_t peer)
{
	bool gone = rpi_process_reap(&worker->processes[peer]);
	uint32_t phase = peer_phase(worker, peer);
	char text[192];

	if (phase == RPI_PHASE_FAILED)
		return fail_start(worker, peer);
	if (gone) {
		end_text(worker, peer, text, sizeof(text));
		return rpi_fail(-EOWNERDEAD, "rp_worker_prepare: %s while %s", text,
				phase_names[phase]);
	}
	return phase == RPI_PHASE_READY;
}

static int fail_late(struct rp_worker *worker, uint32_t peer)
{
	char who[64];

	peer_text(worker, peer, who, sizeof(who));
	return rpi_fail(
		-ETIMEDOUT,
		"rp_worker_prepare: %s is not ready after startup_timeout_s %g, it "
		"is still %s",
		who, worker->options.startup_timeout_s,
		phase_names[peer_phase(worker, peer)]);
}

/* Until every process is ready: 0, or why that will not be. */
static int await_ready(struct rp_worker *worker, uint64_t deadline_ns)
{
	uint32_t count = worker->plane.peer_count;

	for (;;) {
		struct pollfd fds[RP_MAX_PEERS + 1];
		uint32_t ready = 0;
		uint32_t late = 0;
		uint64_t now_ns;
		uint64_t rung;
		uint32_t peer;

		for (peer = 0; peer < count; peer++) {
			int state = judge_start(worker, peer);

			if (state < 0)
				return state;
			ready += (uint32_t)state;
			late = state ? late : peer;
			fds[peer] = (struct pollfd){ .fd = worker->processes[peer].pidfd,
						     .events = POLLIN };
		}
		if (ready == count)
			return 0;
		now_ns = rpi_now_ns();
		if (now_ns >= deadline_ns)
			return fail_late(worker, late);
		fds[count] = (struct pollfd){ .fd = worker->start_fd, .events = POLLIN };
		if (deadline_ns - now_ns > 1000000000u)
			now_ns = deadline_ns - 1000000000u;
		poll(fds, count + 1, (int)((deadline_ns - now_ns) / 1000000u) + 1);
		if (fds[count].revents & POLLIN && read(worker->start_fd, &rung, 8) < 0)
			rung = 0;
	}
}

/* A process has ended, or must: no process may touch the caller's memory once a
 * handle says so. So the others end first, then the runs. */
static void fall(struct rp_worker *worker, const char *text)
{
	struct rpi_plane *plane = &worker->plane;
	uint64_t targets;
	uint32_t i;

	rpi_format(plane->fall_text, sizeof(plane->fall_text), "%s", text);
	atomic_store_explicit(&plane->fall, RPI_FALL_STARTED, memory_order_release);
	rpi_log(RP_LOG_ERROR, "%s", text);
	kill_all(worker);
	for (i = 0; i < plane->peer_count; i++) {
		atomic_fetch_add_explicit(&plane->peers[i].room_futex, 1,
					  memory_order_release);
		rpi_futex_wake_all(&plane->peers[i].room_futex, RPI_FUTEX_SHARED);
	}
	atomic_store_explicit(&plane->fall, RPI_FALL_OVER, memory_order_release);
	/* A submit that has not seen the fall has its run RUNNING by now. */
	rpi_fence();
	for (i = 0; i < RPI_FRAME_COUNT; i++)
		rpi_run_finish_fallen(&plane->runs[i]);
	rpi_gate_wake_all(plane);
	rpi_queue_rouse(plane->queue);
	for (i = 0; i < plane->peer_count; i++) {
		atomic_fetch_add_explicit(&plane->peers[i].reply_futex, 1,
					  memory_order_release);
		rpi_futex_wake_all(&plane->peers[i].reply_futex, RPI_FUTEX_SHARED);
	}
	targets = atomic_load_explicit(&plane->notice_targets, memory_order_acquire);
	if (targets & RPI_NOTICE_FD)
		rpi_plane_announce(plane, RPI_NOTICE_FD);
}

static enum rpi_order take_order(struct rp_worker *worker)
{
	struct rpi_supervisor *supervisor = &worker->supervisor;
	uint64_t rung;

	if (read(supervisor->order_fd, &rung, sizeof(rung)) < 0)
		return RPI_ORDER_NONE;
	return (enum rpi_order)atomic_load_explicit(&supervisor->order,
						    memory_order_acquire);
}

static void let_go(struct rp_worker *worker)
{
	struct rpi_plane *plane = &worker->plane;
	uint32_t peer;

	/* Tell all first, then wait for all. */
	for (peer = 0; peer < plane->peer_count; peer++)
		atomic_store_explicit(&plane->peers[peer].stop, 1, memory_order_release);
	rpi_rouse_all(&plane->rouser);
	if (rpi_process_reap_all(worker->processes, plane->peer_count,
				 rpi_now_ns() + LEAVE_NS))
		return;
	rpi_log(RP_LOG_WARN, "close: a worker process does not leave, killing it");
	kill_all(worker);
}

/* Sleep until a process ends or an order comes. True: time to end. */
static bool watch(struct rp_worker *worker)
{
	struct pollfd fds[RP_MAX_PEERS + 1];
	uint32_t count = worker->plane.peer_count;
	bool fallen = atomic_load_explicit(&worker->plane.fall, memory_order_relaxed) !=
		      RPI_FALL_NONE;
	char text[RPI_ERROR_BYTES];
	uint32_t peer;

	/* After a fall there is nobody left to watch: poll skips negative numbers. */
	for (peer = 0; peer < count; peer++)
		fds[peer] = (struct pollfd){ .fd = fallen ? -1
							  : worker->processes[peer].pidfd,
					     .events = POLLIN };
	fds[count] =
		(struct pollfd){ .fd = worker->supervisor.order_fd, .events = POLLIN };
	if (poll(fds, count + 1, -1) < 0)
		return false;
	for (peer = 0; peer < count; peer++) {
		if (!(fds[peer].revents & POLLIN) ||
		    !rpi_process_reap(&worker->processes[peer]))
			continue;
		end_text(worker, peer, text, sizeof(text));
		fall(worker, text);
		break;
	}
	if (!(fds[count].revents & POLLIN))
		return false;
	switch (take_order(worker)) {
	case RPI_ORDER_STOP:
		let_go(worker);
		return true;
	case RPI_ORDER_KILL:
		if (atomic_load_explicit(&worker->plane.fall, memory_order_relaxed) ==
		    RPI_FALL_NONE)
			fall(worker, "the worker was killed: dispatches or copies were "
				     "still running at the deadline of "
				     "rp_worker_close()");
		return true;
	default:
		return false;
	}
}

static void *supervise(void *arg)
{
	struct rp_worker *worker = arg;
	double timeout_ns = worker->options.startup_timeout_s * 1e9;
	uint64_t deadline_ns = rpi_now_ns();
	uint32_t peer;
	int err;

	deadline_ns += timeout_ns < 9e18 ? (uint64_t)timeout_ns : UINT64_MAX / 2;
	err = rpi_leave_register(worker);
	if (!err) {
		err = fork_all(worker, getpid());
		rpi_leave_unregister(worker);
	}
	if (!err)
		err = await_ready(worker, deadline_ns);
	if (err)
		kill_all(worker);
	decide(worker, err);
	while (!err && !watch(worker))
		;
	for (peer = 0; peer < worker->plane.peer_count; peer++)
		rpi_process_forget(&worker->processes[peer]);
	return NULL;
}

int rpi_supervisor_start(struct rp_worker *worker)
{
	struct rpi_supervisor *supervisor = &worker->supervisor;
	int err;

	/* A child forked from it starts with every signal blocked. */
	err = rpi_thread_start(&supervisor->thread, "rp-supervisor", supervise, worker);
	if (err)
		return err;
	supervisor->started = true;
	pthread_mutex_lock(&supervisor->lock);
	while (!supervisor->ready)
		pthread_cond_wait(&supervisor->changed, &supervisor->lock);
	err = supervisor->status;
	pthread_mutex_unlock(&supervisor->lock);
	if (err) {
		rpi_supervisor_join(worker);
		rpi_error_set(supervisor->text);
	}
	return err;
}

void rpi_supervisor_order(struct rp_worker *worker, enum rpi_order order)
{
	uint64_t one = 1;

	atomic_store_explicit(&worker->supervisor.order, order, memory_order_release);
	while (write(worker->supervisor.order_fd, &one, sizeof(one)) < 0 &&
	       errno == EINTR)
		;
}

void rpi_supervisor_join(struct rp_worker *worker)
{
	if (worker->supervisor.started)
		pthread_join(worker->supervisor.thread, NULL);
	worker->supervisor.started = false;
}
