/* SPDX-License-Identifier: MIT */
/* Commands, carried out between tasks; see staging/command.h for the order. */
#include <errno.h>
#include <string.h>

#include "base/futex.h"
#include "base/testing.h"
#include "chip/server.h"
#include "staging/command.h"

static int copy_in(struct rp_chip *chip, const struct rpi_command *command, bool stream)
{
	const void *from = command->inlined ? command->data
					    : (const void *)(uintptr_t)command->host;

	return (stream ? chip->backend->stream_in : chip->backend->copy_in)(
		chip->device, command->device, from, (size_t)command->bytes);
}

static int copy_out(struct rp_chip *chip, const struct rpi_command *command,
		    struct rpi_reply *reply, bool stream)
{
	void *to = command->inlined ? reply->data : (void *)(uintptr_t)command->host;

	return (stream ? chip->backend->stream_out : chip->backend->copy_out)(
		chip->device, to, command->device, (size_t)command->bytes);
}

/* Memory that was freed meanwhile, or could not be mapped, costs this copy. */
static int check_host(struct rp_chip *chip, const struct rpi_command *command)
{
	if (rpi_likely(!chip->mapping.watch) || command->inlined)
		return 0;
	return rpi_server_check_host(chip, (const void *)(uintptr_t)command->host,
				     (size_t)command->bytes);
}

static int carry_out(struct rp_chip *chip, const struct rpi_command *command,
		     struct rpi_reply *reply)
{
	int err = rpi_test_point("chip.command");

	if (!err)
		err = check_host(chip, command);
	if (rpi_unlikely(err))
		return err;
	switch (command->op) {
	case RPI_COMMAND_COPY_IN:
	case RPI_COMMAND_STREAM_IN:
		err = copy_in(chip, command, command->op == RPI_COMMAND_STREAM_IN);
		break;
	case RPI_COMMAND_COPY_OUT:
	case RPI_COMMAND_STREAM_OUT:
		err = copy_out(chip, command, reply,
			       command->op == RPI_COMMAND_STREAM_OUT);
		break;
	default:
		return -EPROTO;
	}
	if (!err && chip->backend->settle)
		err = chip->backend->settle(chip->device);
	return err;
}

bool rpi_server_command_due(const struct rp_chip *chip)
{
	const struct rpi_command *command = rpi_command_poll(&chip->commands);

	return command && command->after_task < chip->rx.next_seq;
}

void rpi_server_command(struct rp_chip *chip)
{
	const struct rpi_command *command = rpi_command_poll(&chip->commands);
	uint64_t seq = chip->commands.next_seq;
	struct rpi_reply *reply =
		&chip->commands.lane->replies[seq & (RPI_COMMAND_SLOTS - 1)];

	reply->status = carry_out(chip, command, reply);
	rpi_test_point("chip.copied");
	chip->commands.next_seq = seq + 1;
	/* C2 */
	atomic_store_explicit(&reply->seq, seq, memory_order_release);
	rpi_fence(); /* E5 */
	if (!(atomic_load_explicit(&chip->self->attention, memory_order_relaxed) &
	      RPI_ATTENTION_REPLY))
		return;
	atomic_fetch_and_explicit(&chip->self->attention, ~RPI_ATTENTION_REPLY,
				  memory_order_acq_rel);
	atomic_fetch_add_explicit(&chip->self->reply_futex, 1, memory_order_release);
	rpi_futex_wake_all(&chip->self->reply_futex, RPI_FUTEX_SHARED);
}
