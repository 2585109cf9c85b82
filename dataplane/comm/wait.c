/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a peer. Never: an allocation, a lock, a log; a system call only to sleep.
 */
#include <errno.h>

#include "chip/server.h"
#include "comm/comm.h"
#include "dispatch/frame.h"

struct awaited {
	const struct rp_comm *comm;
	rpi_comm_ready_fn ready;
	const void *what;
};

/* Whoever fails a run or stops a process rouses everybody. */
static bool hopeless(const struct rp_chip *chip)
{
	return rpi_frame_cancelled(&chip->frames[chip->task->frame_idx],
				   chip->task->run_seq) ||
	       atomic_load_explicit(&chip->self->stop, memory_order_acquire);
}

/* The last look before a sleep (E4). */
static bool come_or_hopeless(struct rp_chip *chip, const void *what)
{
	const struct awaited *awaited = what;

	return awaited->ready(awaited->comm, awaited->what) || hopeless(chip);
}

uint64_t rpi_comm_limit_ns(const struct rp_comm *comm, int64_t timeout_ns)
{
	if (!timeout_ns)
		timeout_ns = comm->timeout_ns;
	return timeout_ns < 0 ? RPI_PARK_FOREVER : (uint64_t)timeout_ns;
}

double rpi_comm_seconds(const struct rp_comm *comm, int64_t timeout_ns)
{
	return (double)rpi_comm_limit_ns(comm, timeout_ns) * 1e-9;
}

/* Only on the turns that read the clock; to them a wait has begun a few turns late. */
static bool spun_long(const struct rpi_spin_wait *wait, uint64_t limit)
{
	return wait->turn_count % RPI_SPIN_TURNS == 0 &&
	       rpi_clock_to_ns(wait->last_ticks - wait->begin_ticks) >= limit;
}

static int sleep_for(const struct awaited *awaited, uint64_t limit)
{
	const struct rp_comm *comm = awaited->comm;
	uint64_t until_ns = RPI_PARK_FOREVER;

	if (limit != RPI_PARK_FOREVER &&
	    __builtin_add_overflow(rpi_now_ns(), limit, &until_ns))
		until_ns = RPI_PARK_FOREVER;
	while (!awaited->ready(comm, awaited->what)) {
		if (hopeless(comm->chip))
			return -ECANCELED;
		if (until_ns != RPI_PARK_FOREVER && rpi_now_ns() >= until_ns)
			return -ETIMEDOUT;
		rpi_server_doze_until(comm->chip, come_or_hopeless, awaited, until_ns);
	}
	return 0;
}

int rpi_comm_await(const struct rp_comm *comm, rpi_comm_ready_fn ready, const void *what,
		   uint32_t from, int64_t timeout_ns)
{
	const struct awaited awaited = { comm, ready, what };
	uint64_t limit = rpi_comm_limit_ns(comm, timeout_ns);
	struct rp_chip *chip = comm->chip;
	struct rpi_spin_wait wait;
	int err;

	rpi_server_spin_begin(chip, &wait, &chip->dep_spin,
			      from == RPI_NO_RANK
				      ? rpi_server_other_chips(chip)
				      : UINT64_C(1) << comm->slot->chips[from],
			      false);
	while (!ready(comm, what)) {
		if (rpi_unlikely(hopeless(chip)))
			return -ECANCELED;
		if (!rpi_spin_again(&wait)) {
			err = sleep_for(&awaited, limit);
			rpi_spin_end(&wait, true);
			return err;
		}
		if (rpi_unlikely(spun_long(&wait, limit)))
			return -ETIMEDOUT;
	}
	rpi_spin_end(&wait, false);
	return 0;
}
