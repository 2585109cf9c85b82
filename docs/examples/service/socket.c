/* SPDX-License-Identifier: MIT */
#include "socket.h"

#include <errno.h>
#include <popt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64
/* How often another server is looked for, and how long after each look. */
#define LOOKS	20
#define LOOK_US 10000

static int make(const char *path, int flags, struct sockaddr_un *address)
{
	int fd;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* To bind the empty name is to have the kernel choose one. */
	if (!*path)
		return -EINVAL;
	if (strlen(path) >= sizeof(address->sun_path))
		return -ENAMETOOLONG;
	memcpy(address->sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	return fd < 0 ? -errno : fd;
}

static int reach(const char *path, int flags)
{
	struct sockaddr_un address;
	int fd = make(path, flags, &address);

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

int socket_connect(const char *path)
{
	return reach(path, 0);
}

/* 0 if one answers. A server that was killed a moment ago seems to, until the kernel has
 * ended what it had asked of an io_uring: only who goes on answering is there. */
static int find_server(const char *path)
{
	int fd = reach(path, SOCK_NONBLOCK);

	for (int i = 1; fd >= 0 && i < LOOKS; i++) {
		close(fd);
		usleep(LOOK_US);
		fd = reach(path, SOCK_NONBLOCK);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int socket_listen(const char *path)
{
	struct sockaddr_un address;
	struct stat file;
	int fd = find_server(path), err;

	if (!fd)
		return -EADDRINUSE;
	/* Left behind by a server that was killed. A file of another kind refuses, too,
	 * and is somebody's. */
	if (fd == -ECONNREFUSED && !lstat(path, &file) && S_ISSOCK(file.st_mode))
		unlink(path);
	fd = make(path, SOCK_NONBLOCK, &address);
	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(fd, BACKLOG)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int socket_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

const char *socket_option(const char *name, int argc, char **argv)
{
	static char *path;
	struct poptOption table[] = { { "socket", 's', POPT_ARG_STRING, &path, 0,
					"where to listen", "PATH" },
				      POPT_AUTOHELP POPT_TABLEEND };
	poptContext context = poptGetContext(name, argc, (const char **)argv, table, 0);
	int got = context ? poptGetNextOpt(context) : -2;

	if (got < -1 || !path || poptPeekArg(context)) {
		fprintf(stderr, "%s: expected --socket PATH and nothing else\n", name);
		exit(2);
	}
	poptFreeContext(context);
	return path;
}
