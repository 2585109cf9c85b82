/* SPDX-License-Identifier: MIT */
/*
 * Somebody else's way of bringing bytes from one process to another, as a program of
 * its own: rpbench links none of them. Such a program has two sides, each a process.
 * main.c is the same in all of them, and each brings the four functions.
 */
#ifndef BENCH_TRANSPORT_H
#define BENCH_TRANSPORT_H

#include <stddef.h>

#include "options.h"
#include "transport_words.h"

struct transport {
	enum bench_side side;
	struct transport_words *words;
	void *data; /* the functions' own */
};

/* Join the two sides, and say in words->side[].note how. In both; negative errno with
 * rpi_fail(). */
int transport_open(struct transport *t);
void transport_close(struct transport *t);

/* Returns when the bytes may be changed again. */
int transport_send(struct transport *t, const void *from, size_t bytes);
/* Waits for them. They are in `into` then, or where *at_out says, until the next call. */
int transport_recv(struct transport *t, void *into, size_t bytes, const void **at_out);

/* For transport_open(): publish what the other side has to know, and get what it has. */
int transport_swap(struct transport *t, const void *mine, size_t bytes,
		   const void **other_out);

/* Now and then in a wait: does not return when the other side or rpbench is gone. */
void transport_check(const struct transport *t);

#endif
