/* SPDX-License-Identifier: MIT */
/* The program of the example, which becomes a directory: dot = sum of a[i] * b[i]. */
#include <ringplane/ringplane.h>

RP_API int dot(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);

int dot(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const int64_t *a = args[0].u.tensor.data, *b = args[1].u.tensor.data;
	int64_t *sum = args[2].u.tensor.data;

	(void)chip;
	(void)nargs;
	for (int64_t i = 0; i < args[0].u.tensor.shape[0]; i++)
		*sum += a[i] * b[i];
	return 0;
}

/* "n" may be anything, but the same for both. */
static const struct rp_param params[] = {
	{ .name = "a",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_IN,
	  .rank = 1,
	  .shape = { RP_DIM_ANY },
	  .dim_names = { "n" } },
	{ .name = "b",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_IN,
	  .rank = 1,
	  .shape = { RP_DIM_ANY },
	  .dim_names = { "n" } },
	{ .name = "sum",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_OUT,
	  .rank = 1,
	  .shape = { 1 } },
};

static const struct rp_entry entries[] = { { "dot", dot } };

RP_PROGRAM_OBJECT = {
	.size = sizeof(struct rp_program_desc),
	.name = "dot",
	.params = params,
	.param_count = 3,
	.entries = entries,
	.entry_count = 1,
};
