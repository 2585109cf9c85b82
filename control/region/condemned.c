/* SPDX-License-Identifier: MIT */
/*
 * Regions that were freed here while processes of workers still have them mapped. Each
 * such worker has a claim on the addresses, which ends when all its processes have said
 * that they let go, or are gone.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "region/registry.h"

/* How long a free looks on while idle processes let go; usually they are woken for it
 * and need a hundredth of this. */
#define LOOK_NS	    (UINT64_C(100) * 1000000u)
#define QUICK_LOOKS 32
#define PAUSE_NS    20000

struct condemned {
	struct rpi_region region;
	uint64_t serial;
	struct rpi_claim *claims;
	struct condemned *next;
};

static struct condemned *all; /* under the registry's lock */

static enum rpi_leaving look_at(struct rpi_claim *claim, const struct rpi_region *region)
{
	struct rpi_shared_map *map = claim->map;

	/* In a child of the application the addresses are its own at once. */
	if (!map->ops || map->pid != getpid())
		return RPI_LEFT;
	if (!claim->ticket && map->ops->unmap(map->context, (uintptr_t)region->base,
					      region->bytes, &claim->ticket))
		return RPI_BUSY; /* it has too much unread: with the next settling */
	return map->ops->leaving(map->context, claim->ticket);
}

/* The worst that any claim says; those that have ended go. */
static enum rpi_leaving look_at_all(struct condemned *condemned)
{
	struct rpi_claim **link = &condemned->claims;
	enum rpi_leaving worst = RPI_LEFT;

	while (*link) {
		struct rpi_claim *claim = *link;
		enum rpi_leaving now = look_at(claim, &condemned->region);

		if (now == RPI_LEFT) {
			*link = claim->next;
			free(claim);
			continue;
		}
		worst = now > worst ? now : worst;
		link = &claim->next;
	}
	return worst;
}

void rpi_condemn(struct rpi_shared_region *shared, struct rpi_claim *claims)
{
	struct condemned *condemned = claims ? calloc(1, sizeof(*condemned)) : NULL;

	if (!condemned) {
		/* No memory to note it is as no memory for a claim. */
		while (claims) {
			struct rpi_claim *next = claims->next;

			look_at(claims, &shared->region);
			free(claims);
			claims = next;
		}
		rpi_region_destroy(&shared->region);
		return;
	}
	rpi_region_vacate(&shared->region);
	condemned->region = shared->region;
	condemned->serial = shared->serial;
	condemned->claims = claims;
	condemned->next = all;
	all = condemned;
	look_at_all(condemned); /* tells them */
}

void rpi_condemned_settle(void)
{
	struct condemned **link = &all;

	while (*link) {
		struct condemned *condemned = *link;

		if (look_at_all(condemned) != RPI_LEFT) {
			link = &condemned->next;
			continue;
		}
		*link = condemned->next;
		rpi_region_destroy(&condemned->region);
		free(condemned);
	}
}

void rpi_condemned_drop(const struct rpi_shared_map *map)
{
	struct condemned *condemned;

	for (condemned = all; condemned; condemned = condemned->next) {
		struct rpi_claim **link = &condemned->claims;

		while (*link) {
			struct rpi_claim *claim = *link;

			if (claim->map != map) {
				link = &claim->next;
				continue;
			}
			*link = claim->next;
			free(claim);
		}
	}
	rpi_condemned_settle();
}

static struct condemned *find(uint64_t serial)
{
	struct condemned *condemned = all;

	while (condemned && condemned->serial != serial)
		condemned = condemned->next;
	return condemned;
}

void rpi_condemned_await(uint64_t serial)
{
	const struct timespec moment = { .tv_nsec = PAUSE_NS };
	const uint64_t until_ns = rpi_now_ns() + LOOK_NS;
	bool over = false;
	int looks;

	for (looks = 0; !over; looks++) {
		struct condemned *condemned;
		bool late = rpi_now_ns() >= until_ns;

		pthread_mutex_lock(&rpi_registry.lock);
		rpi_condemned_settle();
		condemned = find(serial);
		over = !condemned || late || look_at_all(condemned) != RPI_LEAVING;
		/* Held till here, so that the pages are given back by this thread and
		 * not by a chip between two tasks. */
		if (condemned && over)
			rpi_region_close(&condemned->region);
		pthread_mutex_unlock(&rpi_registry.lock);
		if (over)
			return;
		if (looks < QUICK_LOOKS)
			sched_yield();
		else
			nanosleep(&moment, NULL);
	}
}
