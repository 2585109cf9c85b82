/* SPDX-License-Identifier: MIT */
/*
 * A server around epoll: many clients, one worker, both of its frames in flight. The
 * worker is one more descriptor of the loop. SIGTERM: what is in flight is answered, then
 * it ends with 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ringplane/error.h>

#include "service.h"
#include "socket.h"

#define CLIENTS_MAX 256
#define EVENTS	    64
/* How soon a full server looks whether a descriptor has come free elsewhere. */
#define LOOK_NS INT64_C(100000000)

struct client {
	struct job job;
	int fd; /* -1: free */
};

/* What an event belongs to: a client by its place, or one of these. */
enum {
	EVENT_LISTEN = CLIENTS_MAX,
	EVENT_SIGNAL,
	EVENT_WORKER,
};

struct server {
	struct service *service;
	struct client clients[CLIENTS_MAX];
	int epoll_fd, listen_fd, worker_fd;
	uint64_t restarts; /* that the loop knows of */
	bool accepting, knocked;
};

static int watch(struct server *s, int fd, uint64_t what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = what };

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* A client is heard only while it has no job. */
static void listen_to(struct server *s, struct client *client, bool on)
{
	struct epoll_event event = { .events = on ? EPOLLIN : 0,
				     .data.u64 = (uint64_t)(client - s->clients) };

	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, client->fd, &event);
}

static void accept_again(struct server *s)
{
	if (!s->accepting)
		s->accepting = !watch(s, s->listen_fd, EVENT_LISTEN);
}

static void close_client(struct server *s, struct client *client)
{
	if (client->job.active)
		service_drop(s->service, &client->job);
	close(client->fd);
	client->fd = -1;
	accept_again(s);
}

static void answer(struct job *job, void *user)
{
	struct client *client = (struct client *)job;
	struct server *s = user;

	/* There is no room only for a client that reads no answers: it has to go. */
	if (send(client->fd, &job->response, sizeof(job->response),
		 MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		close_client(s, client);
	else
		listen_to(s, client, true);
}

static int hear(struct server *s, struct client *client)
{
	/* MSG_TRUNC: the message's own length, also where it is too long. */
	ssize_t got = recv(client->fd, &client->job.request, sizeof(client->job.request),
			   MSG_DONTWAIT | MSG_TRUNC);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got != sizeof(client->job.request)) {
		close_client(s, client);
		return 0;
	}
	listen_to(s, client, false);
	return service_add(s->service, &client->job);
}

/* With no place left, or no descriptor, who knocks waits in the backlog. */
static void accept_clients(struct server *s)
{
	s->knocked = false;
	for (uint64_t i = 0; i < CLIENTS_MAX; i++) {
		if (s->clients[i].fd >= 0)
			continue;
		s->clients[i].fd =
			accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (s->clients[i].fd < 0 && errno == EAGAIN)
			return;
		if (s->clients[i].fd < 0)
			break;
		if (watch(s, s->clients[i].fd, i))
			close_client(s, &s->clients[i]);
	}
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listen_fd, NULL);
	s->accepting = false;
}

/* A worker that was prepared anew has another descriptor. */
static int watch_worker(struct server *s)
{
	struct service_counts counts;

	service_get_counts(s->service, &counts);
	if (s->worker_fd >= 0 && counts.restarts == s->restarts)
		return 0;
	s->restarts = counts.restarts;
	s->worker_fd = service_fd(s->service);
	return watch(s, s->worker_fd, EVENT_WORKER);
}

/* 1: a signal says that it is time to go. */
static int handle(struct server *s, const struct epoll_event *event)
{
	uint64_t what = event->data.u64;

	if (what == EVENT_SIGNAL)
		return 1;
	if (what == EVENT_LISTEN) {
		/* Last: an event to come may be of a client whose place is free now. */
		s->knocked = true;
		return 0;
	}
	if (what == EVENT_WORKER || s->clients[what].fd < 0)
		return 0; /* service_poll() comes anyway */
	if (event->events & EPOLLIN)
		return hear(s, &s->clients[what]);
	close_client(s, &s->clients[what]);
	return 0;
}

static int loop(struct server *s)
{
	struct epoll_event events[EVENTS];
	int err = 0;

	while (!err) {
		int64_t ns = service_timeout_ns(s->service);
		int count;

		if (!s->accepting && (ns < 0 || ns > LOOK_NS))
			ns = LOOK_NS;
		/* Rounded up: not to wake just before a deadline. */
		count = epoll_wait(s->epoll_fd, events, EVENTS,
				   ns < 0 ? -1 : (int)(ns / 1000000 + 1));
		for (int i = 0; i < count && !err; i++)
			err = handle(s, &events[i]);
		if (s->knocked)
			accept_clients(s);
		else if (!count)
			accept_again(s);
		if (!err)
			err = service_poll(s->service);
		if (!err)
			err = watch_worker(s);
	}
	return err < 0 ? err : 0;
}

static int open_server(struct server *s, const char *path, int signals)
{
	const struct service_options options = { .ring_fd = -1,
						 .done = answer,
						 .user = s };
	int err = service_open(&options, &s->service);

	if (err)
		return err;
	s->listen_fd = socket_listen(path);
	if (s->listen_fd < 0)
		return s->listen_fd;
	s->accepting = true;
	err = watch(s, s->listen_fd, EVENT_LISTEN);
	if (!err)
		err = watch(s, signals, EVENT_SIGNAL);
	return err ? err : watch_worker(s);
}

static int close_server(struct server *s, const char *path)
{
	int err = 0;

	if (s->listen_fd >= 0) {
		unlink(path);
		close(s->listen_fd);
	}
	if (s->service) {
		err = service_close(s->service, "epoll-server");
	}
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (s->clients[i].fd >= 0)
			close(s->clients[i].fd);
	close(s->epoll_fd);
	return err;
}

int main(int argc, char **argv)
{
	static struct server server = { .listen_fd = -1, .worker_fd = -1 };
	const char *path = socket_option("epoll-server", argc, argv);
	int signals = socket_signals(), err, closed;

	for (int i = 0; i < CLIENTS_MAX; i++)
		server.clients[i].fd = -1;
	server.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (signals < 0 || server.epoll_fd < 0)
		return fprintf(stderr, "epoll-server: no descriptor\n"), 1;
	err = open_server(&server, path, signals);
	if (!err)
		err = loop(&server);
	if (err)
		fprintf(stderr, "epoll-server: %s: %s %s\n", path, strerror(-err),
			rp_last_error());
	closed = close_server(&server, path);
	close(signals);
	return err || closed ? 1 : 0;
}
