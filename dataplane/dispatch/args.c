/* SPDX-License-Identifier: MIT */
/* The arguments of a call: judged once, against the program's parameters. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "dispatch/plane.h"
#include "memory/view.h"

static int check_count(const struct rp_program *program, size_t nargs)
{
	char names[256];
	size_t at = 0;
	uint32_t i;

	if (nargs == program->param_count)
		return 0;
	names[0] = '\0';
	for (i = 0; i < program->param_count && at + 1 < sizeof(names); i++)
		at += rpi_format(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
				 program->params[i].name);
	return rpi_fail(-EINVAL,
			"rp_worker_submit: nargs %zu, program '%s' expects %u (%s)",
			nargs, program->name, program->param_count, names);
}

static void shape_text(char *buf, size_t bytes, uint32_t rank, const int64_t *shape)
{
	size_t at = rpi_format(buf, bytes, "[");
	uint32_t dim;

	for (dim = 0; dim < rank && dim < RP_MAX_DIMS; dim++)
		at += shape[dim] == RP_DIM_ANY
			      ? rpi_format(buf + at, bytes - at, "%s*", dim ? "," : "")
			      : rpi_format(buf + at, bytes - at, "%s%" PRId64,
					   dim ? "," : "", shape[dim]);
	rpi_format(buf + at, bytes - at, "]");
}

static int fail_shape(const struct rp_param *param, const struct rp_tensor *tensor)
{
	char want[128];
	char have[128];

	shape_text(want, sizeof(want), param->rank, param->shape);
	shape_text(have, sizeof(have), tensor->rank, tensor->shape);
	return rpi_fail(-EINVAL, "rp_worker_submit: '%s' has shape %s, expected %s",
			param->name, have, want);
}

/* Dims of one name agree: `dims` holds what each name stood for first. */
static int check_dims(const struct rp_program *program, uint32_t idx,
		      const struct rp_tensor *tensor, int64_t *dims)
{
	const struct rp_param *param = &program->params[idx];
	uint32_t dim;

	for (dim = 0; dim < param->rank; dim++) {
		int name = program->dim_ids[idx][dim];

		if (param->shape[dim] != RP_DIM_ANY &&
		    param->shape[dim] != tensor->shape[dim])
			return fail_shape(param, tensor);
		if (name < 0)
			continue;
		if (!dims[name])
			dims[name] = tensor->shape[dim];
		else if (dims[name] != tensor->shape[dim])
			return rpi_fail(-EINVAL,
					"rp_worker_submit: '%s' dim %u ('%s') is %" PRId64
					", expected %" PRId64
					" as in this call's earlier "
					"arguments",
					param->name, dim, param->dim_names[dim],
					tensor->shape[dim], dims[name]);
	}
	return 0;
}

/* Once more, for a line that names the parameter. */
static __attribute__((cold, noinline)) int fail_view(const struct rp_param *param,
						     const struct rp_tensor *tensor,
						     struct rpi_view *view)
{
	char call[128];

	rpi_format(call, sizeof(call), "rp_worker_submit: '%s'", param->name);
	return rpi_view_from_tensor(call, tensor, view);
}

static __attribute__((cold, noinline)) int fail_host(struct rpi_plane *plane,
						     const struct rp_param *param,
						     const struct rp_tensor *tensor,
						     size_t bytes, int err)
{
	if (err != -EFAULT)
		return rpi_fail(err, "rp_worker_submit: '%s': %s", param->name,
				rp_last_error());
	if (plane->is_device(plane->memory_context, (uint64_t)(uintptr_t)tensor->data))
		return rpi_fail(-EINVAL,
				"rp_worker_submit: '%s' wraps the raw device address "
				"%p, expected a tensor from rp_worker_alloc_tensor()",
				param->name, tensor->data);
	return rpi_fail(-EFAULT,
			"rp_worker_submit: '%s' at %p (%zu bytes) is not memory that "
			"the chips see, expected memory from rp_shared_alloc(), or "
			"a resident tensor",
			param->name, tensor->data, bytes);
}

static int check_host(struct rpi_plane *plane, const struct rp_param *param,
		      const struct rp_tensor *tensor, size_t bytes)
{
	void *context = plane->memory_context;
	int err = plane->visible(context, tensor->data, bytes);

	if (rpi_unlikely(err))
		return fail_host(plane, param, tensor, bytes, err);
	if (!(param->access & RP_OUT))
		return 0;
	return plane->writable(context, "rp_worker_submit", tensor->data, bytes);
}

/* Likewise. */
static __attribute__((cold, noinline)) int fail_resident(const struct rpi_plane *plane,
							 const struct rp_param *param,
							 const struct rp_tensor *tensor,
							 size_t bytes,
							 struct rpi_resident *where)
{
	char call[128];

	rpi_format(call, sizeof(call), "rp_worker_submit: '%s'", param->name);
	return plane->locate(plane->memory_context, call, tensor, bytes, where);
}

static int check_resident(const struct rpi_plane *plane, const struct rp_param *param,
			  const struct rp_tensor *tensor, size_t bytes)
{
	struct rpi_resident where;
	int err = plane->locate(plane->memory_context, "rp_worker_submit", tensor, bytes,
				&where);

	return rpi_likely(!err) ? 0 : fail_resident(plane, param, tensor, bytes, &where);
}

static int bind_tensor(struct rpi_call *call, uint32_t idx,
		       const struct rp_tensor *tensor, int64_t *dims)
{
	const struct rp_program *program = call->program;
	const struct rp_param *param = &program->params[idx];
	struct rpi_plane *plane = call->plane;
	struct rpi_grant *grant;
	struct rpi_view local;
	struct rpi_view *view = &local;
	size_t bytes;
	int err;

	if (call->views)
		view = &call->views[call->grant_count];
	if (tensor->rank != param->rank)
		return fail_shape(param, tensor);
	if (tensor->dtype != param->dtype)
		return rpi_fail(-EINVAL,
				"rp_worker_submit: '%s' has dtype %s, expected %s",
				param->name, rp_dtype_name((enum rp_dtype)tensor->dtype),
				rp_dtype_name((enum rp_dtype)param->dtype));
	err = rpi_view_from_tensor("rp_worker_submit", tensor, view);
	if (rpi_unlikely(err))
		return fail_view(param, tensor, view);
	err = check_dims(program, idx, tensor, dims);
	if (err)
		return err;
	if (!rpi_tensor_row_major(tensor))
		return rpi_fail(-EINVAL,
				"rp_worker_submit: '%s' is strided, expected a "
				"contiguous tensor",
				param->name);
	/* Contiguous: what it spans is what it holds. */
	bytes = (size_t)view->span_bytes;
	call->any_resident |= tensor->resident != 0;
	err = tensor->resident ? check_resident(plane, param, tensor, bytes)
			       : check_host(plane, param, tensor, bytes);
	if (err)
		return err;
	grant = &call->grants[call->grant_count++];
	grant->resident = tensor->resident;
	grant->low = (uintptr_t)tensor->data;
	grant->high = grant->low + bytes;
	grant->access = param->access;
	grant->param = idx;
	call->args[idx].kind = RP_ARG_TENSOR;
	call->args[idx].access = param->access;
	call->args[idx].u.tensor = *tensor;
	return 0;
}

int rpi_call_bind(struct rpi_call *call, const struct rp_arg *args, size_t nargs)
{
	const struct rp_program *program = call->program;
	int64_t dims[RPI_DIM_NAMES_MAX];
	uint32_t idx;
	int err;

	err = check_count(program, nargs);
	if (err)
		return err;
	if (nargs && !args)
		return rpi_fail(-EINVAL,
				"rp_worker_submit: args NULL, expected %zu arguments",
				nargs);
	memset(dims, 0, program->dim_name_count * sizeof(dims[0]));
	call->grant_count = 0;
	call->any_resident = false;
	for (idx = 0; idx < program->param_count; idx++) {
		const struct rp_param *param = &program->params[idx];

		if (args[idx].kind != param->kind)
			return rpi_fail(
				-EINVAL,
				"rp_worker_submit: '%s' is of kind %u, expected a %s",
				param->name, args[idx].kind,
				param->kind == RP_ARG_TENSOR ? "tensor" : "scalar");
		if (param->kind == RP_ARG_TENSOR) {
			err = bind_tensor(call, idx, &args[idx].u.tensor, dims);
			if (err)
				return err;
			continue;
		}
		if (args[idx].u.scalar.dtype != param->dtype)
			return rpi_fail(
				-EINVAL,
				"rp_worker_submit: scalar '%s' has dtype %s, expected %s",
				param->name,
				rp_dtype_name((enum rp_dtype)args[idx].u.scalar.dtype),
				rp_dtype_name((enum rp_dtype)param->dtype));
		call->args[idx] = args[idx];
		call->args[idx].access = 0;
	}
	return 0;
}
