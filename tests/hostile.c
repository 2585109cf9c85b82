/* SPDX-License-Identifier: MIT */
/*
 * A client of epoll-server or uring-server that means no good.
 *
 * hostile HOW SOCKET: says so and ends with 1 when the server does not behave. `crowd`
 * and `deaf` stay until they are killed; `deaf` prints a line when it has got so far.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol.h"
#include "socket.h"

#define CROWD	   500
#define DEAF	   8
#define GONE	   64
#define STALLED_MS 200

static const char *path;

static void fail(const char *what)
{
	fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int connected(void)
{
	int fd = socket_connect(path);

	if (fd < 0) {
		errno = -fd;
		fail("connect");
	}
	return fd;
}

static void must_answer(int fd, uint32_t work_us, int32_t status)
{
	const struct request request = { .id = 7, .work_us = work_us, .values = { 3 } };
	struct response response = { 0 };

	if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		fail("send");
	if (recv(fd, &response, sizeof(response), 0) != sizeof(response))
		fail("no answer");
	if (response.id != 7 || response.status != status ||
	    response.values[0] != (status ? 0 : 7))
		fail("a wrong answer");
}

/* What is no request ends the connection, and that one alone. */
static void garbage(void)
{
	static char bytes[65536];
	const size_t sizes[] = { 1,
				 sizeof(struct request) / 2,
				 sizeof(struct request) - 1,
				 sizeof(struct request) + 1,
				 sizeof(bytes),
				 0 };
	int good = connected();

	memset(bytes, 0x5a, sizeof(bytes));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int fd = connected();

		if (send(fd, bytes, sizes[i], MSG_NOSIGNAL) != (ssize_t)sizes[i])
			fail("send");
		if (recv(fd, bytes, sizeof(bytes), 0) > 0)
			fail("an answer to garbage");
		close(fd);
		must_answer(good, 0, 0);
	}
	close(good);
}

/* Too much work is refused, and the client may go on. */
static void huge(void)
{
	int fd = connected();

	must_answer(fd, UINT32_MAX, -EINVAL);
	must_answer(fd, WORK_US_MAX + 1, -EINVAL);
	must_answer(fd, 0, 0);
	close(fd);
}

/* Gone with a request in flight or queued. */
static void gone(void)
{
	const struct request request = { .work_us = 5000 };

	for (int i = 0; i < GONE; i++) {
		int fd = connected();

		if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
			fail("send");
		close(fd);
	}
}

static void stay(void)
{
	for (;;)
		pause();
}

/* More than there is room for: the last ones never get through. */
static void crowd(void)
{
	for (int i = 0; i < CROWD; i++)
		connected();
	stay();
}

/* Ask as long as the server listens, and read nothing. */
static void deaf(void)
{
	const struct request request = { 0 };
	int fds[DEAF];

	for (int i = 0; i < DEAF; i++)
		fds[i] = connected();
	for (int i = 0; i < DEAF; i++) {
		struct pollfd room = { .fd = fds[i], .events = POLLOUT };

		while (poll(&room, 1, STALLED_MS) > 0 &&
		       send(fds[i], &request, sizeof(request),
			    MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
			;
	}
	printf("deaf\n");
	fflush(stdout);
	stay();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *how;
		void (*run)(void);
	} ways[] = { { "garbage", garbage },
		     { "huge", huge },
		     { "gone", gone },
		     { "crowd", crowd },
		     { "deaf", deaf } };

	path = argc == 3 ? argv[2] : "";
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (argc == 3 && !strcmp(argv[1], ways[i].how)) {
			ways[i].run();
			return 0;
		}
	fprintf(stderr, "hostile: expected garbage, huge, gone, crowd or deaf, and a "
			"socket\n");
	return 2;
}
