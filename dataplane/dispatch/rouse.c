/* SPDX-License-Identifier: MIT */
/* Off the hot path: somebody sleeps, so one system call is due. */
#include "dispatch/rouse.h"

#include "base/probe.h"

void rpi_rouse_sleeper(struct rpi_rouser *rouser, uint32_t peer)
{
	uint64_t wakes;

	/* Whoever takes the 1 owes the wake-up, so that there is exactly one. */
	if (!atomic_exchange_explicit(&rouser->peers[peer].dozing, 0,
				      memory_order_acq_rel))
		return;
	rpi_park_wake(&rouser->parks[peer], &rouser->waker);
	wakes = atomic_fetch_add_explicit(&rouser->wakes, 1, memory_order_relaxed) + 1;
	rpi_probe(wake, peer, wakes);
}

bool rpi_rouser_beside(const struct rpi_rouser *rouser, const struct rpi_park *mine,
		       uint64_t peers)
{
	while (peers) {
		uint32_t peer = (uint32_t)__builtin_ctzll(peers);

		peers &= peers - 1;
		if (rpi_park_beside(mine, &rouser->parks[peer]))
			return true;
	}
	return false;
}

void rpi_rouse_all(struct rpi_rouser *rouser)
{
	uint32_t peer;

	rpi_fence();
	for (peer = 0; peer < rouser->peer_count; peer++)
		rpi_rouse_sleeper(rouser, peer);
}
