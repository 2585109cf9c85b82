/* SPDX-License-Identifier: MIT */
/* Another program, run as a child whose output is kept apart from ours. */
#ifndef BENCH_SPAWN_H
#define BENCH_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

struct bench_spawn {
	pid_t pid;    /* 0: none, or reaped */
	int out, err; /* memory files of what it writes; -1: none */
};

/*
 * Start argv[0], looked up in PATH, wherever rpbench may run. It is asked to end when
 * rpbench does.
 *
 * input  what it finds on stdin; NULL: nothing.
 *
 * Returns 0 or negative errno. A program that is not there ends with status 127.
 */
int bench_spawn_start(struct bench_spawn *s, const char *const *argv, const char *input);

/* 1: it has ended, and *status_out is waitpid()'s; 0: not within the time. */
int bench_spawn_wait(struct bench_spawn *s, int64_t timeout_ns, int *status_out);

/* End it, asked first, and release what is kept; safe twice. */
void bench_spawn_stop(struct bench_spawn *s);

/* What it has written so far, with a zero at the end; the caller's to free. NULL: no
 * memory. */
char *bench_spawn_text(int fd);

/* The last line of what it said on stderr, or on stdout, or "". */
void bench_spawn_last_line(const struct bench_spawn *s, char *line, size_t bytes);

#endif
