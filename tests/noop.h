/* SPDX-License-Identifier: MIT */
/* An entry and a callback that do nothing, for programs of which only the frame counts.
 */
#ifndef RPI_TESTS_NOOP_H
#define RPI_TESTS_NOOP_H

#include <stddef.h>

#include <ringplane/program.h>

int noop_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);
int noop_callback(struct rp_callback_context *context, const struct rp_arg *args,
		  size_t nargs, void *user);

#endif
