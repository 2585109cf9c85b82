/* SPDX-License-Identifier: MIT */
/* Waking a worker process that dozes; the parent and its peers do it alike. */
#ifndef RPI_DISPATCH_ROUSE_H
#define RPI_DISPATCH_ROUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "completion/fence.h"
#include "completion/park.h"
#include "dispatch/wire.h"

/* What one process wakes the others with. */
struct rpi_rouser {
	struct rpi_peer *peers; /* shared */
	struct rpi_park *parks; /* [peer_count], this process's view */
	uint32_t peer_count;
	struct rpi_waker waker;
	_Atomic uint64_t wakes; /* sent by this process */
};

/* Take the doze away from a peer and wake it; nothing if it does not doze. */
void rpi_rouse_sleeper(struct rpi_rouser *rouser, uint32_t peer);

/* E4, the waker's end: called after something was published for the peer. */
static inline void rpi_rouse(struct rpi_rouser *rouser, uint32_t peer)
{
	rpi_fence();
	/* Relaxed: ordered by the fence. The line is written only when the peer
	 * dozes off, so a look at an awake peer stays in this core's cache. */
	if (rpi_unlikely(atomic_load_explicit(&rouser->peers[peer].dozing,
					      memory_order_relaxed)))
		rpi_rouse_sleeper(rouser, peer);
}

/* Whether one of these peers (bit set) may need the CPU that `mine` sat down on; for
 * crowded machines, a hint. */
bool rpi_rouser_beside(const struct rpi_rouser *rouser, const struct rpi_park *mine,
		       uint64_t peers);

/* After a cancellation or a stop: nobody may sleep through it. */
void rpi_rouse_all(struct rpi_rouser *rouser);

#endif
