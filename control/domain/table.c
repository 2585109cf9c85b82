/* SPDX-License-Identifier: MIT */
#include "domain/table.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/testing.h"
#include "dispatch/plane.h"

static struct rp_domain *free_record(struct rpi_domains *domains)
{
	uint32_t idx;

	for (idx = 0; idx < RP_MAX_DOMAINS; idx++) {
		struct rp_domain *domain = &domains->records[idx];

		if (domain->allocated)
			continue;
		memset(domain, 0, sizeof(*domain));
		domain->slot_idx = idx;
		domain->slot = &domains->pool.slots[idx];
		return domain;
	}
	return NULL;
}

static bool is_reset(const struct rpi_domains *domains,
		     const struct rp_domain_buffer *buffer)
{
	if (buffer->reset == RP_BUFFER_DEFAULT)
		return domains->reset != RP_WINDOWS_RESET_OFF;
	return buffer->reset == RP_BUFFER_RESET;
}

/* Add to what a reset zeroes; what touches the range before becomes one with it. */
static void add_range(struct rpi_domain_slot *slot, uint64_t from, uint64_t to)
{
	struct rpi_window_range *next = &slot->ranges[slot->range_count];

	if (from == to)
		return;
	if (slot->range_count && next[-1].offset + next[-1].bytes == from) {
		next[-1].bytes += to - from;
		return;
	}
	*next = (struct rpi_window_range){ .offset = from, .bytes = to - from };
	slot->range_count++;
}

/* Slack goes with the worker's own policy, a buffer with what it says. */
static void plan_reset(const struct rpi_domains *domains,
		       const struct rpi_domain_plan *plan, struct rpi_domain_slot *slot)
{
	const bool slack = domains->reset != RP_WINDOWS_RESET_OFF;
	uint64_t at = 0;
	uint32_t i;

	slot->range_count = 0;
	for (i = 0; i < plan->buffer_count; i++) {
		uint64_t end = plan->offsets[i] + plan->bytes[i];

		if (slack)
			add_range(slot, at, plan->offsets[i]);
		if (slot->buffers[i].reset)
			add_range(slot, plan->offsets[i], end);
		at = end;
	}
	if (slack)
		add_range(slot, at, slot->window_bytes);
}

static void fill_slot(struct rpi_domains *domains, const struct rpi_domain_plan *plan,
		      struct rp_domain *domain)
{
	const struct rpi_pool *pool = &domains->pool;
	const size_t pairs = (size_t)pool->chip_count * pool->chip_count;
	struct rpi_domain_slot *slot = domain->slot;
	uint32_t i;

	slot->id = ++domains->next_id;
	rpi_format(slot->name, sizeof(slot->name), "%s", plan->name);
	slot->size = plan->size;
	slot->window_bytes = plan->window_bytes;
	slot->staging_bytes = plan->staging_bytes;
	memset(slot->ranks, RPI_NO_RANK, sizeof(slot->ranks));
	for (i = 0; i < plan->size; i++) {
		slot->chips[i] = plan->chips[i];
		slot->ranks[plan->chips[i]] = (uint8_t)i;
		slot->windows[i] = (uint8_t *)(uintptr_t)domain->blocks[i]->address;
	}
	slot->lines = pool->lines + domain->slot_idx * pairs;
	slot->line_stride = pool->chip_count;
	slot->buffer_count = plan->buffer_count;
	for (i = 0; i < plan->buffer_count; i++) {
		struct rpi_window_buffer *buffer = &slot->buffers[i];

		rpi_format(buffer->name, sizeof(buffer->name), "%s",
			   plan->buffers[i].name);
		buffer->dtype = plan->buffers[i].dtype;
		buffer->wanted = (uint16_t)plan->buffers[i].reset;
		buffer->reset = is_reset(domains, &plan->buffers[i]);
		buffer->offset = plan->offsets[i];
		buffer->count = plan->buffers[i].count;
		buffer->bytes = plan->bytes[i];
	}
	plan_reset(domains, plan, slot);
}

int rpi_domains_allocate(struct rpi_domains *domains, const struct rpi_domain_plan *plan,
			 uint32_t program_idx, struct rp_domain **domain_out,
			 bool *dirty_out)
{
	struct rp_domain *domain = free_record(domains);
	uint32_t rank;
	int err = 0;

	*dirty_out = false;
	if (!domain)
		return rpi_fail(-ENOSPC,
				"rp_run_domain: '%s': %d domains are allocated already",
				plan->name, RP_MAX_DOMAINS);
	for (rank = 0; rank < plan->size; rank++) {
		err = rpi_pool_alloc(&domains->pool, plan->name, plan->chips[rank],
				     plan->window_bytes + plan->staging_bytes,
				     &domain->blocks[rank], dirty_out);
		if (err)
			break;
	}
	if (err) {
		while (rank-- > 0)
			rpi_pool_free(&domains->pool, plan->chips[rank],
				      domain->blocks[rank]);
		return err;
	}
	domain->allocated = true;
	domains->live |= UINT64_C(1) << domain->slot_idx;
	domain->retained = domains->persistent;
	domain->eager = domains->reset == RP_WINDOWS_RESET_EAGER;
	domain->program_idx = program_idx;
	fill_slot(domains, plan, domain);
	domain->order = domain->slot->id;
	rpi_domains_count(&domains->allocated);
	*domain_out = domain;
	return 0;
}

struct rp_domain *rpi_domains_find(struct rpi_domains *domains, uint32_t program_idx,
				   const char *name)
{
	uint64_t left = domains->live;

	while (left) {
		struct rp_domain *domain = &domains->records[__builtin_ctzll(left)];

		left &= left - 1;
		if (domain->retained && domain->program_idx == program_idx &&
		    !strcmp(domain->slot->name, name))
			return domain;
	}
	return NULL;
}

static void release(struct rpi_domains *domains, struct rp_domain *domain)
{
	uint32_t rank;

	for (rank = 0; rank < domain->slot->size; rank++)
		rpi_pool_free(&domains->pool, domain->slot->chips[rank],
			      domain->blocks[rank]);
	domain->allocated = false;
	domains->live &= ~(UINT64_C(1) << domain->slot_idx);
	domain->lease_run = 0;
	rpi_domains_count(&domains->released);
}

void rpi_domains_retire(struct rpi_domains *domains, struct rp_run *run)
{
	uint64_t left = run->domains;

	while (left) {
		struct rp_domain *domain = &domains->records[__builtin_ctzll(left)];

		left &= left - 1;
		release(domains, domain);
	}
	run->domains = 0;
}

static struct rp_domain *newest(struct rpi_domains *domains)
{
	struct rp_domain *found = NULL;
	uint32_t idx;

	for (idx = 0; idx < RP_MAX_DOMAINS; idx++) {
		struct rp_domain *domain = &domains->records[idx];

		if (domain->allocated && (!found || domain->order > found->order))
			found = domain;
	}
	return found;
}

int rpi_domains_close(struct rpi_domains *domains)
{
	struct rp_domain *domain;
	uint64_t left;
	int status = 0;
	int err;

	while ((domain = newest(domains))) {
		err = rpi_test_point("domain.release");
		if (err && !status)
			status = rpi_fail(err,
					  "rp_worker_close: releasing domain '%s' "
					  "failed: %s",
					  domain->slot->name, strerror(-err));
		release(domains, domain);
	}
	left = rpi_pool_committed(&domains->pool);
	if (left && !status)
		status = rpi_fail(-EBUSY,
				  "rp_worker_close: %" PRIu64
				  " bytes of windows did not come free",
				  left);
	return status;
}
