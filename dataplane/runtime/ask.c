/* SPDX-License-Identifier: MIT */
/* What a kernel asks for, checked argument by argument. */
#include <errno.h>
#include <inttypes.h>

#include "runtime/footprint.h"
#include "runtime/runtime.h"

static const char call[] = "rp_chip_submit";

static __attribute__((cold, noinline)) int fail_arg(uint32_t idx, const char *what,
						    uint64_t value, const char *expected)
{
	return rpi_fail(-EINVAL, "%s: args[%u].%s %" PRIu64 ", expected %s", call, idx,
			what, value, expected);
}

/* Memory of a heap is an argument only while its scope is open. */
static int check_in_heap(struct rpi_runtime *runtime, uint32_t idx)
{
	const struct rpi_view *view = &runtime->ask.view[idx];
	uint64_t position;
	struct rpi_ring *ring = rpi_arena_find(runtime->arena, view->base, &position);

	if (rpi_likely(!ring))
		return 0;
	runtime->ask.in_heap = true;
	/* Unpinned is the largest position of all. */
	if (position >= ring->pinned_heap &&
	    (uint64_t)view->span_bytes <= ring->heap.top - position)
		return 0;
	return rpi_fail(-EINVAL,
			"%s: args[%u] lies in the heap of ring %td at offset %" PRIu64
			", expected %" PRId64
			" bytes of outputs whose scope is still open",
			call, idx, ring - runtime->arena->rings,
			rpi_lap_offset(&ring->heap, position), view->span_bytes);
}

static int add_fresh(struct rpi_ask *ask, struct rp_arg *arg, uint32_t idx)
{
	uint64_t bytes;
	int err;

	if (rpi_unlikely((arg->access & RP_INOUT) != RP_OUT))
		return rpi_fail(-EINVAL, "%s: args[%u].data NULL, expected an address",
				call, idx);
	rpi_footprint_lay_out(&arg->u.tensor);
	err = rpi_footprint(call, &arg->u.tensor, &ask->view[idx]);
	arg->u.tensor.data = NULL;
	if (rpi_unlikely(err))
		return err;
	bytes = ((uint64_t)ask->view[idx].span_bytes + RPI_OUTPUT_ALIGN - 1) &
		~(uint64_t)(RPI_OUTPUT_ALIGN - 1);
	/* Each is a quarter of what 64 bits hold at most: stop before a sum wraps. */
	if (ask->fresh_bytes < UINT64_MAX / 4)
		ask->fresh_bytes += bytes;
	ask->fresh_count++;
	return 0;
}

static int add_tensor(struct rpi_runtime *runtime, struct rp_arg *arg, uint32_t idx)
{
	struct rpi_ask *ask = &runtime->ask;
	int err;

	if (rpi_unlikely(ask->tensor_count == RP_MAX_TASK_TENSORS))
		return rpi_fail(-EINVAL, "%s: more than %d tensors", call,
				RP_MAX_TASK_TENSORS);
	if (rpi_unlikely(arg->access & ~(uint32_t)(RP_INOUT | RP_NO_DEP) ||
			 !(arg->access & RP_INOUT)))
		return fail_arg(idx, "access", arg->access,
				"RP_IN, RP_OUT or RP_INOUT, with RP_NO_DEP or without");
	if (rpi_unlikely(arg->u.tensor.resident))
		return fail_arg(idx, "resident", arg->u.tensor.resident,
				"0: the entry's own arguments have addresses");
	ask->tensor[ask->tensor_count++] = (uint16_t)idx;
	if (!arg->u.tensor.data)
		return add_fresh(ask, arg, idx);
	err = rpi_footprint(call, &arg->u.tensor, &ask->view[idx]);
	if (rpi_unlikely(err))
		return err;
	if (arg->access & RP_OUT)
		ask->written[ask->written_count++] = (uint16_t)idx;
	return check_in_heap(runtime, idx);
}

/* What two arguments write at once has no defined contents. */
static int check_written(const struct rpi_ask *ask)
{
	uint32_t i, k;

	for (i = 1; i < ask->written_count; i++)
		for (k = 0; k < i; k++)
			if (rpi_footprint_meet(&ask->view[ask->written[i]],
					       &ask->view[ask->written[k]]))
				return rpi_fail(
					-EINVAL,
					"%s: args[%u] and args[%u] overlap, expected "
					"written tensors that share no byte",
					call, ask->written[k], ask->written[i]);
	return 0;
}

static int check_deps(const struct rpi_runtime *runtime, const struct rp_kernel *kernel)
{
	size_t i;

	if (!kernel->deps)
		return rpi_fail(-EINVAL, "%s: deps NULL, expected %zu ids", call,
				kernel->dep_count);
	for (i = 0; i < kernel->dep_count; i++) {
		rp_kernel_id id = kernel->deps[i];
		const struct rpi_ring *ring = &runtime->arena->rings[rpi_id_ring(id)];

		if (id && rpi_id_seq(id) >= ring->head)
			return rpi_fail(-EINVAL,
					"%s: deps[%zu] %#" PRIx64
					", expected the id of a kernel submitted before",
					call, i, id);
	}
	return 0;
}

int rpi_ask_fill(struct rpi_runtime *runtime, const struct rp_kernel *kernel)
{
	struct rpi_ask *ask = &runtime->ask;
	uint32_t i, scalars = 0;
	int err;

	if (rpi_unlikely(!kernel->fn))
		return rpi_fail(-EINVAL, "%s: fn NULL, expected a function", call);
	if (rpi_unlikely(kernel->flags))
		return rpi_fail(-EINVAL, "%s: flags %#x, expected 0", call,
				kernel->flags);
	if (rpi_unlikely(kernel->arg_count > RPI_KERNEL_ARGS_MAX))
		return rpi_fail(-EINVAL, "%s: arg_count %u, expected at most %d", call,
				kernel->arg_count, RPI_KERNEL_ARGS_MAX);
	if (rpi_unlikely(kernel->arg_count && !kernel->args))
		return rpi_fail(-EINVAL, "%s: args NULL, expected %u", call,
				kernel->arg_count);
	ask->fresh_bytes = 0;
	ask->tensor_count = ask->fresh_count = ask->written_count = 0;
	ask->in_heap = false;
	for (i = 0; i < kernel->arg_count; i++) {
		struct rp_arg *arg = &kernel->args[i];

		if (arg->kind == RP_ARG_TENSOR) {
			err = add_tensor(runtime, arg, i);
			if (rpi_unlikely(err))
				return err;
			continue;
		}
		if (rpi_unlikely(arg->kind != RP_ARG_SCALAR))
			return fail_arg(i, "kind", arg->kind,
					"RP_ARG_TENSOR or RP_ARG_SCALAR");
		if (rpi_unlikely(++scalars > RP_MAX_TASK_SCALARS))
			return rpi_fail(-EINVAL, "%s: more than %d scalars", call,
					RP_MAX_TASK_SCALARS);
	}
	if (rpi_unlikely(kernel->dep_count)) {
		err = check_deps(runtime, kernel);
		if (err)
			return err;
	}
	return ask->written_count > 1 ? check_written(ask) : 0;
}
