/* SPDX-License-Identifier: MIT */
/*
 * The domains of a worker. A record is one run's, or on a persistent worker it is
 * retained under (program, name) and leased to one run after the other. Used under
 * admission, and by close once nothing is in flight.
 */
#ifndef RPI_DOMAIN_TABLE_H
#define RPI_DOMAIN_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "dispatch/domain.h"
#include "domain/pool.h"

struct rpi_domains {
	struct rpi_pool pool;
	struct rp_domain records[RP_MAX_DOMAINS];
	uint64_t live; /* bit set: that record is allocated */
	enum rp_window_reset reset;
	bool persistent;
	uint64_t next_lease;
	uint64_t next_id;
	/* Written under admission; read by anyone. */
	_Atomic uint64_t allocated;
	_Atomic uint64_t released;
	_Atomic uint64_t leased;
};

static inline void rpi_domains_count(_Atomic uint64_t *counter)
{
	/* Relaxed, no read-modify-write: written under admission only. */
	atomic_store_explicit(counter,
			      atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* What a specification comes to; see spec.c. */
struct rpi_domain_plan {
	const char *name;
	uint32_t size;
	uint32_t buffer_count;
	uint8_t chips[RP_MAX_PEERS];
	uint64_t window_bytes;
	uint64_t staging_bytes;
	int64_t timeout_ns;
	const struct rp_domain_buffer *buffers;
	uint64_t offsets[RP_MAX_DOMAIN_BUFFERS];
	uint64_t bytes[RP_MAX_DOMAIN_BUFFERS];
};

/* spec.c: check a specification for a worker of `chip_count` chips. 0 or -EINVAL. */
int rpi_domain_plan(const struct rp_domain_spec *spec, uint32_t chip_count,
		    struct rpi_domain_plan *plan_out);

/* Whether the specification is, to the byte, the one that this domain came from. */
bool rpi_domain_recalls(const struct rp_domain *domain,
			const struct rp_domain_spec *spec);

/* 0 when the retained domain is what the plan says, else -EINVAL: names what differs. */
int rpi_domain_same(const struct rpi_domain_slot *slot,
		    const struct rpi_domain_plan *plan);

/* A new record with windows; *dirty_out when they have to be zeroed. */
int rpi_domains_allocate(struct rpi_domains *domains, const struct rpi_domain_plan *plan,
			 uint32_t program_idx, struct rp_domain **domain_out,
			 bool *dirty_out);

/* The retained one of this name; NULL for none. */
struct rp_domain *rpi_domains_find(struct rpi_domains *domains, uint32_t program_idx,
				   const char *name);

/* A run is over that retains nothing: release its domains. */
void rpi_domains_retire(struct rpi_domains *domains, struct rp_run *run);

/* Release all, the newest first; nothing is in flight. 0, or the first failure. */
int rpi_domains_close(struct rpi_domains *domains);

#endif
