/* SPDX-License-Identifier: MIT */
/* What a domain's specification says, checked and laid out. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <ringplane/handle.h>

#include "base/error.h"
#include "comm/round.h"
#include "domain/table.h"

#define DEFAULT_STAGING_BYTES ((size_t)64 << 10)
#define DEFAULT_TIMEOUT_NS    INT64_C(10000000000)
#define WINDOW_BYTES_MAX      ((uint64_t)1 << 40)
#define WINDOW_ALIGN	      ((uint64_t)4096)

void rp_domain_spec_init(struct rp_domain_spec *spec)
{
	memset(spec, 0, sizeof(*spec));
	spec->size = sizeof(*spec);
}

static int check_name(const char *what, const char *name)
{
	if (name && name[0] && strlen(name) < RP_MAX_DOMAIN_NAME)
		return 0;
	return rpi_fail(-EINVAL, "rp_run_domain: %s '%s', expected 1..%d bytes", what,
			name ? name : "(NULL)", RP_MAX_DOMAIN_NAME - 1);
}

static int plan_members(const struct rp_domain_spec *spec, uint32_t chip_count,
			struct rpi_domain_plan *plan)
{
	uint64_t seen = 0;
	uint32_t rank;

	plan->size = spec->chips ? spec->chip_count : chip_count;
	if (!plan->size || plan->size > chip_count ||
	    (!spec->chips && spec->chip_count && spec->chip_count != chip_count))
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' has chip_count %u, expected 1..%u",
				spec->name, spec->chip_count, chip_count);
	for (rank = 0; rank < plan->size; rank++) {
		uint32_t chip = spec->chips ? spec->chips[rank] : rank;

		if (chip >= chip_count)
			return rpi_fail(-EINVAL,
					"rp_run_domain: '%s' chips[%u] is %u, expected "
					"0..%u",
					spec->name, rank, chip, chip_count - 1);
		if (seen >> chip & 1)
			return rpi_fail(-EINVAL,
					"rp_run_domain: '%s' lists chip %u twice",
					spec->name, chip);
		seen |= UINT64_C(1) << chip;
		plan->chips[rank] = (uint8_t)chip;
	}
	return 0;
}

static int plan_buffer(const struct rp_domain_spec *spec, uint32_t idx,
		       struct rpi_domain_plan *plan)
{
	const struct rp_domain_buffer *buffer = &spec->buffers[idx];
	uint32_t bits = rp_dtype_bits((enum rp_dtype)buffer->dtype);
	uint32_t other;
	int err;

	err = check_name("a buffer's name", buffer->name);
	if (err)
		return err;
	for (other = 0; other < idx; other++)
		if (!strcmp(spec->buffers[other].name, buffer->name))
			return rpi_fail(-EINVAL,
					"rp_run_domain: '%s' has two buffers '%s'",
					spec->name, buffer->name);
	if (!bits)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' buffer '%s' has dtype %u, expected "
				"an enum rp_dtype",
				spec->name, buffer->name, buffer->dtype);
	if (buffer->reset > RP_BUFFER_KEEP)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' buffer '%s' has reset %u, expected "
				"an enum rp_buffer_reset",
				spec->name, buffer->name, buffer->reset);
	if (!buffer->count || buffer->count > WINDOW_BYTES_MAX / bits * 8)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' buffer '%s' has count %" PRIu64
				", expected 1..%" PRIu64,
				spec->name, buffer->name, buffer->count,
				WINDOW_BYTES_MAX / bits * 8);
	if (bits < 8 && buffer->count % 2)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' buffer '%s' has count %" PRIu64
				", expected an even one: two elements share a byte",
				spec->name, buffer->name, buffer->count);
	plan->bytes[idx] = buffer->count * bits / 8;
	return 0;
}

/* Buffers in order, each on its own line. */
static int plan_window(const struct rp_domain_spec *spec, struct rpi_domain_plan *plan)
{
	uint64_t sum = 0;
	uint64_t at = 0;
	uint32_t i;
	int err;

	if (spec->buffer_count > RP_MAX_DOMAIN_BUFFERS ||
	    (spec->buffer_count && !spec->buffers))
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' buffer_count %u, expected 0..%d and "
				"buffers",
				spec->name, spec->buffer_count, RP_MAX_DOMAIN_BUFFERS);
	for (i = 0; i < spec->buffer_count; i++) {
		err = plan_buffer(spec, i, plan);
		if (err)
			return err;
		sum += plan->bytes[i];
		plan->offsets[i] = at;
		at += (plan->bytes[i] + RPI_BUFFER_ALIGN - 1) &
		      ~(uint64_t)(RPI_BUFFER_ALIGN - 1);
	}
	if (spec->window_bytes && sum > spec->window_bytes)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' has buffers of %" PRIu64
				" bytes, window_bytes is %zu",
				spec->name, sum, spec->window_bytes);
	if (spec->window_bytes > WINDOW_BYTES_MAX)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' window_bytes %zu, expected at most "
				"%" PRIu64,
				spec->name, spec->window_bytes, WINDOW_BYTES_MAX);
	plan->window_bytes = at > spec->window_bytes ? at : spec->window_bytes;
	if (!plan->window_bytes)
		plan->window_bytes = 1;
	plan->window_bytes = (plan->window_bytes + WINDOW_ALIGN - 1) &
			     ~(WINDOW_ALIGN - 1);
	plan->buffers = spec->buffers;
	plan->buffer_count = spec->buffer_count;
	return 0;
}

static int plan_limits(const struct rp_domain_spec *spec, struct rpi_domain_plan *plan)
{
	const size_t least = RPI_STAGING_BYTES_MIN(plan->size);

	if (spec->staging_bytes && spec->staging_bytes < least)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' staging_bytes %zu, expected 0 or at "
				"least %zu: %zu for each of %u members",
				spec->name, spec->staging_bytes, least,
				RPI_STAGING_BYTES_MIN(1), plan->size);
	if (spec->staging_bytes > WINDOW_BYTES_MAX)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' staging_bytes %zu, expected at most "
				"%" PRIu64,
				spec->name, spec->staging_bytes, WINDOW_BYTES_MAX);
	if (spec->timeout_ns < RP_WAIT_FOREVER)
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' timeout_ns %" PRId64
				", expected 0 or more, or RP_WAIT_FOREVER",
				spec->name, spec->timeout_ns);
	plan->staging_bytes = spec->staging_bytes ? spec->staging_bytes
						  : DEFAULT_STAGING_BYTES;
	plan->staging_bytes = (plan->staging_bytes + WINDOW_ALIGN - 1) &
			      ~(WINDOW_ALIGN - 1);
	plan->timeout_ns = spec->timeout_ns ? spec->timeout_ns : DEFAULT_TIMEOUT_NS;
	return 0;
}

int rpi_domain_plan(const struct rp_domain_spec *spec, uint32_t chip_count,
		    struct rpi_domain_plan *plan_out)
{
	int err;

	if (spec->size != sizeof(*spec))
		return rpi_fail(-EINVAL,
				"rp_run_domain: spec size %zu, expected %zu (use "
				"rp_domain_spec_init())",
				spec->size, sizeof(*spec));
	plan_out->name = spec->name;
	err = check_name("name", spec->name);
	if (!err)
		err = plan_members(spec, chip_count, plan_out);
	if (!err)
		err = plan_window(spec, plan_out);
	if (!err)
		err = plan_limits(spec, plan_out);
	return err;
}

/* What the specification points to may have changed since. */
bool rpi_domain_recalls(const struct rp_domain *domain, const struct rp_domain_spec *spec)
{
	const struct rpi_domain_slot *slot = domain->slot;
	uint32_t i;

	/* Padding that differs costs only the long way:
	 * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
	if (memcmp(&domain->given, spec, sizeof(*spec)) || strcmp(slot->name, spec->name))
		return false;
	for (i = 0; spec->chips && i < spec->chip_count; i++)
		if (spec->chips[i] != slot->chips[i])
			return false;
	for (i = 0; i < spec->buffer_count; i++) {
		const struct rpi_window_buffer *kept = &slot->buffers[i];
		const struct rp_domain_buffer *buffer = &spec->buffers[i];

		if (kept->dtype != buffer->dtype || kept->wanted != buffer->reset ||
		    kept->count != buffer->count || !buffer->name ||
		    strcmp(kept->name, buffer->name))
			return false;
	}
	return true;
}

static int differs(const struct rpi_domain_slot *slot, const char *what, uint64_t was,
		   uint64_t is)
{
	return rpi_fail(-EINVAL,
			"rp_run_domain: '%s' is retained with %s %" PRIu64
			", this run says %" PRIu64,
			slot->name, what, was, is);
}

static int same_buffer(const struct rpi_domain_slot *slot, uint32_t idx,
		       const struct rp_domain_buffer *buffer)
{
	const struct rpi_window_buffer *kept = &slot->buffers[idx];

	if (strcmp(kept->name, buffer->name))
		return rpi_fail(-EINVAL,
				"rp_run_domain: '%s' is retained with buffer %u named "
				"'%s', this run says '%s'",
				slot->name, idx, kept->name, buffer->name);
	if (kept->dtype != buffer->dtype)
		return differs(slot, "a buffer's dtype", kept->dtype, buffer->dtype);
	if (kept->count != buffer->count)
		return differs(slot, "a buffer's count", kept->count, buffer->count);
	if (kept->wanted != buffer->reset)
		return differs(slot, "a buffer's reset", kept->wanted, buffer->reset);
	return 0;
}

int rpi_domain_same(const struct rpi_domain_slot *slot,
		    const struct rpi_domain_plan *plan)
{
	uint32_t i;
	int err = 0;

	if (slot->size != plan->size)
		return differs(slot, "chip_count", slot->size, plan->size);
	for (i = 0; i < plan->size; i++)
		if (slot->chips[i] != plan->chips[i])
			return differs(slot, "a member chip", slot->chips[i],
				       plan->chips[i]);
	if (slot->window_bytes != plan->window_bytes)
		return differs(slot, "window bytes", slot->window_bytes,
			       plan->window_bytes);
	if (slot->staging_bytes != plan->staging_bytes)
		return differs(slot, "staging_bytes", slot->staging_bytes,
			       plan->staging_bytes);
	if (slot->buffer_count != plan->buffer_count)
		return differs(slot, "buffer_count", slot->buffer_count,
			       plan->buffer_count);
	for (i = 0; !err && i < plan->buffer_count; i++)
		err = same_buffer(slot, i, &plan->buffers[i]);
	return err;
}
