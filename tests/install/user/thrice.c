/* SPDX-License-Identifier: MIT */
/* A program that becomes an artifact. */
#include <stdint.h>

#include <ringplane/ringplane.h>

RP_API int thrice(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);

int thrice(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int32_t *x = args[0].u.tensor.data;

	(void)nargs;
	if (rp_chip_count(chip) != 1)
		return -1;
	x[0] *= 3;
	return 0;
}

static const struct rp_param params[] = { { .name = "x",
					    .kind = RP_ARG_TENSOR,
					    .dtype = RP_INT32,
					    .access = RP_INOUT,
					    .rank = 1,
					    .shape = { 1 } } };
static const struct rp_entry entries[] = { { "thrice", thrice } };

RP_PROGRAM_OBJECT = {
	.size = sizeof(struct rp_program_desc),
	.name = "thrice",
	.params = params,
	.param_count = 1,
	.entries = entries,
	.entry_count = 1,
};
