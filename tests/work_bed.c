/* SPDX-License-Identifier: MIT */
#include "work_bed.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static int work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const uint64_t how = args[1].u.scalar.value.u64;
	int err = capture_count_up(chip, "add one, with a name of some length", args, 3);

	(void)nargs;
	if (how == HOW_GATE) {
		atomic_fetch_add(&board->entered[GATE], 1);
		while (!atomic_load(&board->gates[GATE]) && !rp_chip_cancelled(chip))
			bed_breathe();
	}
	if (how == HOW_DIE)
		kill(getpid(), SIGKILL);
	return how == HOW_FAIL ? rp_chip_fail(chip, -EBADMSG, "as it was told") : err;
}

uint32_t passes_seen[PASSES_SEEN], pass_count;

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const uint64_t how = args[1].u.scalar.value.u64;
	const uint32_t chips = rp_run_chip_count(run);
	struct rp_arg seen = rp_in(args[0].u.tensor);
	int err = 0;

	(void)nargs, (void)user;
	if (pass_count < COUNT(passes_seen))
		passes_seen[pass_count++] = rp_run_pass(run);
	for (uint32_t chip = 0; !err && chip < chips; chip++) {
		const bool last = chip + 1 == chips;
		const struct rp_arg task_args[] = {
			rp_inout(args[0].u.tensor),
			rp_arg_u64(last ? how : HOW_WELL),
		};
		const struct rp_task task = { .entry = 0,
					      .chip = (int32_t)chip,
					      .args = task_args,
					      .arg_count = 2 };

		err = rp_run_task(run, &task);
	}
	if (!err && how == HOW_REFUSE)
		return rp_run_fail(run, -EXFULL, "orchestration: as it was told");
	return err ? err : rp_run_callback(run, 0, &seen, 1);
}

void work_open_with(struct work_bed *work_bed, struct rp_worker_options *options)
{
	const struct rp_param params[] = {
		capture_words,
		{ .name = "how", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	};
	static const struct rp_entry entry = { "work", work };

	capture_prepare(&work_bed->bed,
			(struct rp_program_desc){ .name = "captured",
						  .params = params,
						  .param_count = COUNT(params),
						  .entries = &entry,
						  .callbacks = &capture_look,
						  .callback_count = 1,
						  .orchestrate = orchestrate },
			options);
	capture_open(&work_bed->files, &work_bed->config);
	work_bed->x = bed_shared(4096, 0);
	work_bed->args[0] = rp_arg_tensor(TENSOR(work_bed->x, RP_INT64, 8));
	work_bed->args[1] = rp_arg_u64(HOW_WELL);
	pass_count = 0;
}

void work_open(struct work_bed *work_bed, uint32_t chips, uint32_t threads)
{
	struct rp_worker_options options;

	bed_options(&options, chips);
	options.compute_threads = threads;
	work_open_with(work_bed, &options);
}

void work_close(struct work_bed *work_bed)
{
	bed_close(&work_bed->bed);
	capture_close(&work_bed->files);
	rp_shared_free(work_bed->x);
}

int work_run(struct work_bed *work_bed, enum how how)
{
	work_bed->args[1] = rp_arg_u64(how);
	return rp_worker_run(work_bed->bed.worker, work_bed->bed.program, work_bed->args,
			     2, &work_bed->config);
}

json_t *work_load(const struct work_bed *work_bed, const char *name)
{
	return capture_load(&work_bed->files, name, FORMAT);
}
