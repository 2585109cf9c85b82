/* SPDX-License-Identifier: MIT */
#include "program/signature.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int check_param(const char *call, const char *callback, size_t idx,
		       const struct rp_param *param)
{
	const bool tensor = param->kind == RP_ARG_TENSOR;
	uint32_t dim;

	if (!tensor && param->kind != RP_ARG_SCALAR)
		return rpi_fail(-EINVAL,
				"%s: the signature of '%s': parameter %zu is of kind %u, "
				"expected RP_ARG_TENSOR or RP_ARG_SCALAR",
				call, callback, idx, param->kind);
	if (!rp_dtype_bits((enum rp_dtype)param->dtype))
		return rpi_fail(-EINVAL,
				"%s: the signature of '%s': parameter %zu has dtype %u, "
				"expected an enum rp_dtype",
				call, callback, idx, param->dtype);
	if (tensor ? param->access < RP_IN || param->access > RP_INOUT : param->access)
		return rpi_fail(-EINVAL,
				"%s: the signature of '%s': parameter %zu has access %u, "
				"expected %s",
				call, callback, idx, param->access,
				tensor ? "RP_IN, RP_OUT or RP_INOUT" : "0 for a scalar");
	if (param->rank > (tensor ? RP_MAX_DIMS : 0))
		return rpi_fail(-EINVAL,
				"%s: the signature of '%s': parameter %zu has rank %u, "
				"expected at most %d",
				call, callback, idx, param->rank,
				tensor ? RP_MAX_DIMS : 0);
	for (dim = 0; dim < param->rank; dim++)
		if (param->shape[dim] <= 0 && param->shape[dim] != RP_DIM_ANY)
			return rpi_fail(-EINVAL,
					"%s: the signature of '%s': parameter %zu dim "
					"%u is %" PRId64
					", expected at least 1 or RP_DIM_ANY",
					call, callback, idx, dim, param->shape[dim]);
	return 0;
}

int rpi_signature_check(const char *call, const char *callback,
			const struct rp_signature *signature)
{
	size_t idx;
	int err = 0;

	if (signature->size != sizeof(*signature))
		return rpi_fail(-EINVAL,
				"%s: the signature of '%s' has size %zu, expected %zu",
				call, callback, signature->size, sizeof(*signature));
	if (signature->param_count > RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS)
		return rpi_fail(
			-EINVAL,
			"%s: the signature of '%s' has param_count %zu, expected at most "
			"%u",
			call, callback, signature->param_count,
			RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS);
	if (signature->param_count && !signature->params)
		return rpi_fail(-EINVAL,
				"%s: the signature of '%s' has params NULL with a count "
				"above 0",
				call, callback);
	for (idx = 0; !err && idx < signature->param_count; idx++)
		err = check_param(call, callback, idx, &signature->params[idx]);
	return err;
}

struct rp_signature *rpi_signature_copy(const struct rp_signature *signature)
{
	size_t bytes =
		sizeof(*signature) + signature->param_count * sizeof(*signature->params);
	struct rp_signature *copy;
	struct rp_param *params;
	size_t idx;
	char *at;

	for (idx = 0; idx < signature->param_count; idx++)
		if (signature->params[idx].name)
			bytes += strlen(signature->params[idx].name) + 1;
	copy = malloc(bytes);
	if (!copy)
		return NULL;
	*copy = *signature;
	params = (struct rp_param *)(copy + 1);
	copy->params = params;
	at = (char *)(params + signature->param_count);
	for (idx = 0; idx < signature->param_count; idx++) {
		params[idx] = signature->params[idx];
		memset(params[idx].dim_names, 0, sizeof(params[idx].dim_names));
		if (!params[idx].name)
			continue;
		bytes = strlen(params[idx].name) + 1;
		params[idx].name = memcpy(at, params[idx].name, bytes);
		at += bytes;
	}
	return copy;
}

static size_t param_text(const struct rp_param *param, char *buf, size_t bytes)
{
	static const char *const accesses[] = { "", " RP_IN", " RP_OUT", " RP_INOUT" };
	size_t at = rpi_format(buf, bytes, "%s %s%s",
			       param->kind == RP_ARG_TENSOR ? "a tensor of" : "a scalar",
			       rp_dtype_name((enum rp_dtype)param->dtype),
			       accesses[param->access & RP_INOUT]);
	uint32_t dim;

	for (dim = 0; dim < param->rank; dim++)
		at += param->shape[dim] == RP_DIM_ANY
			      ? rpi_format(buf + at, bytes - at, "%s*", dim ? "," : " [")
			      : rpi_format(buf + at, bytes - at, "%s%" PRId64,
					   dim ? "," : " [", param->shape[dim]);
	if (param->rank)
		at += rpi_format(buf + at, bytes - at, "]");
	return at;
}

static bool param_accepts(const struct rp_param *taker, const struct rp_param *given)
{
	uint32_t dim;

	if (taker->kind != given->kind || taker->dtype != given->dtype ||
	    taker->access != given->access)
		return false;
	if (!taker->rank)
		return true;
	if (taker->rank != given->rank)
		return false;
	for (dim = 0; dim < taker->rank; dim++)
		if (taker->shape[dim] != RP_DIM_ANY &&
		    taker->shape[dim] != given->shape[dim])
			return false;
	return true;
}

bool rpi_signature_accepts(const struct rp_signature *taker,
			   const struct rp_signature *given, char *buf, size_t bytes)
{
	size_t idx;
	size_t at;

	if (taker->param_count != given->param_count) {
		rpi_format(buf, bytes, "%zu arguments, expected %zu", taker->param_count,
			   given->param_count);
		return false;
	}
	for (idx = 0; idx < taker->param_count; idx++) {
		if (param_accepts(&taker->params[idx], &given->params[idx]))
			continue;
		at = rpi_format(buf, bytes, "argument %zu is ", idx);
		at += param_text(&taker->params[idx], buf + at, bytes - at);
		at += rpi_format(buf + at, bytes - at, ", expected ");
		param_text(&given->params[idx], buf + at, bytes - at);
		return false;
	}
	return true;
}
