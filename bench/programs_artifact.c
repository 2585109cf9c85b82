/* SPDX-License-Identifier: MIT */
/* The artifact that `rpbench programs` loads: an entry that does nothing. */
#include <ringplane/ringplane.h>

RP_API int empty(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);

int empty(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

static const struct rp_entry entries[] = { { "empty", empty } };

RP_PROGRAM_OBJECT = {
	.size = sizeof(struct rp_program_desc),
	.name = "empty",
	.entries = entries,
	.entry_count = 1,
};
