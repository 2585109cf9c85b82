/* SPDX-License-Identifier: MIT */
/*
 * ZeroMQ: a pair of sockets over ipc, a Unix socket, which is all that it has between
 * processes of one machine. Large messages are sent from where they lie, and read
 * where they arrive.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/error.h"
#include "transport.h"

/* From here on a message is not copied on its way into the library. */
#define NAMED_BYTES 65536
#define LOOK_MS	    1000

struct zmq {
	void *context, *socket;
	zmq_msg_t in; /* what has arrived last */
};

static int refuse(const char *what)
{
	return rpi_fail(-EIO, "%s: %s", what, zmq_strerror(errno));
}

static int join(struct transport *t, struct zmq *z)
{
	const int look_ms = LOOK_MS, linger_ms = 0;
	char name[64];

	/* Of the abstract kind: nothing is left behind in a file system. */
	rpi_format(name, sizeof(name), "ipc://@rpbench-%d", (int)t->words->owner);
	z->context = zmq_ctx_new();
	z->socket = z->context ? zmq_socket(z->context, ZMQ_PAIR) : NULL;
	if (!z->socket)
		return refuse("zmq_socket");
	if (zmq_setsockopt(z->socket, ZMQ_RCVTIMEO, &look_ms, sizeof(look_ms)) ||
	    zmq_setsockopt(z->socket, ZMQ_LINGER, &linger_ms, sizeof(linger_ms)))
		return refuse("zmq_setsockopt");
	/* The other side tries again until there is somebody. */
	if (t->side == BENCH_PARENT ? zmq_bind(z->socket, name)
				    : zmq_connect(z->socket, name))
		return refuse(name);
	return zmq_msg_init(&z->in) ? refuse("zmq_msg_init") : 0;
}

/* The sender's bytes are its own: they outlive the message, whose answer it awaits. */
static void keep(void *data, void *hint)
{
	(void)data, (void)hint;
}

static int send_named(struct zmq *z, const void *from, size_t bytes)
{
	zmq_msg_t message;

	if (zmq_msg_init_data(&message, (void *)(uintptr_t)from, bytes, keep, NULL))
		return refuse("zmq_msg_init_data");
	return zmq_msg_send(&message, z->socket, 0) < 0 ? refuse("zmq_msg_send") : 0;
}

int transport_send(struct transport *t, const void *from, size_t bytes)
{
	struct zmq *z = t->data;

	if (bytes >= NAMED_BYTES)
		return send_named(z, from, bytes);
	return zmq_send(z->socket, from, bytes, 0) < 0 ? refuse("zmq_send") : 0;
}

int transport_recv(struct transport *t, void *into, size_t bytes, const void **at_out)
{
	struct zmq *z = t->data;
	int got;

	while ((got = zmq_msg_recv(&z->in, z->socket, 0)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return refuse("zmq_msg_recv");
		transport_check(t);
	}
	if ((size_t)got != bytes)
		return rpi_fail(-EIO, "zmq_msg_recv: %d bytes, expected %zu", got, bytes);
	(void)into;
	*at_out = zmq_msg_data(&z->in);
	return 0;
}

int transport_open(struct transport *t)
{
	static struct zmq zmq;
	int major, minor, patch, err = join(t, &zmq);

	t->data = &zmq;
	zmq_version(&major, &minor, &patch);
	if (!err)
		rpi_format(t->words->side[t->side].note, BENCH_TEXT_BYTES,
			   "ZeroMQ %d.%d.%d, a pair over ipc (a Unix socket); both sides "
			   "sleep, and a thread of the library's with each",
			   major, minor, patch);
	return err;
}

void transport_close(struct transport *t)
{
	struct zmq *z = t->data;

	zmq_msg_close(&z->in);
	zmq_close(z->socket);
	zmq_ctx_term(z->context);
}
