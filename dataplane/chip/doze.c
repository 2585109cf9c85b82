/* SPDX-License-Identifier: MIT */
/* How a worker process waits for others, and goes to sleep. */
#include "chip/server.h"

uint32_t rpi_server_yield_ns(const struct rp_chip *chip, uint64_t peers, bool parent)
{
	rpi_park_sit(chip->park);
	if (rpi_rouser_beside(&chip->rouser, chip->park, peers) ||
	    (parent && rpi_park_beside(chip->park, chip->parent_park)))
		return 0;
	/* Others may keep waiting who is waited for. */
	return rpi_rouser_beside(&chip->rouser, chip->park, rpi_server_other_chips(chip))
		       ? RPI_SPIN_CROWDED_NS
		       : RPI_SPIN_ALONE_NS;
}

void rpi_server_doze_until(struct rp_chip *chip, rpi_ready_fn ready, const void *what,
			   uint64_t until_ns)
{
	/* E4, the sleeper's end. Relaxed: the fence orders it before the look. */
	atomic_store_explicit(&chip->self->dozing, 1, memory_order_relaxed);
	rpi_fence();
	if (!ready(chip, what)) {
		rpi_count(&chip->self->counts.sleeps, 1);
		rpi_park_sleep(chip->park, until_ns);
	} else if (!atomic_load_explicit(&chip->self->dozing, memory_order_relaxed)) {
		/* Somebody has taken the 1 already: its wake-up is for nothing. */
		rpi_park_drain(chip->park);
	}
	/* Woken, the 1 is gone. Otherwise it goes now. A wake-up that is still on
	 * its way ends the next sleep early, which looks again. */
	atomic_exchange_explicit(&chip->self->dozing, 0, memory_order_acq_rel);
}

void rpi_server_doze(struct rp_chip *chip, rpi_ready_fn ready, const void *what)
{
	rpi_server_doze_until(chip, ready, what, RPI_PARK_FOREVER);
}
