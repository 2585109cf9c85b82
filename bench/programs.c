/* SPDX-License-Identifier: MIT */
/* rpbench programs: loading, registering, calling, recording, and one run of all. */
#include "base/error.h"
#include "command.h"
#include "dispatch_bed.h"
#include "limit.h"
#include "programs_bed.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FORK	     "limits.fork"
#define TASKS	     16

static const struct programs_variant variants[] = {
	{ .name = "programs.load",
	  .round = programs_load_round,
	  .no_worker = true,
	  .ops_max = 2000 },
	{ .name = "programs.assemble",
	  .round = programs_assemble_round,
	  .no_worker = true,
	  .ops_max = 2000 },
	{ .name = "programs.register", .round = programs_register_round, .ops_max = 200 },
	{ .name = "programs.register.carried",
	  .round = programs_carry_round,
	  .ops_max = 200 },
	{ .name = "programs.first",
	  .limits = "programs.registered.rtt",
	  .round = programs_first_round,
	  .ops_max = 200 },
	{ .name = "programs.registered.rtt",
	  .limits = DISPATCH_SPIN,
	  .round = programs_registered_round },
	{ .name = "programs.run.rtt",
	  .limits = DISPATCH_SPIN,
	  .round = programs_run_round },
	{ .name = "programs.unrecorded.submit",
	  .round = programs_submit_round,
	  .tasks = TASKS,
	  .tensors = true },
	{ .name = "programs.recorded.submit",
	  .limits = "programs.unrecorded.submit",
	  .round = programs_submit_round,
	  .tasks = TASKS,
	  .tensors = true,
	  .recorded = true },
	{ .name = "programs.unrecorded.submit.noargs",
	  .round = programs_submit_round,
	  .tasks = TASKS },
	{ .name = "programs.recorded.submit.noargs",
	  .limits = "programs.unrecorded.submit.noargs",
	  .round = programs_submit_round,
	  .tasks = TASKS,
	  .recorded = true },
	{ .name = "programs.unrecorded.rtt",
	  .round = programs_rtt_round,
	  .tasks = TASKS,
	  .tensors = true },
	{ .name = "programs.recorded.rtt",
	  .limits = "programs.unrecorded.rtt",
	  .round = programs_rtt_round,
	  .tasks = TASKS,
	  .tensors = true,
	  .recorded = true },
	{ .name = "programs.oneshot",
	  .limits = FORK,
	  .round = programs_oneshot_round,
	  .no_worker = true,
	  .chips = 1,
	  .ops_max = 200 },
	{ .name = "programs.oneshot.2chips",
	  .limits = FORK,
	  .round = programs_oneshot_round,
	  .no_worker = true,
	  .chips = 2,
	  .ops_max = 200 },
};

static int programs_plan(struct bench_plan *plan, const struct bench_options *options)
{
	int err = dispatch_bed_plan_spin(plan);

	(void)options;
	if (!err)
		err = bench_limit_plan(plan, FORK);
	for (size_t i = 0; !err && i < COUNT(variants); i++) {
		struct bench_case c = { .unit = "ns",
					.limits = variants[i].limits,
					.ops_max = variants[i].ops_max,
					.arg = &variants[i],
					.setup = programs_bed_setup,
					.round = variants[i].round,
					.teardown = programs_bed_teardown,
					.enter = programs_bed_enter,
					.leave = programs_bed_leave };

		rpi_format(c.name, sizeof(c.name), "%s", variants[i].name);
		err = bench_plan_add(plan, &c);
	}
	return err;
}

const struct bench_command bench_programs_command = {
	.name = "programs",
	.summary = "programs loaded, registered, called, recorded, run once",
	.plan = programs_plan,
};
