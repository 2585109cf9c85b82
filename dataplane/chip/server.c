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
	return rpi_lane_rx_poll(&chip->rx) || stopped(chip);
}

/* The next task, or NULL when the process is to stop. Spins for a budget that
 * follows the gaps, then sleeps. */
static const struct rpi_task_body *next_task(struct rp_chip *chip)
{
	const struct rpi_task_body *task;
	struct rpi_spin_wait wait;

	task = rpi_lane_rx_poll(&chip->rx);
	if (task)
		return task;
	rpi_spin_begin(&wait, &chip->spin);
	while (!(task = rpi_lane_rx_poll(&chip->rx)) && !stopped(chip) &&
	       rpi_spin_again(&wait))
		;
	while (!task && !stopped(chip)) {
		rpi_server_doze(chip, has_work, NULL);
		task = rpi_lane_rx_poll(&chip->rx);
	}
	rpi_spin_end(&wait);
	return task;
}

void rpi_server_run(struct rp_chip *chip)
{
	const struct rpi_task_body *task;

	while ((task = next_task(chip))) {
		uint64_t seq = chip->rx.next_seq;

		rpi_server_execute(chip, task);
		/* Before the end is published: then the slot may be written again. */
		rpi_lane_rx_next(&chip->rx, task);
		rpi_server_publish(chip, seq);
	}
}
