/* SPDX-License-Identifier: MIT */
/* A program for the tests of artifacts: y = FACTOR * x + bias + k, half on each chip. */
#include <errno.h>

#include <ringplane/ringplane.h>

#ifndef FACTOR
#define FACTOR 2
#endif

RP_API int scale(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);
RP_API int scale_refuse(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);
RP_API int scale_orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			     void *user);
RP_API int scale_tell(struct rp_callback_context *context, const struct rp_arg *args,
		      size_t nargs, void *user);

int scale(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const int64_t *x = args[0].u.tensor.data;
	int64_t *y = args[1].u.tensor.data;
	struct rp_scalar bias;

	(void)nargs;
	if (rp_program_scalar(rp_chip_program(chip), "bias", &bias))
		return rp_chip_fail(chip, -EINVAL, "%s", rp_last_error());
	for (int64_t i = 0; i < args[0].u.tensor.shape[0]; i++)
		y[i] = FACTOR * x[i] + bias.value.i64 + args[2].u.scalar.value.i64;
	return 0;
}

int scale_refuse(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return rp_chip_fail(chip, -EIO, "refused by %d", FACTOR);
}

int scale_tell(struct rp_callback_context *context, const struct rp_arg *args,
	       size_t nargs, void *user)
{
	(void)context;
	(void)nargs;
	(void)user;
	((int64_t *)args[0].u.tensor.data)[0]++;
	return 0;
}

int scale_orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		      void *user)
{
	const uint32_t chips = rp_run_chip_count(run);
	const int64_t length = args[0].u.tensor.shape[0];
	int err = 0;

	(void)nargs;
	(void)user;
	if (args[2].u.scalar.value.i64 < 0)
		return rp_run_task(run, &(struct rp_task){ .entry = 1 });
	for (uint32_t chip = 0; chip < chips && !err; chip++) {
		int64_t from = length * chip / chips;
		int64_t count = length * (chip + 1) / chips - from;
		struct rp_tensor x, y;

		if (rp_tensor_slice(&args[0].u.tensor, 0, from, count, 1, &x) ||
		    rp_tensor_slice(&args[1].u.tensor, 0, from, count, 1, &y))
			return -EINVAL;
		struct rp_arg task_args[] = { rp_in(x), rp_out(y), args[2] };
		struct rp_task task = { .entry = 0,
					.chip = (int32_t)chip,
					.args = task_args,
					.arg_count = 3 };

		err = rp_run_task(run, &task);
	}
	return err;
}

static const struct rp_param params[] = {
	{ .name = "x",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_IN,
	  .rank = 1,
	  .shape = { RP_DIM_ANY },
	  .dim_names = { "n" } },
	{ .name = "y",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_OUT,
	  .rank = 1,
	  .shape = { RP_DIM_ANY },
	  .dim_names = { "n" } },
	{ .name = "bias",
	  .kind = RP_ARG_SCALAR,
	  .dtype = RP_INT64,
	  .flags = RP_PARAM_DECIDE },
	{ .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
};

static const struct rp_scalar_choice choices[] = {
	{ .name = "bias", .value = { .dtype = RP_INT64, .value = { .i64 = 100 } } },
};

static const struct rp_entry entries[] = { { "scale", scale },
					   { "refuse", scale_refuse } };

#ifndef PLAIN
static const struct rp_param tell_params[] = {
	{ .kind = RP_ARG_TENSOR, .dtype = RP_INT64, .access = RP_INOUT },
};
static const struct rp_signature tell_takes = { sizeof(tell_takes), tell_params, 1 };
static const struct rp_callback callbacks[] = {
	{ .name = "tell", .fn = scale_tell, .signature = &tell_takes },
	{ .name = "ask", .flags = RP_CALLBACK_OPTIONAL },
};
#endif

static const struct rp_run_config config = { .size = sizeof(config),
					     .ring_task_window = { .all = 64 } };

RP_PROGRAM_OBJECT = {
	.size = sizeof(struct rp_program_desc),
	.name = "sample",
	.params = params,
	.param_count = 4,
	.entries = entries,
	.entry_count = 2,
#ifndef PLAIN
	.callbacks = callbacks,
	.callback_count = 2,
	.callback_workers = 1,
#endif
	.orchestrate = scale_orchestrate,
	.scalars = choices,
	.scalar_count = 1,
	.config = &config,
};
