/* SPDX-License-Identifier: MIT */
/* The loop of a worker process. */
#include "chip/server.h"

static bool stopped(const struct rp_chip *chip)
{
	return atomic_load_explicit(&chip->self->stop, memory_order_acquire);
}

static bool has_work(struct rp_chip *chip, const void *what)
{
	(void)what;
	/* What could not be mapped is tried again for the next task, not till then. */
	return rpi_lane_rx_poll(&chip->rx) || rpi_server_command_due(chip) ||
	       stopped(chip) || (rpi_server_mapping_due(chip) && !chip->mapping.refused);
}

/* Until there is a task or a command, or the process is to stop. Spins for a budget
 * that follows the gaps, then sleeps. */
static void await_work(struct rp_chip *chip)
{
	struct rpi_spin_wait wait;
	bool slept = false;

	rpi_server_spin_begin(chip, &wait, &chip->spin, 0, true);
	while (!has_work(chip, NULL) && rpi_spin_again(&wait))
		;
	while (!has_work(chip, NULL)) {
		rpi_server_doze(chip, has_work, NULL);
		slept = true;
	}
	rpi_spin_end(&wait, slept);
}

void rpi_server_run(struct rp_chip *chip)
{
	for (;;) {
		const struct rpi_task_body *task = rpi_lane_rx_poll(&chip->rx);
		bool command = rpi_server_command_due(chip);
		uint64_t seq = chip->rx.next_seq;

		/* M1: after the looks at what may name the memory. */
		if (rpi_unlikely(rpi_server_mapping_due(chip)))
			rpi_server_mapping(chip);
		/* A command first: it has waited for the tasks that it follows, and
		 * later ones must not keep it waiting. */
		if (rpi_unlikely(command)) {
			rpi_server_command(chip);
			continue;
		}
		if (!task) {
			if (stopped(chip))
				return;
			await_work(chip);
			continue;
		}
		rpi_server_execute(chip, task);
		/* Before the end is published: then the slot may be written again. */
		rpi_lane_rx_next(&chip->rx, task);
		rpi_server_publish(chip, seq);
	}
}
