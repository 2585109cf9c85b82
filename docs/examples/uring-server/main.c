/* SPDX-License-Identifier: MIT */
/*
 * A server around an io_uring of its own, which the worker posts to: accepts, receives,
 * sends and finished dispatches are all completions of one ring. SIGTERM: what is in
 * flight is answered, then it ends with 0.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ringplane/error.h>

#include "service.h"
#include "socket.h"

#define CLIENTS_MAX  256
#define RING_ENTRIES 512 /* a request of each client, and some more */
/* How often the worker is looked at where nothing happens at all. */
#define LOOK_NS INT64_C(100000000)

enum state {
	CLIENT_FREE,
	CLIENT_RECEIVES,
	CLIENT_WAITS, /* for its job */
	CLIENT_SENDS,
};

struct client {
	struct job job;
	enum state state;
	int fd;
};

/* What a completion belongs to: a client by its place, or one of these. */
enum {
	TAG_ACCEPT = CLIENTS_MAX,
	TAG_SIGNAL,
	TAG_WORKER,
};

struct server {
	struct service *service;
	struct io_uring ring;
	struct client clients[CLIENTS_MAX];
	int listen_fd;
	bool accepting, stopping;
};

static struct io_uring_sqe *request_of(struct server *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);

	if (!sqe) {
		/* Full: hand over what there is. */
		io_uring_submit(&s->ring);
		sqe = io_uring_get_sqe(&s->ring);
	}
	if (!sqe)
		abort(); /* each client has one request at most */
	return sqe;
}

/* MSG_TRUNC: the message's own length, also where it is too long. */
static void receive(struct server *s, struct client *client)
{
	uint64_t tag = (uint64_t)(client - s->clients);
	struct io_uring_sqe *sqe = request_of(s);

	io_uring_prep_recv(sqe, client->fd, &client->job.request,
			   sizeof(client->job.request), MSG_TRUNC);
	io_uring_sqe_set_data64(sqe, tag);
	client->state = CLIENT_RECEIVES;
}

/* A client that leaves so many answers unread that there is no room for one more is not
 * waited for: its place and its descriptor are for those who read. */
static void answer(struct job *job, void *user)
{
	struct client *client = (struct client *)job;
	struct server *s = user;
	uint64_t tag = (uint64_t)(client - s->clients);
	struct io_uring_sqe *sqe = request_of(s);

	io_uring_prep_send(sqe, client->fd, &job->response, sizeof(job->response),
			   MSG_DONTWAIT | MSG_NOSIGNAL);
	io_uring_sqe_set_data64(sqe, tag);
	client->state = CLIENT_SENDS;
}

/* With no place left, who knocks waits in the backlog. */
static void accept_next(struct server *s)
{
	struct io_uring_sqe *sqe;
	int i = 0;

	while (i < CLIENTS_MAX && s->clients[i].state != CLIENT_FREE)
		i++;
	if (i == CLIENTS_MAX || s->accepting || s->stopping)
		return;
	sqe = request_of(s);
	io_uring_prep_accept(sqe, s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	io_uring_sqe_set_data64(sqe, TAG_ACCEPT);
	s->accepting = true;
}

static void close_client(struct server *s, struct client *client)
{
	close(client->fd);
	client->state = CLIENT_FREE;
	accept_next(s);
}

static void accepted(struct server *s, int fd)
{
	s->accepting = false;
	/* No descriptor is left: the next try is due when one has come free here, or the
	 * loop has nothing to do. */
	if (fd < 0)
		return;
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (s->clients[i].state != CLIENT_FREE)
			continue;
		s->clients[i].fd = fd;
		receive(s, &s->clients[i]);
		break;
	}
	accept_next(s);
}

/* A request of a client has ended. */
static int advance(struct server *s, struct client *client, int got)
{
	if (client->state == CLIENT_RECEIVES) {
		if (got != sizeof(client->job.request)) {
			close_client(s, client);
			return 0;
		}
		client->state = CLIENT_WAITS;
		return service_add(s->service, &client->job);
	}
	if (got < 0)
		close_client(s, client);
	else if (!s->stopping)
		receive(s, client);
	return 0;
}

static int handle(struct server *s, const struct io_uring_cqe *cqe)
{
	uint64_t tag = cqe->user_data;

	if (tag == TAG_SIGNAL)
		s->stopping = true;
	else if (tag == TAG_ACCEPT)
		accepted(s, cqe->res);
	else if (tag < CLIENTS_MAX)
		return advance(s, &s->clients[tag], cqe->res);
	return 0; /* the worker: service_poll() comes anyway */
}

static int loop(struct server *s)
{
	int err = 0;

	while (!err && !s->stopping) {
		int64_t ns = service_timeout_ns(s->service);
		struct __kernel_timespec timeout;
		struct io_uring_cqe *cqe;
		unsigned int head, count = 0;
		int waited;

		/* A chip that dies idle posts nothing: look now and then. */
		if (ns < 0 || ns > LOOK_NS)
			ns = LOOK_NS;
		timeout.tv_sec = 0;
		timeout.tv_nsec = ns;
		waited = io_uring_submit_and_wait_timeout(&s->ring, &cqe, 1, &timeout,
							  NULL);
		if (waited < 0 && waited != -ETIME && waited != -EINTR)
			return waited;
		if (waited == -ETIME)
			accept_next(s);
		io_uring_for_each_cqe(&s->ring, head, cqe)
		{
			count++;
			err = handle(s, cqe);
			if (err)
				break;
		}
		io_uring_cq_advance(&s->ring, count);
		if (!err)
			err = service_poll(s->service);
	}
	return err;
}

/* Hand over the last answers. The ring's end takes back what still waits. */
static void flush(struct server *s)
{
	struct __kernel_timespec timeout = { .tv_sec = 1 };
	struct io_uring_cqe *cqe;

	for (;;) {
		int sending = 0;

		for (int i = 0; i < CLIENTS_MAX; i++)
			sending += s->clients[i].state == CLIENT_SENDS;
		if (!sending || io_uring_submit_and_wait_timeout(&s->ring, &cqe, 1,
								 &timeout, NULL) < 0)
			return;
		if (cqe->user_data < CLIENTS_MAX &&
		    s->clients[cqe->user_data].state == CLIENT_SENDS)
			close_client(s, &s->clients[cqe->user_data]);
		io_uring_cqe_seen(&s->ring, cqe);
	}
}

static int open_server(struct server *s, const char *path, int signals)
{
	const struct service_options options = { .ring_fd = s->ring.ring_fd,
						 .ring_user_data = TAG_WORKER,
						 .done = answer,
						 .user = s };
	struct io_uring_sqe *sqe;
	int err = service_open(&options, &s->service);

	if (err)
		return err;
	s->listen_fd = socket_listen(path);
	if (s->listen_fd < 0)
		return s->listen_fd;
	sqe = request_of(s);
	io_uring_prep_poll_add(sqe, signals, POLLIN);
	io_uring_sqe_set_data64(sqe, TAG_SIGNAL);
	accept_next(s);
	return 0;
}

static int close_server(struct server *s, const char *path)
{
	int err = 0;

	s->stopping = true;
	if (s->listen_fd >= 0) {
		unlink(path);
		close(s->listen_fd);
	}
	if (s->service) {
		err = service_close(s->service, "uring-server");
		flush(s);
	}
	io_uring_queue_exit(&s->ring);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (s->clients[i].state != CLIENT_FREE)
			close(s->clients[i].fd);
	return err;
}

int main(int argc, char **argv)
{
	static struct server server = { .listen_fd = -1 };
	const char *path = socket_option("uring-server", argc, argv);
	int signals = socket_signals(), err, closed;

	if (signals < 0)
		return fprintf(stderr, "uring-server: no descriptor for signals\n"), 1;
	/* Before prepare: the worker's processes inherit it. */
	err = io_uring_queue_init(RING_ENTRIES, &server.ring, 0);
	if (err)
		return fprintf(stderr, "uring-server: no io_uring: %s\n", strerror(-err)),
		       77;
	err = open_server(&server, path, signals);
	if (!err)
		err = loop(&server);
	if (err)
		fprintf(stderr, "uring-server: %s: %s %s\n", path, strerror(-err),
			rp_last_error());
	closed = close_server(&server, path);
	close(signals);
	return err || closed ? 1 : 0;
}
