/* SPDX-License-Identifier: MIT */
/*
 * What /proc knows about processes, for tests that ask what is left of them. Every
 * count of this process is taken as it is seen from outside.
 */
#ifndef RPI_TESTS_PROC_H
#define RPI_TESTS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* Ends a hang, and its going off is a failure; never a speed limit. */
#define PROC_WATCHDOG_S 120

/* How long proc_await() looks before it gives up: a watchdog likewise. */
#define PROC_PATIENCE_NS (UINT64_C(20) * 1000000000u)

/* What a process holds of the things that leak. */
struct proc_census {
	int fds;
	int memfds; /* mappings of memfds */
	int rings;  /* mappings of io_uring */
	int threads;
	int children; /* zombies too */
	int zombies;
};

void proc_census_take(struct proc_census *census_out);

/* Whether this process holds what it held then. A thread that was joined, or a
 * descriptor that the kernel closes late, gets a moment. Prints what differs. */
bool proc_census_same(const struct proc_census *before);

/* Counts of one process; -1 when it is gone. */
int proc_fd_count(pid_t pid);
int proc_map_count(pid_t pid, const char *needle); /* lines of maps; NULL: all */
int proc_shared_count(
	pid_t pid); /* mappings that others may share: all regions, and little else */
int proc_thread_count(pid_t pid);

/* CPU time that all threads of a process have used, in ns; 0 when it is gone. */
uint64_t proc_cpu_ns(pid_t pid);

/* 'R', 'S', 'D', 'T', 'Z', ...; 0 when there is no such process. */
char proc_state(pid_t pid);

/* Of one thread of this process. */
char proc_thread_state(pid_t tid);

/* Gone, or dead and waiting for a parent that is not this process. */
bool proc_is_gone(pid_t pid);

/* What `ps` shows; "" when it is gone. */
void proc_name(pid_t pid, char *buf, size_t bytes);

/* A hexadecimal field of /proc/pid/status ("SigIgn"); UINT64_MAX when missing. */
uint64_t proc_status_mask(pid_t pid, const char *field);

/* Children of a process in the order of /proc; returns how many there are. */
int proc_children(pid_t pid, pid_t *pids_out, int max);

/* What descriptor fd of a process is, as readlink shows it; "" for none. */
void proc_fd_link(pid_t pid, int fd, char *buf, size_t bytes);

/* Whether any descriptor of a process is this one of ours (same file). */
bool proc_holds(pid_t pid, int fd);

/* Until cond(arg) is true, looked at each millisecond: false after the patience. */
bool proc_await(bool (*cond)(void *arg), void *arg);

bool proc_await_gone(pid_t pid);

/* A handler of SIGCHLD, of a host that takes the status of every child there is. */
void proc_reap_everything(int sig);

uint64_t proc_now_ns(void);
void proc_pause_us(unsigned us);

/*
 * Run body(arg) in a forked process: a host application of its own. Its exit
 * status is body's return value, 0 to 127; it is killed when the caller dies.
 * Returns its wait status.
 */
int proc_in_host(int (*body)(void *arg), void *arg);

/* The same, not waited for. */
pid_t proc_fork_host(int (*body)(void *arg), void *arg);

/* Whether abort() ends it, as a failed assertion does. What it prints is not shown. */
bool proc_aborts(int (*body)(void *arg), void *arg);

/* For code in a host: an assertion of the test framework would go on with the next
 * test there. */
#define PROC_MUST(cond)                                                            \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			_exit(99);                                                 \
		}                                                                  \
	} while (0)

#endif
