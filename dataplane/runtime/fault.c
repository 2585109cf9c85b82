/* SPDX-License-Identifier: MIT */
/*
 * The first thing that goes wrong in a run, whoever finds it.
 *
 *   K4 fault   the finder writes code and text -> state SET (release);
 *              the submitter's state (acquire) -> reads them
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "runtime/runtime.h"

int rpi_fault_set(struct rpi_fault *fault, int code, const char *text)
{
	uint32_t none = RPI_FAULT_NONE;

	if (!atomic_compare_exchange_strong_explicit(
		    &fault->state, &none, RPI_FAULT_CLAIMED, memory_order_relaxed,
		    memory_order_relaxed))
		return code;
	fault->code = code;
	rpi_format(fault->text, sizeof(fault->text), "%s", text);
	/* K4 */
	atomic_store_explicit(&fault->state, RPI_FAULT_SET, memory_order_release);
	return code;
}

/* The kernel's own bound. */
#define ERRNO_MAX 4095

int rpi_fault_kernel(struct rpi_fault *fault, const char *name, uint64_t index,
		     uint32_t ring, int status)
{
	char text[RPI_ERROR_BYTES];
	char why[80];

	if (status > 0) {
		rpi_format(why, sizeof(why),
			   "returned %d, expected 0 or a negative errno", status);
		status = -EINVAL;
	} else {
		/* Any int may come back; past this no errno lies. */
		rpi_format(why, sizeof(why), "%s",
			   status >= -ERRNO_MAX ? strerror(-status) : "not an errno");
	}
	rpi_format(text, sizeof(text), "kernel %" PRIu64 " '%s' (ring %u): %s", index,
		   name ? name : "", ring, why);
	return rpi_fault_set(fault, status, text);
}

int rpi_fault_hurdle(struct rpi_fault *fault, const struct rpi_flight *slot, int status)
{
	char text[RPI_ERROR_BYTES];

	rpi_format(text, sizeof(text), "kernel %" PRIu64 " '%s' (ring %u): %s",
		   slot->index, slot->name ? slot->name : "", slot->ring,
		   rp_last_error());
	return rpi_fault_set(fault, status, text);
}

int rpi_fault_repeat(struct rpi_fault *fault)
{
	/* K4. Its finder is about to. */
	while (atomic_load_explicit(&fault->state, memory_order_acquire) != RPI_FAULT_SET)
		sched_yield();
	rpi_error_set(fault->text);
	return fault->code;
}
