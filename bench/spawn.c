/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "spawn.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "topology.h"

/* What a program that is asked to end gets before it is killed. */
#define END_NS	INT64_C(3000000000)
#define STEP_NS 1000000

static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t put = write(fd, text, left);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return -EIO;
		text += put;
		left -= (size_t)put;
	}
	return lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

static int memory_file(const char *name)
{
	int fd = rpi_descriptor_above_standard(memfd_create(name, MFD_CLOEXEC));

	return fd < 0 ? rpi_fail(fd, "memfd_create: %s: %s", name, strerror(-fd)) : fd;
}

__attribute__((noreturn)) static void child(const struct bench_spawn *s, pid_t parent,
					    const char *const *argv, int in)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
		_exit(127);
	bench_cpu_allow(NULL, 0);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(s->out, STDOUT_FILENO) < 0 ||
	    dup2(s->err, STDERR_FILENO) < 0)
		_exit(127);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int bench_spawn_start(struct bench_spawn *s, const char *const *argv, const char *input)
{
	pid_t parent = getpid();
	int in = memory_file("input"), err = 0;

	*s = (struct bench_spawn){ .out = -1, .err = -1 };
	if (in < 0)
		return in;
	s->out = memory_file("stdout");
	s->err = memory_file("stderr");
	if (s->out < 0 || s->err < 0)
		err = s->out < 0 ? s->out : s->err;
	else if (input && write_all(in, input))
		err = rpi_fail(-EIO, "%s: its input could not be written", argv[0]);
	if (!err) {
		s->pid = fork();
		if (!s->pid)
			child(s, parent, argv, in);
		if (s->pid < 0) {
			err = rpi_fail(-errno, "fork: %s: %s", argv[0], strerror(errno));
			s->pid = 0;
		}
	}
	close(in);
	if (err)
		bench_spawn_stop(s);
	return err;
}

int bench_spawn_wait(struct bench_spawn *s, int64_t timeout_ns, int *status_out)
{
	uint64_t begin = rpi_now_ns();

	for (;;) {
		pid_t got = waitpid(s->pid, status_out, WNOHANG);

		if (got == s->pid || (got < 0 && errno != EINTR)) {
			if (got < 0)
				*status_out = W_EXITCODE(1, 0); /* nobody knows it */
			s->pid = 0;
			return 1;
		}
		if ((int64_t)(rpi_now_ns() - begin) >= timeout_ns)
			return 0;
		usleep(STEP_NS / 1000);
	}
}

void bench_spawn_stop(struct bench_spawn *s)
{
	int status;

	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		if (!bench_spawn_wait(s, END_NS, &status)) {
			kill(s->pid, SIGKILL);
			bench_spawn_wait(s, INT64_MAX, &status);
		}
	}
	if (s->out >= 0)
		close(s->out);
	if (s->err >= 0)
		close(s->err);
	s->out = s->err = -1;
}

char *bench_spawn_text(int fd)
{
	struct stat st;
	char *text;
	ssize_t got;

	if (fstat(fd, &st))
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return NULL;
	got = pread(fd, text, (size_t)st.st_size, 0);
	text[got > 0 ? got : 0] = '\0';
	return text;
}

/* The last line that has a letter in it; false where there is none. */
static bool last_line(int fd, char *line, size_t bytes)
{
	char *text = fd < 0 ? NULL : bench_spawn_text(fd), *next = text, *one;
	bool any = false;

	while ((one = strsep(&next, "\r\n"))) {
		size_t at = 0;

		while (one[at] && !isalpha((unsigned char)one[at]))
			at++;
		if (!one[at])
			continue;
		rpi_format(line, bytes, "%s", one);
		any = true;
	}
	free(text);
	return any;
}

void bench_spawn_last_line(const struct bench_spawn *s, char *line, size_t bytes)
{
	line[0] = '\0';
	if (!last_line(s->err, line, bytes))
		last_line(s->out, line, bytes);
}
