/* SPDX-License-Identifier: MIT */
/* Never: a system call, an allocation, a lock, a log. */
#include "dispatch/callback.h"

#include <errno.h>
#include <inttypes.h>

#include "base/cpu.h"
#include "base/error.h"

#define NAME_OR(name) ((name) ? (name) : "")

static const char *access_name(uint32_t access)
{
	static const char *const names[] = { "no access", "RP_IN", "RP_OUT", "RP_INOUT" };

	return access <= RP_INOUT ? names[access] : "?";
}

static int check_tensor(const struct rpi_callback *callback, const char *call,
			uint32_t idx, const struct rp_arg *arg)
{
	const struct rp_param *param = &callback->signature->params[idx];
	const struct rp_tensor *tensor = &arg->u.tensor;
	uint32_t dim;

	if (arg->access != param->access)
		return rpi_fail(-EINVAL,
				"%s: argument %u ('%s') of '%s' is %s, its signature has "
				"%s",
				call, idx, NAME_OR(param->name), callback->name,
				access_name(arg->access), access_name(param->access));
	if (!param->rank)
		return 0;
	if (tensor->rank != param->rank)
		return rpi_fail(-EINVAL,
				"%s: argument %u ('%s') of '%s' has rank %u, its "
				"signature has %u",
				call, idx, NAME_OR(param->name), callback->name,
				tensor->rank, param->rank);
	for (dim = 0; dim < param->rank; dim++)
		if (param->shape[dim] != RP_DIM_ANY &&
		    param->shape[dim] != tensor->shape[dim])
			return rpi_fail(-EINVAL,
					"%s: argument %u ('%s') of '%s': dim %u is "
					"%" PRId64 ", its signature has %" PRId64,
					call, idx, NAME_OR(param->name), callback->name,
					dim, tensor->shape[dim], param->shape[dim]);
	return 0;
}

static int check_arg(const struct rpi_callback *callback, const char *call, uint32_t idx,
		     const struct rp_arg *arg)
{
	const struct rp_param *param = &callback->signature->params[idx];
	uint32_t dtype;

	if (arg->kind != param->kind)
		return rpi_fail(-EINVAL,
				"%s: argument %u ('%s') of '%s' is of kind %u, its "
				"signature has a %s",
				call, idx, NAME_OR(param->name), callback->name,
				arg->kind,
				param->kind == RP_ARG_TENSOR ? "tensor" : "scalar");
	dtype = arg->kind == RP_ARG_TENSOR ? arg->u.tensor.dtype : arg->u.scalar.dtype;
	if (dtype != param->dtype)
		return rpi_fail(-EINVAL,
				"%s: argument %u ('%s') of '%s' has dtype %s, its "
				"signature has %s",
				call, idx, NAME_OR(param->name), callback->name,
				rp_dtype_name((enum rp_dtype)dtype),
				rp_dtype_name((enum rp_dtype)param->dtype));
	return arg->kind == RP_ARG_TENSOR ? check_tensor(callback, call, idx, arg) : 0;
}

int rpi_callback_check(const struct rpi_callback *callback, const char *call,
		       const struct rp_arg *args, uint32_t arg_count)
{
	const struct rp_signature *signature = callback->signature;
	uint32_t idx;
	int err = 0;

	if (rpi_unlikely(!callback->fn))
		return rpi_fail(-ENOENT,
				"%s: callback '%s' is optional and was not bound, "
				"expected it in rp_worker_options.callbacks",
				call, callback->name);
	if (!signature || (arg_count && !args))
		return 0;
	if (arg_count != signature->param_count)
		return rpi_fail(-EINVAL,
				"%s: %u arguments for '%s', its signature has %zu", call,
				arg_count, callback->name, signature->param_count);
	for (idx = 0; !err && idx < arg_count; idx++)
		err = check_arg(callback, call, idx, &args[idx]);
	return err;
}
