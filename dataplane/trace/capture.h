/* SPDX-License-Identifier: MIT */
/* What a capture asks for, as far as that can be judged without its directory. */
#ifndef RPI_TRACE_CAPTURE_H
#define RPI_TRACE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include <ringplane/capture.h>

static inline bool rpi_capture_is_on(const struct rp_capture *capture)
{
	return capture->enable_chip_swimlane || capture->enable_dep_gen ||
	       capture->enable_pmu || capture->enable_dump_args ||
	       capture->enable_scope_stats;
}

/* Which one holds for a dispatch: its own, or `usual` (NULL: none). NULL: it is not
 * captured. */
static inline const struct rp_capture *rpi_capture_choose(const struct rp_capture *own,
							  const struct rp_capture *usual)
{
	if (own && (own->output_dir || rpi_capture_is_on(own)))
		return rpi_capture_is_on(own) ? own : NULL;
	return usual;
}

/* 0, -EINVAL, or -EOPNOTSUPP for what this build does not have; `call` is for the line.
 */
int rpi_capture_check(const char *call, const struct rp_capture *capture);

#endif
