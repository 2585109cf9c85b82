/* SPDX-License-Identifier: MIT */
#include "dispatch/domain.h"

#include <errno.h>
#include <string.h>

#include "base/testing.h"
#include "dispatch/plane.h"
#include "window/reset.h"

/* Any pointer may come: it is looked at before it is followed. */
static bool is_ours(const struct rp_run *run, const struct rp_domain *domain)
{
	uintptr_t at = (uintptr_t)domain - (uintptr_t)run->plane->domains;

	if (rpi_unlikely(domain != run->leased) &&
	    (!run->plane->domains || at % sizeof(*domain) ||
	     at / sizeof(*domain) >= RP_MAX_DOMAINS))
		return false;
	return domain && domain->lease_run == run->seq;
}

int rpi_domain_check(const struct rp_run *run, const char *call,
		     const struct rp_domain *domain)
{
	if (is_ours(run, domain))
		return 0;
	return rpi_fail(-EINVAL,
			"%s: domain %p is not this run's, expected one from "
			"rp_run_domain() that was not released",
			call, (const void *)domain);
}

static __attribute__((cold, noinline)) int fail_task(const struct rp_run *run,
						     const char *call, uint32_t arg,
						     const struct rp_domain *domain,
						     uint32_t chip)
{
	int err = rpi_domain_check(run, call, domain);

	if (err)
		return err;
	if (chip >= run->plane->chip_count)
		return rpi_fail(-EINVAL,
				"%s: argument %u is domain '%s', which callbacks can't "
				"use",
				call, arg, domain->slot->name);
	return rpi_fail(-EINVAL,
			"%s: argument %u is domain '%s', of which chip %u is no member",
			call, arg, domain->slot->name, chip);
}

int rpi_domain_check_task(const struct rp_run *run, const char *call, uint32_t arg,
			  const struct rp_domain *domain, uint32_t chip)
{
	/* A callback worker has no rank. */
	if (rpi_likely(is_ours(run, domain) && domain->slot->ranks[chip] != RPI_NO_RANK))
		return 0;
	return fail_task(run, call, arg, domain, chip);
}

void rpi_domain_follow(const struct rp_domain *domain, uint32_t chip,
		       struct rpi_follow *follow)
{
	const struct rpi_domain_slot *slot = domain->slot;
	uint32_t rank;

	/* Its earlier task has followed them, and it works in order. */
	if (domain->settled >> chip & 1)
		return;
	for (rank = 0; rank < slot->size; rank++) {
		uint32_t other = slot->chips[rank];

		if (other != chip && domain->reset_seq[other])
			rpi_follow_done(follow, other, domain->reset_seq[other]);
	}
}

static void follow_users(const struct rp_domain *domain, uint32_t chip,
			 struct rpi_follow *follow)
{
	const struct rpi_domain_slot *slot = domain->slot;
	uint32_t rank;

	rpi_follow_reset(follow);
	/* Stress tests leave the edge out, to see that they would notice. */
	if (rpi_test_point("domain.follow"))
		return;
	for (rank = 0; rank < slot->size; rank++) {
		uint32_t other = slot->chips[rank];

		if (other != chip && domain->last_seq[other])
			rpi_follow_done(follow, other, domain->last_seq[other]);
	}
}

int rpi_domain_reset(struct rp_run *run, const char *call, struct rp_domain *domain,
		     uint32_t what, bool of_run)
{
	const struct rpi_domain_slot *slot = domain->slot;
	static const struct rpi_args no_args;
	uint64_t seqs[RP_MAX_PEERS];
	uint32_t rank;
	int err;

	for (rank = 0; rank < slot->size; rank++) {
		uint32_t chip = slot->chips[rank];
		struct rpi_task_body body = {
			.op = RPI_OP_RESET,
			.frame_idx = (uint8_t)run->frame_idx,
			.program = (uint16_t)run->program_idx,
			.entry = (uint16_t)domain->slot_idx,
			.arg_count = (uint16_t)what,
			.run_seq = of_run ? run->seq : RPI_RUN_NONE,
		};

		/* The users before it, not the resets beside it. */
		follow_users(domain, chip, &run->follow);
		seqs[chip] = run->plane->lanes[chip].next_seq;
		err = rpi_run_send(run, call, chip, &body, &no_args, of_run);
		if (err)
			return of_run ? rpi_run_break(run, err) : err;
	}
	for (rank = 0; rank < slot->size; rank++) {
		uint32_t chip = slot->chips[rank];

		domain->reset_seq[chip] = seqs[chip];
		domain->last_seq[chip] = seqs[chip];
	}
	domain->settled = 0;
	return 0;
}

static void publish_ahead(struct rp_run *run, const struct rpi_domain_slot *slot)
{
	uint32_t rank;

	for (rank = 0; rank < slot->size; rank++) {
		struct rpi_lane *lane = &run->plane->lanes[slot->chips[rank]];

		rpi_lane_flush(lane);
		/* The next run's first task is to travel by slot all the same. */
		lane->lone_next = true;
	}
}

void rpi_domains_reset_ahead(struct rp_run *run)
{
	uint64_t left = run->domains;

	while (left) {
		struct rp_domain *domain = &run->plane->domains[__builtin_ctzll(left)];

		left &= left - 1;
		if (!domain->eager || !domain->slot->range_count || domain->clean)
			continue;
		/* Without the processes there is nothing to reset, nor anybody to use
		 * it. */
		if (rpi_domain_reset(run, "rp_worker_submit", domain, RPI_RESET_RANGES,
				     false))
			return;
		publish_ahead(run, domain->slot);
		domain->clean = true;
	}
}
