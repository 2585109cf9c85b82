/* SPDX-License-Identifier: MIT */
#include "process/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/testing.h"

/* <linux/wait.h> has it everywhere; older libcs leave it out of idtype_t. */
#define WAIT_BY_PIDFD ((idtype_t)3)

static void set_pid(struct rpi_process *process, pid_t pid)
{
	atomic_store_explicit(&process->pid, pid, memory_order_relaxed);
}

int rpi_process_fork(struct rpi_process *process, rpi_process_fn body, void *arg)
{
	int err = rpi_test_point("process.fork");
	pid_t pid;
	int fd;

	atomic_init(&process->pid, 0);
	process->pidfd = -1;
	process->end = RPI_END_NONE;
	process->code = 0;
	if (err)
		return rpi_fail(err, "fork: %s", strerror(-err));
	pid = fork();
	if (pid < 0) {
		err = -errno;
		return rpi_fail(err, "fork: %s", strerror(-err));
	}
	if (!pid)
		_exit(body(arg));
	/* Close-on-exec by itself. */
	fd = rpi_descriptor_above_standard((int)syscall(SYS_pidfd_open, pid, 0));
	if (fd == -ESRCH) {
		/* Ended already, and the host has taken its status. */
		process->end = RPI_END_UNKNOWN;
		return 0;
	}
	if (fd < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return rpi_fail(fd, "a descriptor to watch it by: %s", strerror(-fd));
	}
	set_pid(process, pid);
	process->pidfd = fd;
	return 0;
}

bool rpi_process_reap(struct rpi_process *process)
{
	siginfo_t info;

	if (!rpi_process_pid(process))
		return true;
	memset(&info, 0, sizeof(info));
	if (waitid(WAIT_BY_PIDFD, (id_t)process->pidfd, &info, WEXITED | WNOHANG)) {
		struct pollfd fd = { .fd = process->pidfd, .events = POLLIN };

		/* ECHILD: the host reaps every child, or ignores SIGCHLD. The pidfd
		 * still says when it has ended. */
		if (errno != ECHILD || poll(&fd, 1, 0) != 1)
			return false;
		process->end = RPI_END_UNKNOWN;
	} else if (!info.si_pid) {
		return false;
	} else if (info.si_code == CLD_EXITED) {
		process->end = RPI_END_EXITED;
		process->code = info.si_status;
	} else {
		process->end = RPI_END_KILLED;
		process->code = info.si_status;
	}
	set_pid(process, 0);
	return true;
}

void rpi_process_kill(const struct rpi_process *process)
{
	if (rpi_process_pid(process))
		syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
}

void rpi_process_forget(struct rpi_process *process)
{
	if (process->pidfd >= 0)
		close(process->pidfd);
	process->pidfd = -1;
}

bool rpi_process_reap_all(struct rpi_process *processes, uint32_t count,
			  uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd fds[64];
		nfds_t left = 0;
		uint64_t now_ns = rpi_now_ns();
		uint32_t i;
		int timeout_ms;

		for (i = 0; i < count; i++)
			if (!rpi_process_reap(&processes[i]))
				fds[left++] = (struct pollfd){ .fd = processes[i].pidfd,
							       .events = POLLIN };
		if (!left)
			return true;
		if (now_ns >= deadline_ns)
			return false;
		timeout_ms = deadline_ns - now_ns > 1000000000u
				     ? 1000
				     : (int)((deadline_ns - now_ns) / 1000000u) + 1;
		poll(fds, left, timeout_ms);
	}
}

void rpi_process_end_text(const struct rpi_process *process, char *buf, size_t bytes)
{
	switch (process->end) {
	case RPI_END_EXITED:
		rpi_format(buf, bytes, "exited with status %d", process->code);
		break;
	case RPI_END_KILLED:
		rpi_format(buf, bytes, "was killed by signal %d (%s)", process->code,
			   strsignal(process->code));
		break;
	case RPI_END_UNKNOWN:
		rpi_format(buf, bytes, "ended, its status was taken by somebody else");
		break;
	default:
		rpi_format(buf, bytes, "is running");
		break;
	}
}
