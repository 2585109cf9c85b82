/* SPDX-License-Identifier: MIT */
/*
 * Clients of epoll-server or uring-server: each sends a request, waits for its answer,
 * checks it, and sends the next. In the end it prints how long answers took. It ends
 * with 1 when an answer was wrong or a connection broke.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <popt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "histogram.h"
#include "protocol.h"
#include "socket.h"

#define CLIENTS_MAX 256
#define SECONDS_MAX 1e6
/* A server that answers nothing for so long has a fault. */
#define SILENT_S 20

struct options {
	char *path;
	int clients, work_us, deadline_us;
	double seconds;
};

struct client {
	struct request request;
	int64_t begin_ns;
	bool waits;
};

struct load {
	struct options options;
	struct client clients[CLIENTS_MAX];
	struct pollfd polls[CLIENTS_MAX];
	struct histogram times;
	uint64_t served, timed_out, failed, next_id;
};

static int parse(struct options *o, int argc, char **argv)
{
	struct poptOption table[] = {
		{ "socket", 's', POPT_ARG_STRING, &o->path, 0, "where the server listens",
		  "PATH" },
		{ "clients", 'c', POPT_ARG_INT, &o->clients, 0,
		  "connections, each with one request at a time (8)", "N" },
		{ "seconds", 't', POPT_ARG_DOUBLE, &o->seconds, 0, "how long (2)", "S" },
		{ "work-us", 'w', POPT_ARG_INT, &o->work_us, 0,
		  "what each request asks of a chip (0)", "US" },
		{ "deadline-us", 'd', POPT_ARG_INT, &o->deadline_us, 0,
		  "after which it is answered with an error (0: none)", "US" },
		POPT_AUTOHELP POPT_TABLEEND
	};
	poptContext context =
		poptGetContext("load-generator", argc, (const char **)argv, table, 0);
	int got = context ? poptGetNextOpt(context) : -2;
	bool good = got == -1 && !poptPeekArg(context) && o->path && o->clients > 0 &&
		    o->clients <= CLIENTS_MAX && o->seconds > 0 &&
		    o->seconds <= SECONDS_MAX && o->work_us >= 0 &&
		    o->work_us <= WORK_US_MAX && o->deadline_us >= 0;

	poptFreeContext(context);
	if (good)
		return 0;
	fprintf(stderr,
		"load-generator: expected --socket PATH, 1 to %d clients, seconds above "
		"0 and up to %.0f, 0 to %d us of work, 0 or more us of deadline\n",
		CLIENTS_MAX, SECONDS_MAX, WORK_US_MAX);
	return -EINVAL;
}

static int ask(struct load *load, int i)
{
	struct client *c = &load->clients[i];

	c->request.id = load->next_id++;
	c->request.work_us = (uint32_t)load->options.work_us;
	c->request.deadline_us = (uint32_t)load->options.deadline_us;
	for (int k = 0; k < VALUE_COUNT; k++)
		c->request.values[k] = (float)(c->request.id % 1000) + (float)k;
	c->begin_ns = now_ns();
	c->waits = true;
	if (send(load->polls[i].fd, &c->request, sizeof(c->request), MSG_NOSIGNAL) ==
	    sizeof(c->request))
		return 0;
	fprintf(stderr, "load-generator: send: %s\n", strerror(errno));
	return -EIO;
}

static bool is_right(const struct request *request, const struct response *response)
{
	for (int k = 0; k < VALUE_COUNT; k++)
		if (response->values[k] != 2 * request->values[k] + 1)
			return false;
	return true;
}

static int hear(struct load *load, int i)
{
	struct client *c = &load->clients[i];
	struct response response;
	ssize_t got = recv(load->polls[i].fd, &response, sizeof(response), 0);

	if (got != sizeof(response)) {
		fprintf(stderr, "load-generator: client %d: the server has gone\n", i);
		return -EIO;
	}
	if (!c->waits || response.id != c->request.id ||
	    (!response.status && !is_right(&c->request, &response))) {
		fprintf(stderr, "load-generator: client %d: a wrong answer\n", i);
		return -EBADMSG;
	}
	c->waits = false;
	load->served += !response.status;
	load->timed_out += response.status == -ETIMEDOUT;
	load->failed += response.status && response.status != -ETIMEDOUT;
	if (!response.status)
		histogram_add(&load->times, (uint64_t)(now_ns() - c->begin_ns));
	return 0;
}

static int run(struct load *load)
{
	int64_t end = now_ns() + (int64_t)(load->options.seconds * (double)NS_PER_S);
	int waiting = load->options.clients, silent = 0, err = 0;

	for (int i = 0; i < load->options.clients && !err; i++)
		err = ask(load, i);
	while (waiting && !err) {
		/* In seconds that are slept one by one: while the machine is suspended
		 * the clock goes on, and no server can answer. */
		int ready = poll(load->polls, (nfds_t)load->options.clients, 1000);

		silent = ready ? 0 : silent + 1;
		if (silent == SILENT_S) {
			fprintf(stderr, "load-generator: no answer for %d s\n", SILENT_S);
			return -ETIMEDOUT;
		}
		for (int i = 0; i < load->options.clients && !err; i++) {
			if (!load->polls[i].revents)
				continue;
			err = hear(load, i);
			if (!err && now_ns() < end)
				err = ask(load, i);
			else
				waiting--;
		}
	}
	return err;
}

int main(int argc, char **argv)
{
	static struct load load = { .options = { .clients = 8, .seconds = 2 } };
	int err = parse(&load.options, argc, argv);
	int64_t begin;

	if (err)
		return 2;
	for (int i = 0; i < load.options.clients; i++) {
		load.polls[i].fd = socket_connect(load.options.path);
		load.polls[i].events = POLLIN;
		if (load.polls[i].fd < 0) {
			fprintf(stderr, "load-generator: %s: %s\n", load.options.path,
				strerror(-load.polls[i].fd));
			return 1;
		}
	}
	begin = now_ns();
	err = run(&load);
	printf("%" PRIu64 " served, %" PRIu64 " timed out, %" PRIu64
	       " failed, %.0f per second\n",
	       load.served, load.timed_out, load.failed,
	       (double)load.served * 1e9 / (double)(now_ns() - begin));
	printf("p50 %.1f us, p99 %.1f us, p99.9 %.1f us, max %.1f us\n",
	       (double)histogram_quantile(&load.times, 0.5) / 1e3,
	       (double)histogram_quantile(&load.times, 0.99) / 1e3,
	       (double)histogram_quantile(&load.times, 0.999) / 1e3,
	       (double)load.times.max_ns / 1e3);
	histogram_print(&load.times, stdout);
	for (int i = 0; i < load.options.clients; i++)
		close(load.polls[i].fd);
	free(load.options.path);
	return err ? 1 : 0;
}
