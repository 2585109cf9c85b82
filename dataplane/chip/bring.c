/* SPDX-License-Identifier: MIT */
/*
 * Arguments of a task: from the lane's stream to what an entry sees, with host
 * tensors brought to the device before and back after it, each only in the
 * direction that the task declares. Their device memory is a scratch that the
 * process's next task uses again.
 *
 * Per task: no system call (beyond the first touch of device memory), no
 * allocation, no lock.
 */
#include <errno.h>
#include <string.h>

#include "chip/server.h"
#include "memory/view.h"

/* Every argument starts on a boundary that any kernel's vectors like. */
#define ARGUMENT_ALIGN 256u

/* Tensors whose first line is asked for ahead. */
#define FETCH_TENSORS 12u

static void contiguous_strides(struct rp_tensor *tensor)
{
	int64_t stride = 1;
	uint32_t dim;

	for (dim = tensor->rank; dim-- > 0;) {
		tensor->strides[dim] = stride;
		stride *= tensor->shape[dim];
	}
}

/* The caller's view of host memory. */
static void host_tensor(const struct rpi_wire_tensor *wire,
			const struct rpi_wire_strides *strides, struct rp_tensor *out)
{
	out->data = (void *)(uintptr_t)wire->address;
	out->resident = 0;
	out->dtype = wire->dtype;
	out->rank = wire->rank;
	memcpy(out->shape, wire->shape, sizeof(out->shape));
	if (strides)
		memcpy(out->strides, strides->strides, sizeof(out->strides));
	else
		contiguous_strides(out);
}

/* A strided view in the fewest runs. The parent has checked it already. */
static int host_view(const struct rpi_wire_tensor *wire,
		     const struct rpi_wire_strides *strides, struct rpi_view *out)
{
	struct rp_tensor tensor;
	int err;

	host_tensor(wire, strides, &tensor);
	err = rpi_view_from_tensor("run", &tensor, out);
	if (!err)
		rpi_view_normalise(out);
	return err;
}

/* What is done to one run of contiguous host bytes; `at` is its packed place. */
typedef int (*run_fn)(struct rp_chip *chip, void *host, rpi_device_addr at, size_t bytes);

static int run_in(struct rp_chip *chip, void *host, rpi_device_addr at, size_t bytes)
{
	return chip->backend->copy_in(chip->device, at, host, bytes);
}

static int run_out(struct rp_chip *chip, void *host, rpi_device_addr at, size_t bytes)
{
	return chip->backend->copy_out(chip->device, host, at, bytes);
}

static int run_zero(struct rp_chip *chip, void *host, rpi_device_addr at, size_t bytes)
{
	(void)chip;
	(void)at;
	memset(host, 0, bytes);
	return 0;
}

/* Strided host memory, run by run in row-major order. Device memory is touched by
 * the backend's operations only. */
static int each_run(struct rp_chip *chip, const struct rpi_view *view, rpi_device_addr at,
		    run_fn fn)
{
	int64_t index[RP_MAX_DIMS] = { 0 };
	int err;

	do {
		err = fn(chip, (void *)rpi_view_run(view, index), at,
			 (size_t)view->run_bytes);
		at += (uint64_t)view->run_bytes;
	} while (!err && rpi_view_step(view, index));
	return err;
}

static int each_placed_run(struct rp_chip *chip, const struct rpi_placed *placed,
			   run_fn fn)
{
	struct rpi_view view;
	int err = host_view(placed->wire, placed->strides, &view);

	return err ? err : each_run(chip, &view, placed->at, fn);
}

static int fill_device(struct rp_chip *chip, const struct rpi_placed *placed)
{
	const struct rpi_wire_tensor *wire = placed->wire;
	struct rpi_peer_counts *counts = &chip->self->counts;

	if (!(wire->access & RP_IN)) {
		/* OUT starts as zero and is not uploaded. */
		rpi_count(&counts->bytes_zeroed, wire->bytes);
		return chip->backend->zero(chip->device, placed->at, wire->bytes);
	}
	chip->reads_host = true;
	rpi_count(&counts->copies_in, 1);
	rpi_count(&counts->bytes_in, wire->bytes);
	if (placed->strides)
		return each_placed_run(chip, placed, run_in);
	return chip->backend->copy_in(chip->device, placed->at,
				      (const void *)(uintptr_t)wire->address,
				      wire->bytes);
}

/* In place: OUT memory still starts as zero, so that a program does the same on
 * either kind of worker. */
static int zero_in_place(struct rp_chip *chip, const struct rpi_wire_tensor *wire,
			 const struct rpi_wire_strides *strides)
{
	struct rpi_view view;
	int err = host_view(wire, strides, &view);

	rpi_count(&chip->self->counts.bytes_zeroed, wire->bytes);
	return err ? err : each_run(chip, &view, 0, run_zero);
}

/* Something was unmapped in this process, or could not be mapped: a task that names it
 * fails and says so, where a touch would end the process. Or it is used for the first
 * time here. */
static __attribute__((noinline)) int check_host(struct rp_chip *chip,
						const struct rp_tensor *tensor,
						size_t bytes)
{
	/* Its first byte and its size do: the parent has seen that all of it lies in one
	 * region. */
	int err = rpi_server_check_host(chip, tensor->data, bytes);

	if (rpi_likely(!err))
		return 0;
	if (err == -EFAULT)
		return rp_chip_fail(chip, err,
				    "the host memory at %p was freed before this task",
				    tensor->data);
	return rp_chip_fail(
		chip, err,
		"the host memory at %p could not be mapped in this process: %s",
		tensor->data, strerror(-err));
}

static int place_tensor(struct rp_chip *chip, const struct rpi_wire_tensor *wire,
			const struct rpi_wire_strides *strides, struct rp_tensor *out,
			size_t *used)
{
	struct rpi_placed *placed = &chip->placed[chip->placed_count];
	size_t at = (*used + ARGUMENT_ALIGN - 1) & ~(size_t)(ARGUMENT_ALIGN - 1);
	int err;

	host_tensor(wire, strides, out);
	if (wire->resident)
		return 0; /* there already, and it stays */
	if (rpi_unlikely(chip->mapping.watch)) {
		err = check_host(chip, out, wire->bytes);
		if (err)
			return err;
	}
	if (chip->in_place) {
		chip->reads_host |= wire->access & RP_IN;
		if (!(wire->access & RP_IN))
			return zero_in_place(chip, wire, strides);
		return 0;
	}
	if (at > chip->argument_bytes || wire->bytes > chip->argument_bytes - at)
		return rp_chip_fail(
			chip, -ENOMEM,
			"the arguments need more than the %zu bytes of device "
			"memory (device_memory_bytes)",
			chip->argument_bytes);
	placed->wire = wire;
	placed->strides = strides;
	placed->at = chip->argument_base + at;
	*used = at + wire->bytes;
	chip->placed_count++;
	out->data = (void *)(uintptr_t)placed->at;
	contiguous_strides(out);
	return fill_device(chip, placed);
}

/* The first line of each host tensor, all at once: what is read comes while the others
 * are looked at, what is written will be ours when results go back. */
static void fetch_host(const struct rp_chip *chip, const uint8_t *stream)
{
	uint32_t i;

	for (i = 0; i < chip->task->arg_count && i < FETCH_TENSORS; i++) {
		const struct rpi_wire_tensor *wire =
			(const struct rpi_wire_tensor *)stream;

		if (wire->kind != RP_ARG_TENSOR) {
			stream += wire->kind == RP_ARG_SCALAR
					  ? sizeof(struct rpi_wire_scalar)
					  : sizeof(struct rpi_wire_domain);
			continue;
		}
		if (wire->resident)
			; /* device memory: nothing to fetch */
		else if (wire->access & RP_OUT)
			rpi_cpu_prefetch_write((void *)(uintptr_t)wire->address);
		else
			__builtin_prefetch((const void *)(uintptr_t)wire->address);
		stream += sizeof(*wire);
		if (wire->strided)
			stream += sizeof(struct rpi_wire_strides);
	}
}

/* The slot is another allocation's than it was. */
static __attribute__((noinline)) void attach(struct rp_chip *chip, struct rp_comm *comm,
					     const struct rpi_domain_slot *slot)
{
	comm->chip = chip;
	comm->slot = slot;
	comm->rank = slot->ranks[chip->peer_idx];
	comm->attached_id = slot->id;
	rpi_windows_attach(&chip->windows, slot);
}

/* The chip's side of a domain; a new lease begins it anew. */
static struct rp_comm *use_domain(struct rp_chip *chip,
				  const struct rpi_wire_domain *wire)
{
	struct rp_comm *comm = &chip->comms[wire->slot];
	const struct rpi_domain_slot *slot = &chip->windows.slots[wire->slot];

	if (rpi_unlikely(wire->reset))
		rpi_window_reset(chip, slot, wire->reset - 1);
	if (comm->lease == wire->lease)
		return comm;
	comm->generation = wire->generation;
	comm->lease = wire->lease;
	comm->timeout_ns = wire->timeout_ns;
	comm->round = 0;
	if (rpi_unlikely(comm->attached_id != slot->id))
		attach(chip, comm, slot);
	return comm;
}

/* Both return the bytes that they have read. */
static size_t read_scalar(const uint8_t *stream, struct rp_arg *arg)
{
	const struct rpi_wire_scalar *wire = (const struct rpi_wire_scalar *)stream;

	arg->kind = RP_ARG_SCALAR;
	arg->access = 0;
	arg->u.scalar.dtype = wire->dtype;
	arg->u.scalar.reserved = 0;
	arg->u.scalar.value.bits = wire->bits;
	return sizeof(*wire);
}

static size_t read_domain(struct rp_chip *chip, const uint8_t *stream, struct rp_arg *arg)
{
	const struct rpi_wire_domain *wire = (const struct rpi_wire_domain *)stream;

	arg->kind = RP_ARG_DOMAIN;
	arg->access = 0;
	arg->u.comm = use_domain(chip, wire);
	return sizeof(*wire);
}

void rpi_server_read_inline(struct rp_chip *chip)
{
	const struct rpi_task_body *task = chip->task;
	const uint8_t *stream = task->in.args.bytes;
	uint32_t i;

	if (task->in.args.domain.kind == RP_ARG_DOMAIN) {
		read_domain(chip, stream, &chip->args[0]);
		return;
	}
	for (i = 0; i < task->arg_count; i++)
		stream += read_scalar(stream, &chip->args[i]);
}

/* What the parameters of a program say of its arguments, as another task's stream has
 * it; without addresses and values. */
static void write_records(struct rp_chip *chip, const struct rp_program *program)
{
	uint8_t *at = chip->records;
	uint32_t i;

	for (i = 0; i < program->param_count; i++) {
		const struct rp_param *param = &program->params[i];
		struct rpi_wire_tensor *tensor = (struct rpi_wire_tensor *)at;
		int64_t elements = 1;

		if (param->kind == RP_ARG_SCALAR) {
			*(struct rpi_wire_scalar *)at = (struct rpi_wire_scalar){
				.kind = RP_ARG_SCALAR, .dtype = (uint8_t)param->dtype
			};
			at += sizeof(struct rpi_wire_scalar);
			continue;
		}
		*tensor = (struct rpi_wire_tensor){ .kind = RP_ARG_TENSOR,
						    .dtype = (uint8_t)param->dtype,
						    .rank = (uint8_t)param->rank,
						    .access = (uint8_t)param->access };
		memcpy(tensor->shape, param->shape, sizeof(tensor->shape));
		for (uint32_t k = 0; k < param->rank; k++)
			elements *= param->shape[k];
		tensor->bytes = (uint64_t)rpi_dtype_bytes(param->dtype, elements);
		at += sizeof(*tensor);
	}
	chip->records_of = program;
}

const uint8_t *rpi_server_expand_words(struct rp_chip *chip)
{
	const struct rpi_task_body *task = chip->task;
	const struct rp_program *program = chip->programs[task->program];
	uint8_t *at = chip->records;
	uint32_t i;

	if (rpi_unlikely(chip->records_of != program))
		write_records(chip, program);
	for (i = 0; i < task->arg_count; i++) {
		if (program->params[i].kind == RP_ARG_SCALAR) {
			((struct rpi_wire_scalar *)at)->bits = task->in.args.words[i];
			at += sizeof(struct rpi_wire_scalar);
		} else {
			((struct rpi_wire_tensor *)at)->address = task->in.args.words[i];
			at += sizeof(struct rpi_wire_tensor);
		}
	}
	return chip->records;
}

int rpi_server_bring_in(struct rp_chip *chip, const uint8_t *stream)
{
	size_t used = 0;
	uint32_t i;
	int err;

	fetch_host(chip, stream);

	chip->placed_count = 0;
	for (i = 0; i < chip->task->arg_count; i++) {
		const struct rpi_wire_tensor *wire =
			(const struct rpi_wire_tensor *)stream;
		const struct rpi_wire_strides *strides = NULL;
		struct rp_arg *arg = &chip->args[i];

		arg->kind = wire->kind;
		if (wire->kind == RP_ARG_SCALAR) {
			stream += read_scalar(stream, arg);
			continue;
		}
		if (wire->kind == RP_ARG_DOMAIN) {
			stream += read_domain(chip, stream, arg);
			continue;
		}
		stream += sizeof(*wire);
		if (wire->strided) {
			strides = (const struct rpi_wire_strides *)stream;
			stream += sizeof(*strides);
		}
		arg->access = wire->access;
		err = place_tensor(chip, wire, strides, &arg->u.tensor, &used);
		if (err)
			return err;
	}
	return 0;
}

int rpi_server_bring_out(struct rp_chip *chip)
{
	struct rpi_peer_counts *counts = &chip->self->counts;
	uint32_t i;
	int err;

	for (i = 0; i < chip->placed_count; i++) {
		const struct rpi_placed *placed = &chip->placed[i];
		const struct rpi_wire_tensor *wire = placed->wire;

		if (!(wire->access & RP_OUT))
			continue;
		err = placed->strides
			      ? each_placed_run(chip, placed, run_out)
			      : chip->backend->copy_out(chip->device,
							(void *)(uintptr_t)wire->address,
							placed->at, wire->bytes);
		if (err)
			return err;
		rpi_count(&counts->copies_out, 1);
		rpi_count(&counts->bytes_out, wire->bytes);
	}
	return 0;
}
