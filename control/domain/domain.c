/* SPDX-License-Identifier: MIT */
/* What an orchestration does with domains. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "domain/table.h"
#include "window/reset.h"
#include "worker/worker.h"

static struct rp_worker *worker_of(const struct rp_run *run)
{
	return run->plane->memory_context;
}

/* Runs that are over hold their windows until somebody needs the memory. */
static void retire_ended(struct rpi_plane *plane, struct rpi_domains *domains)
{
	uint32_t idx;

	for (idx = 0; idx < RPI_FRAME_COUNT; idx++) {
		struct rp_run *run = &plane->runs[idx];
		uint64_t word = atomic_load_explicit(&run->word, memory_order_acquire);

		if (run->domains &&
		    word == rpi_run_word(word >> RPI_RUN_STATE_BITS, RPI_RUN_FREE))
			rpi_domains_retire(domains, run);
	}
}

/* Names are the run's: of what it holds, and has not released. */
static int check_unused(const struct rp_run *run, const char *name)
{
	uint64_t left = run->domains;

	while (left) {
		const struct rp_domain *domain =
			&run->plane->domains[__builtin_ctzll(left)];

		left &= left - 1;
		if (domain->lease_run == run->seq && !strcmp(domain->slot->name, name))
			return rpi_fail(-EEXIST,
					"rp_run_domain: the run has a domain '%s' "
					"already, expected another name, or "
					"rp_run_release_domain() first",
					name);
	}
	return 0;
}

/* From here on the domain is this run's; its windows are zeroed if they have to be. */
static int lease(struct rp_run *run, struct rpi_domains *domains,
		 struct rp_domain *domain, int64_t timeout_ns, uint32_t what, bool reset)
{
	int err = 0;

	domain->lease_run = run->seq;
	domain->lease = ++domains->next_lease;
	domain->timeout_ns = timeout_ns;
	domain->generation++;
	domain->settled = 0;
	run->domains |= UINT64_C(1) << domain->slot_idx;
	run->leased = domain;
	domain->reset_due = reset && domain->slot->size == 1 ? what + 1 : 0;
	if (reset && !domain->reset_due)
		err = rpi_domain_reset(run, "rp_run_domain", domain, what, true);
	domain->clean = false;
	return err;
}

static int lease_retained(struct rp_run *run, struct rp_domain *domain,
			  int64_t timeout_ns)
{
	struct rpi_domains *domains = &worker_of(run)->domains;

	rpi_domains_count(&domains->leased);
	return lease(run, domains, domain, timeout_ns, RPI_RESET_RANGES,
		     domain->slot->range_count && !domain->clean);
}

/* A retained domain whose specification is said again; NULL: look closer. */
static struct rp_domain *recall(const struct rp_run *run,
				const struct rp_domain_spec *spec)
{
	struct rpi_domains *domains = &worker_of(run)->domains;
	uint64_t left = domains->persistent ? domains->live : 0;

	while (left) {
		struct rp_domain *domain = &domains->records[__builtin_ctzll(left)];

		left &= left - 1;
		if (domain->retained && domain->program_idx == run->program_idx &&
		    rpi_domain_recalls(domain, spec))
			return domain;
	}
	return NULL;
}

static __attribute__((noinline)) int obtain(struct rp_run *run,
					    const struct rp_domain_spec *spec,
					    struct rp_domain **domain_out)
{
	struct rpi_domains *domains = &worker_of(run)->domains;
	struct rp_domain *domain = NULL;
	struct rpi_domain_plan plan;
	bool dirty;
	int err;

	err = rpi_domain_plan(spec, run->plane->chip_count, &plan);
	if (!err)
		err = check_unused(run, spec->name);
	if (err)
		return err;
	if (domains->persistent)
		domain = rpi_domains_find(domains, run->program_idx, plan.name);
	else
		retire_ended(run->plane, domains);
	if (domain) {
		err = rpi_domain_same(domain->slot, &plan);
		*domain_out = domain;
		return err ? err : lease_retained(run, domain, plan.timeout_ns);
	}
	err = rpi_domains_allocate(domains, &plan, run->program_idx, &domain, &dirty);
	if (err)
		return err;
	domain->given = *spec;
	domain->given_timeout_ns = plan.timeout_ns;
	*domain_out = domain;
	return lease(run, domains, domain, plan.timeout_ns, RPI_RESET_WHOLE, dirty);
}

int rp_run_domain(struct rp_run *run, const struct rp_domain_spec *spec,
		  struct rp_domain **domain_out)
{
	struct rp_domain *domain;
	int err;

	if (!run || !spec || !domain_out)
		return rpi_fail(-EINVAL, "rp_run_domain: %s NULL, expected one",
				!run	? "run"
				: !spec ? "spec"
					: "domain_out");
	domain = recall(run, spec);
	if (domain) {
		err = check_unused(run, spec->name);
		if (!err)
			err = lease_retained(run, domain, domain->given_timeout_ns);
	} else {
		err = obtain(run, spec, &domain);
	}
	if (err)
		return err;
	*domain_out = domain;
	return 0;
}

int rp_run_release_domain(struct rp_run *run, struct rp_domain *domain)
{
	int err;

	if (!run || !domain)
		return rpi_fail(-EINVAL, "rp_run_release_domain: %s NULL, expected one",
				run ? "domain" : "run");
	err = rpi_domain_check(run, "rp_run_release_domain", domain);
	if (!err)
		domain->lease_run = 0;
	return err;
}

static int find_buffer(const struct rpi_domain_slot *slot, const char *name,
		       uint32_t *what_out)
{
	uint32_t i;

	for (i = 0; i < slot->buffer_count; i++) {
		if (strcmp(slot->buffers[i].name, name))
			continue;
		*what_out = RPI_RESET_BUFFER(i);
		return 0;
	}
	return rpi_fail(-ENOENT, "rp_run_zero_domain: '%s' has no buffer '%s'",
			slot->name, name);
}

int rp_run_zero_domain(struct rp_run *run, struct rp_domain *domain, const char *buffer)
{
	uint32_t what = RPI_RESET_WHOLE;
	int err;

	if (!run || !domain)
		return rpi_fail(-EINVAL, "rp_run_zero_domain: %s NULL, expected one",
				run ? "domain" : "run");
	err = rpi_domain_check(run, "rp_run_zero_domain", domain);
	if (!err && buffer)
		err = find_buffer(domain->slot, buffer, &what);
	if (err)
		return err;
	return rpi_domain_reset(run, "rp_run_zero_domain", domain, what, true);
}

uint64_t rp_domain_generation(const struct rp_domain *domain)
{
	return domain ? domain->generation : 0;
}
