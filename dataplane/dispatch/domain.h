/* SPDX-License-Identifier: MIT */
/*
 * A comm domain in the parent: who may name it, and which tasks its next users follow.
 * control/domain/ owns the records and the memory of the windows; everything here is
 * used under admission.
 */
#ifndef RPI_DISPATCH_DOMAIN_H
#define RPI_DISPATCH_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/domain.h>

#include "dispatch/hazard.h"
#include "window/slot.h"

struct rp_run;
struct rpi_block;
struct rpi_plane;

/* Task of no run: nobody cancels it. */
#define RPI_RUN_NONE UINT64_MAX

struct rp_domain {
	struct rpi_domain_slot *slot; /* shared */
	uint32_t slot_idx;
	uint32_t program_idx;
	bool allocated;
	bool retained; /* outlives its run */
	bool eager;    /* is reset as soon as a run is done with it */
	bool clean;    /* such a reset has been sent, nobody has used it since */
	/* RPI_RESET_* + 1: what its next task zeroes before it begins, 0 nothing. Only a
	 * domain of one member can do without a task that the peers follow. */
	uint32_t reset_due;
	int64_t timeout_ns; /* of this lease */
	uint64_t lease_run; /* the run that may name it; 0 none */
	uint64_t generation;
	uint64_t lease;	  /* a number of its own for each lease of any domain */
	uint64_t order;	  /* of allocation; close goes backwards */
	uint64_t settled; /* bit per chip: its tasks follow the resets of the others */
	uint64_t last_seq[RP_MAX_PEERS];  /* per chip: newest task on its windows */
	uint64_t reset_seq[RP_MAX_PEERS]; /* per chip: newest reset of its window, 0 none
					   */
	struct rpi_block *blocks[RP_MAX_PEERS]; /* per rank; control's */
	/* As it was specified when it was allocated: a lease that says the same again
	 * need not be checked again. control's too. */
	struct rp_domain_spec given;
	int64_t given_timeout_ns;
};

/* Whether it is this run's; -EINVAL with an error line. */
int rpi_domain_check(const struct rp_run *run, const char *call,
		     const struct rp_domain *domain);

/* Whether a task of this run on `chip` may name it as argument `arg`; likewise. */
int rpi_domain_check_task(const struct rp_run *run, const char *call, uint32_t arg,
			  const struct rp_domain *domain, uint32_t chip);

/* Add to `follow` what the chip's next task that names the domain must follow. */
void rpi_domain_follow(const struct rp_domain *domain, uint32_t chip,
		       struct rpi_follow *follow);

/* Task `seq` of the chip names the domain. */
static inline void rpi_domain_note(struct rp_domain *domain, uint32_t chip, uint64_t seq)
{
	domain->last_seq[chip] = seq;
	domain->settled |= UINT64_C(1) << chip;
}

/*
 * Send every member a reset (`what`: RPI_RESET_*). As part of the run, or of no run:
 * then the run's end does not wait for it.
 */
int rpi_domain_reset(struct rp_run *run, const char *call, struct rp_domain *domain,
		     uint32_t what, bool of_run);

/* The run is under way: reset in advance what it used and is eager. */
void rpi_domains_reset_ahead(struct rp_run *run);

#endif
