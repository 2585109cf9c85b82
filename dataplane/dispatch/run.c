/* SPDX-License-Identifier: MIT */
/* What a host orchestration calls. */
#include <ringplane/run.h>

#include <errno.h>

#include "dispatch/frame.h"
#include "dispatch/plane.h"
#include "dispatch/record.h"

int rp_run_task(struct rp_run *run, const struct rp_task *task)
{
	const uint32_t chip_count = run->plane->chip_count;
	uint32_t chip;

	if (!task)
		return rpi_fail(-EINVAL, "rp_run_task: task NULL, expected a task");
	if (task->entry >= run->program->entry_count)
		return rpi_fail(
			-EINVAL, "rp_run_task: entry %u, program '%s' has %u entries",
			task->entry, run->program->name, run->program->entry_count);
	if (task->flags)
		return rpi_fail(-EINVAL, "rp_run_task: flags %#x, expected 0",
				task->flags);
	if (task->chip == RP_CHIP_ANY) {
		chip = run->next_chip;
	} else if (task->chip < 0 || (uint32_t)task->chip >= chip_count) {
		return rpi_fail(-EINVAL,
				"rp_run_task: chip %d, expected 0..%u or RP_CHIP_ANY",
				task->chip, chip_count - 1);
	} else {
		chip = (uint32_t)task->chip;
	}
	/* Pinned tasks do not turn the rotation on. */
	if (task->chip == RP_CHIP_ANY)
		run->next_chip = chip + 1 < chip_count ? chip + 1 : 0;
	return rpi_run_enqueue(run, "rp_run_task", RPI_OP_RUN, chip, task->entry,
			       task->args, task->arg_count);
}

int rp_run_callback(struct rp_run *run, uint32_t callback, const struct rp_arg *args,
		    uint32_t arg_count)
{
	const struct rpi_plane *plane = run->plane;
	uint32_t workers = plane->peer_count - plane->chip_count;
	int err;

	if (callback >= run->program->callback_count)
		return rpi_fail(
			-EINVAL,
			"rp_run_callback: callback %u, program '%s' has %u callbacks",
			callback, run->program->name, run->program->callback_count);
	err = rpi_callback_check(&plane->callbacks[run->program_idx][callback],
				 "rp_run_callback", args, arg_count);
	if (err)
		return err;
	return rpi_run_enqueue(run, "rp_run_callback", RPI_OP_CALLBACK,
			       plane->chip_count + callback % workers, callback, args,
			       arg_count);
}

bool rp_run_callback_bound(const struct rp_run *run, uint32_t callback)
{
	return callback < run->program->callback_count &&
	       run->plane->callbacks[run->program_idx][callback].fn;
}

const struct rp_program *rp_run_program(const struct rp_run *run)
{
	return run->program;
}

uint32_t rp_run_chip_count(const struct rp_run *run)
{
	return run->plane->chip_count;
}

uint64_t rp_run_id(const struct rp_run *run)
{
	/* No other run has it. */
	if (rpi_unlikely(run->recording != NULL))
		run->recording->refused = "it asks for the run's number";
	return run->seq;
}

uint32_t rp_run_pass(const struct rp_run *run)
{
	return run->pass;
}

const struct rp_run_config *rp_run_get_config(const struct rp_run *run)
{
	if (rpi_unlikely(run->recording != NULL))
		run->recording->reads_config = true;
	return &run->frame->config;
}

int rp_run_fail(struct rp_run *run, int code, const char *format, ...)
{
	va_list args;

	(void)run;
	va_start(args, format);
	rpi_vfail(code, format, args);
	va_end(args);
	return code;
}
