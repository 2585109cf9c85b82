/* SPDX-License-Identifier: MIT */
#include "noop.h"

int noop_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

int noop_callback(struct rp_callback_context *context, const struct rp_arg *args,
		  size_t nargs, void *user)
{
	(void)context;
	(void)args;
	(void)nargs;
	(void)user;
	return 0;
}
