/* SPDX-License-Identifier: MIT */
#include "trace/capture.h"

#include <errno.h>

#include "base/error.h"
#include "trace/span.h"

/* Device spans are there, and host spans where the files are made of those. */
static int check_built(const char *call, const char *flag, bool on, bool needs_host)
{
	if (!on || (SIMPLER_DFX && (SIMPLER_HOST_STRACE || !needs_host)))
		return 0;
	return rpi_fail(-EOPNOTSUPP,
			"%s: %s: this build has no captures (SIMPLER_HOST_STRACE %d, "
			"SIMPLER_DFX %d)",
			call, flag, SIMPLER_HOST_STRACE, SIMPLER_DFX);
}

int rpi_capture_check(const char *call, const struct rp_capture *capture)
{
	const uint32_t level = capture->enable_chip_swimlane;
	int err;

	if (level > RP_SWIMLANE_LEVEL_MAX)
		return rpi_fail(-EINVAL, "%s: enable_chip_swimlane %u, expected 0..%d",
				call, level, RP_SWIMLANE_LEVEL_MAX);
	if (rpi_capture_is_on(capture) &&
	    (!capture->output_dir || !capture->output_dir[0]))
		return rpi_fail(-EINVAL,
				"%s: output_dir %s, expected a directory for what is "
				"captured",
				call, capture->output_dir ? "''" : "NULL");
	err = check_built(call, "enable_chip_swimlane", level, true);
	if (!err)
		err = check_built(call, "enable_dep_gen", capture->enable_dep_gen, false);
	if (!err)
		err = check_built(call, "enable_pmu", capture->enable_pmu, false);
	if (!err)
		err = check_built(call, "enable_dump_args", capture->enable_dump_args,
				  false);
	if (!err)
		err = check_built(call, "enable_scope_stats", capture->enable_scope_stats,
				  false);
	return err;
}
