/* SPDX-License-Identifier: MIT */
/* A forked child that is watched through a pidfd: no SIGCHLD, and no wait for
 * anybody else's children. */
#ifndef RPI_PROCESS_PROCESS_H
#define RPI_PROCESS_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum rpi_end {
	RPI_END_NONE = 0,    /* still there */
	RPI_END_EXITED = 1,  /* code: exit status */
	RPI_END_KILLED = 2,  /* code: signal */
	RPI_END_UNKNOWN = 3, /* somebody else reaped it */
};

struct rpi_process {
	/* 0: not forked, or gone. Its owner alone writes it; any thread may read it, and
	 * needs nothing else of it. */
	_Atomic(pid_t) pid;
	int pidfd; /* -1 likewise */
	enum rpi_end end;
	int code;
};

/* Its pid while it is there, else 0. */
static inline pid_t rpi_process_pid(const struct rpi_process *process)
{
	return atomic_load_explicit(&process->pid, memory_order_relaxed);
}

/* The child's body: returns its exit status. Runs in the child only. */
typedef int (*rpi_process_fn)(void *arg);

/* Fork. 0, or a negative errno with nothing left behind and an error line that says
 * what failed; the caller knows for whom. */
int rpi_process_fork(struct rpi_process *process, rpi_process_fn body, void *arg);

/* Reap it if it has ended: true when it is (or was) gone. Never blocks. */
bool rpi_process_reap(struct rpi_process *process);

/* Send SIGKILL; nothing for one that is gone. */
void rpi_process_kill(const struct rpi_process *process);

/* Close the pidfd of one that is gone. */
void rpi_process_forget(struct rpi_process *process);

/* Wait until all have ended, or until deadline_ns (CLOCK_MONOTONIC): true when
 * they have. */
bool rpi_process_reap_all(struct rpi_process *processes, uint32_t count,
			  uint64_t deadline_ns);

/* "exited with status 3", "was killed by signal 11 (Segmentation fault)". */
void rpi_process_end_text(const struct rpi_process *process, char *buf, size_t bytes);

#endif
