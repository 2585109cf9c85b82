/* SPDX-License-Identifier: MIT */
/* A callback of a program as one worker has bound it. Immutable after the fork. */
#ifndef RPI_DISPATCH_CALLBACK_H
#define RPI_DISPATCH_CALLBACK_H

#include <stdint.h>

#include <ringplane/program.h>

struct rpi_callback {
	const char *name;
	rp_callback_fn fn; /* NULL: optional, and not bound */
	void *user;
	const struct rp_signature *signature; /* NULL: any arguments */
};

/* Whether it may be called, with these arguments: 0, -ENOENT, -EINVAL. */
int rpi_callback_check(const struct rpi_callback *callback, const char *call,
		       const struct rp_arg *args, uint32_t arg_count);

#endif
