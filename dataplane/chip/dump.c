/* SPDX-License-Identifier: MIT */
#include "chip/dump.h"

#include <string.h>
#include <time.h>

#include "base/testing.h"
#include "chip/server.h"
#include "memory/view.h"
#include "trace/pipe.h"

/* Between two looks at a pipe that is full. */
#define LOOK_NS 20000

/* One argument on its way. */
struct sending {
	struct rp_chip *chip;
	bool on_device; /* bytes are the device's, which copies them */
	bool gone;	/* nobody takes them any more */
	int err;
};

static bool given_up(const struct rp_chip *chip)
{
	return !atomic_load_explicit(&chip->tracer.pipe->open, memory_order_relaxed) ||
	       atomic_load_explicit(&chip->self->stop, memory_order_acquire);
}

static size_t await_room(struct sending *sending, uint8_t **at_out)
{
	const struct timespec moment = { .tv_nsec = LOOK_NS };
	size_t room;

	while (!(room = rpi_pipe_room(sending->chip->tracer.pipe, at_out))) {
		sending->gone = given_up(sending->chip);
		if (sending->gone)
			return 0;
		nanosleep(&moment, NULL);
	}
	return room;
}

static void fetch(struct sending *sending, uint8_t *at, uintptr_t from, size_t bytes)
{
	struct rp_chip *chip = sending->chip;
	int err = 0;

	if (!sending->on_device) {
		memcpy(at, (const void *)from, bytes);
		return;
	}
	err = chip->backend->copy_out(chip->device, at, from, bytes);
	if (!err && chip->backend->settle)
		err = chip->backend->settle(chip->device);
	if (!err)
		return;
	memset(at, 0, bytes);
	sending->err = err;
}

static void put_out(struct sending *sending, uintptr_t from, size_t bytes)
{
	while (bytes && !sending->gone) {
		uint8_t *at;
		size_t room = await_room(sending, &at);

		if (room > bytes)
			room = bytes;
		fetch(sending, at, from, room);
		rpi_pipe_put(sending->chip->tracer.pipe, room);
		from += room;
		bytes -= room;
		if (bytes)
			rpi_test_point("dump.more");
	}
}

static void put_own(struct sending *sending, const void *from, size_t bytes)
{
	const bool on_device = sending->on_device;

	sending->on_device = false;
	put_out(sending, (uintptr_t)from, bytes);
	sending->on_device = on_device;
}

static void put_elements(struct sending *sending, const struct rpi_view *view,
			 uint64_t bytes)
{
	int64_t index[RP_MAX_DIMS] = { 0 };

	do {
		size_t run = (size_t)view->run_bytes;

		if (run > bytes)
			run = (size_t)bytes;
		put_out(sending, rpi_view_run(view, index), run);
		bytes -= run;
	} while (bytes && rpi_view_step(view, index));
}

/* How many bytes of the tensor go, and in which runs. */
static int lay_out(const struct rp_chip *chip, const struct rp_tensor *tensor,
		   struct rpi_dump_head *head, struct rpi_view *view)
{
	const uint64_t limit = atomic_load_explicit(&chip->tracer.pipe->limit_bytes,
						    memory_order_relaxed);
	int err = rpi_view_from_tensor("capture", tensor, view);

	if (err)
		return err;
	rpi_view_normalise(view);
	head->bytes = (uint64_t)rpi_view_bytes(view);
	head->sent = limit && limit < head->bytes ? limit : head->bytes;
	return 0;
}

static void dump_arg(struct sending *sending, struct rpi_dump_head *head,
		     const struct rp_arg *arg)
{
	const bool read = arg->access & RP_IN, written = arg->access & RP_OUT;
	const bool shown = head->phase == RPI_DUMP_BEFORE ? read : written;
	struct rpi_dump_tail tail = { 0 };
	struct rpi_view view = { 0 };

	head->kind = (uint8_t)arg->kind;
	head->access = (uint8_t)arg->access;
	head->bytes = head->sent = head->bits = 0;
	head->dtype = head->rank = 0;
	if (arg->kind == RP_ARG_SCALAR) {
		head->dtype = (uint8_t)arg->u.scalar.dtype;
		head->bits = arg->u.scalar.value.bits;
	} else if (arg->kind == RP_ARG_TENSOR) {
		const struct rp_tensor *tensor = &arg->u.tensor;

		head->dtype = (uint8_t)tensor->dtype;
		head->rank = (uint8_t)tensor->rank;
		memcpy(head->shape, tensor->shape, sizeof(head->shape));
		memcpy(head->strides, tensor->strides, sizeof(head->strides));
		sending->err = lay_out(sending->chip, tensor, head, &view);
		if (!shown)
			head->sent = 0;
	}
	put_own(sending, head, sizeof(*head));
	if (head->sent)
		put_elements(sending, &view, head->sent);
	tail.err = sending->err;
	put_own(sending, &tail, sizeof(tail));
}

void rpi_dump_args(struct rp_chip *chip, const struct rpi_task_body *task,
		   enum rpi_dump_phase phase)
{
	struct sending sending = { .chip = chip,
				   .on_device = chip->device && !chip->in_place };
	struct rpi_dump_head head = { .run_seq = task->run_seq,
				      .task_seq = chip->rx.next_seq,
				      .program = task->program,
				      .entry = task->entry,
				      .arg_count = task->arg_count,
				      .phase = (uint8_t)phase };
	uint32_t i;

	if (!chip->tracer.pipe || given_up(chip))
		return;
	rpi_test_point("dump.args");
	for (i = 0; i < task->arg_count && !sending.gone; i++) {
		const struct rp_arg *arg = &chip->args[i];

		if (phase == RPI_DUMP_AFTER &&
		    (arg->kind != RP_ARG_TENSOR || !(arg->access & RP_OUT)))
			continue;
		head.arg = (uint16_t)i;
		sending.err = 0;
		dump_arg(&sending, &head, arg);
	}
}
